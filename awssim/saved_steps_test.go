// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"strconv"
	"time"

	"pgregory.net/rapid"
)

// steps are the random calls. AWS may refuse any of them.
func (p *player) steps() map[string]func() {
	return map[string]func(){
		"create":       p.create,
		"attach":       p.attach,
		"detach":       p.detach,
		"assign":       p.assign,
		"tag":          p.tag,
		"launch":       p.launch,
		"change state": p.changeState,
		"delete":       func() { p.ec2("DeleteNetworkInterface", "NetworkInterfaceId", p.networkInterface()) },
		"reserve":      p.reserve,
		"template":     p.template,
		"fleet":        p.fleet,
		"group":        p.group,
		"hook":         p.hook,
		"message":      p.message,
		"rule":         p.rule,
		"parameter":    func() { p.json("AmazonSSM.PutParameter", `{"Name":"/p","Type":"String","Overwrite":true,"Value":"v"}`) },
		"fault":        p.fault,
		"event":        func() { p.post("/_sim/events", `{"source":"x","detailType":"y","detail":{"a":1}}`, "", "") },
		"describe":     func() { p.ec2("DescribeNetworkInterfaces") },
		"rest":         func() { p.wait(time.Duration(rapid.IntRange(1, 5000).Draw(p.t, "rest")) * time.Second) },
	}
}

func (p *player) networkInterface() string {
	var ids []string
	for _, eni := range p.state().NetworkInterfaces {
		ids = append(ids, eni.NetworkInterfaceID)
	}
	return p.pick("interface", ids...)
}

func (p *player) attachment() string {
	var ids []string
	for _, eni := range p.state().NetworkInterfaces {
		if eni.Attachment != nil {
			ids = append(ids, eni.Attachment.AttachmentID)
		}
	}
	return p.pick("attachment", ids...)
}

func (p *player) instance() string {
	var ids []string
	for _, instance := range p.state().Instances {
		ids = append(ids, instance.InstanceID)
	}
	return p.pick("instance", ids...)
}

func (p *player) subnet() string {
	return p.pick("subnet", "subnet-0f59b4f14737be9ad", "subnet-0bb0000000000000b", "subnet-0aa0000000000000a")
}

// token draws one of few, so that many calls repeat one.
func (p *player) token() string { return p.pick("token", "", "t1", "t2", "t3", "t4") }

func (p *player) number(of string, most int) string {
	return strconv.Itoa(rapid.IntRange(0, most).Draw(p.t, of))
}

func (p *player) create() {
	parameters := []string{"SubnetId", p.subnet(), "ClientToken", p.token()}
	switch p.pick("addresses", "one", "several", "prefix", "six") {
	case "several":
		parameters = append(parameters, "SecondaryPrivateIpAddressCount", p.number("addresses", 4))
	case "prefix":
		parameters = append(parameters, "Ipv4PrefixCount", "1")
	case "six":
		parameters = append(parameters, "Ipv6AddressCount", "2")
	}
	p.ec2("CreateNetworkInterface", parameters...)
}

func (p *player) attach() {
	p.ec2("AttachNetworkInterface", "NetworkInterfaceId", p.networkInterface(), "InstanceId", p.instance(),
		"DeviceIndex", p.number("device", 3))
}

func (p *player) detach() {
	p.ec2("DetachNetworkInterface", "AttachmentId", p.attachment(), "Force", p.pick("force", "true", "false"))
}

func (p *player) assign() {
	eni := p.networkInterface()
	switch p.pick("assign", "4", "6", "prefix", "delete on termination", "description") {
	case "4":
		p.ec2("AssignPrivateIpAddresses", "NetworkInterfaceId", eni, "SecondaryPrivateIpAddressCount", "2")
	case "6":
		p.ec2("AssignIpv6Addresses", "NetworkInterfaceId", eni, "Ipv6AddressCount", "1")
	case "prefix":
		p.ec2("AssignIpv6Addresses", "NetworkInterfaceId", eni, "Ipv6PrefixCount", "1")
	case "delete on termination":
		p.ec2("ModifyNetworkInterfaceAttribute", "NetworkInterfaceId", eni, "Attachment.AttachmentId", p.attachment(),
			"Attachment.DeleteOnTermination", "true")
	case "description":
		p.ec2("ModifyNetworkInterfaceAttribute", "NetworkInterfaceId", eni, "Description.Value", p.number("text", 9))
	}
}

func (p *player) tag() {
	resource := p.pick("tagged", p.networkInterface(), p.instance(), p.subnet(), "vpc-0b1f1e5a2c3d4e5f6", "sg-0aa00000000000001")
	p.ec2(p.pick("tag", "CreateTags", "DeleteTags"), "ResourceId.1", resource, "Tag.1.Key", p.pick("key", "a", "Name"), "Tag.1.Value", "v")
}

func (p *player) launch() {
	p.ec2("RunInstances", "ImageId", "ami-0123456789abcdef0", "InstanceType", "m5.large", "MinCount", "1", "MaxCount", "2",
		"SubnetId", p.subnet(), "ClientToken", p.token(), "UserData", "aGVsbG8=", "DisableApiTermination", p.pick("protect", "true", "false"))
}

func (p *player) changeState() {
	p.ec2(p.pick("change", "StopInstances", "StartInstances", "TerminateInstances"), "InstanceId.1", p.instance())
}

func (p *player) reserve() {
	if all := p.state().SubnetCIDRReservations; len(all) > 0 && rapid.Bool().Draw(p.t, "end it") {
		p.ec2("DeleteSubnetCidrReservation", "SubnetCidrReservationId", all[0].SubnetCIDRReservationID)
		return
	}
	p.ec2("CreateSubnetCidrReservation", "SubnetId", "subnet-0f59b4f14737be9ad", "ReservationType", p.pick("type", "prefix", "explicit"),
		"Cidr", p.pick("block", "10.0.64.0/28", "10.0.64.16/28", "10.0.65.0/24"))
}

func (p *player) template() {
	switch p.pick("template", "create", "version", "delete") {
	case "create":
		p.ec2("CreateLaunchTemplate", "LaunchTemplateName", p.pick("name", "one", "two"), "ClientToken", p.token(),
			"LaunchTemplateData.InstanceType", "m5.large", "LaunchTemplateData.ImageId", "ami-0123456789abcdef0")
	case "version":
		p.ec2("CreateLaunchTemplateVersion", "LaunchTemplateName", "one", "LaunchTemplateData.InstanceType", "c5.large",
			"SourceVersion", "1", "ClientToken", p.token())
	case "delete":
		p.ec2("DeleteLaunchTemplateVersions", "LaunchTemplateName", "one", "LaunchTemplateVersion.1", "2")
	}
}

func (p *player) fleet() {
	if all := p.state().Fleets; len(all) > 0 && rapid.Bool().Draw(p.t, "end it") {
		p.ec2("DeleteFleets", "FleetId.1", all[0].FleetID, "TerminateInstances", "true")
		return
	}
	p.ec2("CreateFleet", "Type", p.pick("type", "instant", "maintain", "request"), "ClientToken", p.token(),
		"TargetCapacitySpecification.TotalTargetCapacity", "1",
		"LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName", "workers",
		"LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "1",
		"LaunchTemplateConfigs.1.Overrides.1.SubnetId", "subnet-0aa0000000000000a",
		"TagSpecification.1.ResourceType", "instance", "TagSpecification.1.Tag.1.Key", "of", "TagSpecification.1.Tag.1.Value", "fleet")
}

func (p *player) group() {
	switch p.pick("group", "size", "create", "delete") {
	case "size":
		p.groups("SetDesiredCapacity", "AutoScalingGroupName", "workers", "DesiredCapacity", p.number("size", 2))
	case "create":
		p.groups("CreateAutoScalingGroup", "AutoScalingGroupName", "more", "LaunchTemplate.LaunchTemplateName", "workers",
			"LaunchTemplate.Version", "1", "MinSize", "0", "MaxSize", "2", "DesiredCapacity", "1", "AvailabilityZones.member.1", "us-east-1b")
	case "delete":
		p.groups("DeleteAutoScalingGroup", "AutoScalingGroupName", "more", "ForceDelete", "true")
	}
}

func (p *player) hook() {
	action := p.pick("hook", "CompleteLifecycleAction", "RecordLifecycleActionHeartbeat", "PutLifecycleHook")
	if action == "PutLifecycleHook" {
		p.groups(action, "AutoScalingGroupName", "workers", "LifecycleHookName", "leave", "HeartbeatTimeout", "60",
			"LifecycleTransition", "autoscaling:EC2_INSTANCE_TERMINATING", "NotificationTargetARN", "arn:aws:sqs:us-east-1:123456789012:hooks")
		return
	}
	p.groups(action, "AutoScalingGroupName", "workers", "LifecycleHookName", "attach", "InstanceId", p.instance(),
		"LifecycleActionResult", "CONTINUE")
}

func (p *player) message() {
	const queue = `"QueueUrl":"http://simulated/1/hooks"`
	switch p.pick("message", "send", "receive", "create") {
	case "send":
		p.json("AmazonSQS.SendMessage", `{`+queue+`,"MessageBody":"hello <there> &","DelaySeconds":`+p.number("delay", 20)+`}`)
	case "receive":
		p.json("AmazonSQS.ReceiveMessage", `{`+queue+`,"MaxNumberOfMessages":2,"VisibilityTimeout":30}`)
	case "create":
		p.json("AmazonSQS.CreateQueue", `{"QueueName":"`+p.pick("queue", "a", "b")+`"}`)
	}
}

func (p *player) rule() {
	p.json("AWSEvents.PutRule", `{"Name":"all","EventPattern":"{\"source\":[\"aws.ec2\",\"x\"]}"}`)
	p.json("AWSEvents.PutTargets", `{"Rule":"all","Targets":[{"Id":"q","Arn":"arn:aws:sqs:us-east-1:123456789012:hooks"}]}`)
}

func (p *player) fault() {
	p.post("/_sim/faults", p.pick("fault",
		`{"kind":"staleRead","age":"30s","jitter":true,"probability":0.3,"duration":"5m"}`,
		`{"kind":"hideNew","age":"20s","probability":0.5,"count":3}`,
		`{"kind":"stuckAttaching","probability":0.3,"duration":"10m"}`,
		`{"kind":"stuckDetaching","every":2,"count":4}`,
		`{"kind":"loseReply","probability":0.1,"duration":"1h"}`,
		`{"kind":"forgetToken","probability":0.2,"duration":"1h"}`,
		`{"kind":"duplicate","probability":0.5,"duration":"1h"}`,
		`{"kind":"throttle","probability":0.1,"duration":"10m"}`), "", "")
}
