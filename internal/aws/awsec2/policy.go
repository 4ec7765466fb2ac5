// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/identity"
)

// Component is a part of multieni with permissions of its own.
type Component string

// The components that call EC2.
const (
	// Controller is `multieni controller`.
	Controller Component = "controller"
	// NodeTemplates is the part of `multieni controller` that publishes launch templates for AWSNodeTemplates, in
	// addition to Controller.
	NodeTemplates Component = "node-templates"
	// SubnetReservations is the part of `multieni controller` that creates and deletes subnet CIDR reservations for
	// SubnetReservations, in addition to Controller.
	SubnetReservations Component = "subnet-reservations"
	// Operator is the user of `kubectl eni`: it reads, collects leaks, and imports interfaces of other controllers.
	Operator Component = "operator"
	// LifecycleHook is `multieni lifecycle-hook`, in AWS Lambda or with a queue. It calls Auto Scaling and SQS as well.
	LifecycleHook Component = "lifecycle-hook"
	// Bootstrap is eni-bootstrap, with the role of the instance on which it runs.
	Bootstrap Component = "eni-bootstrap"
)

// Components returns all components.
func Components() []Component {
	return []Component{Controller, NodeTemplates, SubnetReservations, Operator, LifecycleHook, Bootstrap}
}

// PolicyOptions restrict a policy to parts of an account.
type PolicyOptions struct {
	// Partition is the only partition of AWS in which the policy is valid, for example "aws-us-gov". If empty, the ARNs
	// have a wildcard, and the policy is valid in each: an account is in one partition, so this allows nothing more (IAM
	// user guide, "IAM JSON policy elements: Resource", wildcards within the segments of an ARN).
	Partition string
	// Cluster is the name of the cluster in tags. If empty, the policy requires any name. With EKS Pod Identity, and
	// the name of the EKS cluster as cluster name, "${aws:PrincipalTag/eks-cluster-name}" makes one policy for all
	// clusters.
	Cluster string
	// InstanceTag is a tag, KEY=VALUE, of the instances that interfaces may be attached to; all instances if empty.
	InstanceTag string
	// SubnetIDs and SecurityGroupIDs are those that interfaces may use; all if empty.
	SubnetIDs, SecurityGroupIDs []string
	// LaunchTemplateIDs are launch templates of a user from which NodeTemplates may try a launch, besides those with the
	// cluster's tag.
	LaunchTemplateIDs []string
	// AutoScalingGroups are the names of the groups whose lifecycle actions LifecycleHook may complete; all if empty.
	AutoScalingGroups []string
}

// partition matches the names of partitions: aws, aws-cn, aws-us-gov, aws-eusc, and aws-iso with its successors.
var partition = regexp.MustCompile(`^(aws(-[a-z]+)*)?$`)

// statement is one statement of an IAM policy.
type statement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  []string
	Condition condition `json:",omitempty"`
}

// condition has the values to compare with, by operator and key.
type condition map[string]map[string]any

// Policy returns the IAM policy of a component: every action of [API], [LaunchAPI], [ReservationAPI] or [OperatorAPI]
// that the component calls, on the kinds of resources that it touches (Service Authorization Reference, "Actions,
// resources, and condition keys for Amazon EC2"). The policy allows to create interfaces only with the cluster's tag,
// and to change or tag only interfaces with it.
func Policy(component Component, o PolicyOptions) ([]byte, error) {
	if !partition.MatchString(o.Partition) {
		return nil, fmt.Errorf("%q is no partition of AWS: the ARN of the role begins with it, as in arn:aws-us-gov:iam::…",
			o.Partition)
	}
	o.Partition = cmp.Or(o.Partition, "*")
	if key, _, found := strings.Cut(o.InstanceTag, "="); o.InstanceTag != "" && (!found || key == "") {
		return nil, fmt.Errorf("the tag %q of instances is not KEY=VALUE", o.InstanceTag)
	}
	var all []statement
	switch component {
	case Controller:
		all = o.controller()
	case NodeTemplates:
		all = o.nodeTemplates()
	case SubnetReservations:
		all = o.subnetReservations()
	case Operator:
		all = o.operator()
	case LifecycleHook:
		all = o.lifecycleHook()
	case Bootstrap:
		all = o.bootstrap()
	default:
		return nil, fmt.Errorf("there is no component %q", component)
	}
	content, err := json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", all}, "", "  ")
	return append(content, '\n'), err
}

// called returns the actions of [API] with these prefixes, launching those of [LaunchAPI], reserving those of
// [ReservationAPI], operating those of [OperatorAPI].
func called(prefixes ...string) []string { return beginning(apiActions(), prefixes) }

func launching(prefixes ...string) []string { return beginning(launchActions(), prefixes) }

func reserving(prefixes ...string) []string { return beginning(reservationActions(), prefixes) }

func operating(prefixes ...string) []string { return beginning(operatorActions(), prefixes) }

func beginning(all, prefixes []string) []string {
	var actions []string
	for _, action := range all {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(action, p) }) {
			actions = append(actions, "ec2:"+action)
		}
	}
	return actions
}

func (o PolicyOptions) controller() []statement {
	return []statement{
		o.look(),
		o.allow("CreateForTheCluster", called("CreateNetworkInterface"), o.withCondition("aws:RequestTag"),
			"network-interface"),
		o.allow("CreateInSubnets", called("CreateNetworkInterface"), o.inSubnets(), "subnet"),
		o.allow("CreateWithSecurityGroups", called("CreateNetworkInterface"), o.withGroups(), "security-group"),
		o.allow("TagWhatIsCreated", called("CreateTags"),
			with(o.withCondition("aws:RequestTag"), "StringEquals", "ec2:CreateAction", "CreateNetworkInterface"),
			"network-interface"),
		o.allow("TagWhatIsTheClusters", called("CreateTags"), o.keepingIts(), "network-interface"),
		o.allow("ChangeWhatIsTheClusters", called("Attach", "Detach", "Delete", "Modify", "Assign", "Unassign"),
			o.withCondition("aws:ResourceTag"), "network-interface"),
		o.allow("AttachToInstances", called("Attach", "Detach", "Modify"), o.tagged(), "instance"),
		o.allow("UseSecurityGroups", called("Modify"), o.withGroups(), "security-group"),
	}
}

// nodeTemplates has the calls for launch templates, the reads that show whether a group or a fleet still names one, and
// the permissions that EC2 requires for a template with an image from one of AWS's parameters. The controller calls
// RunInstances only as a dry run, to check a template. A policy cannot distinguish that from a launch, but it can
// require that all launches use the cluster's launch templates.
func (o PolicyOptions) nodeTemplates() []statement {
	created := func(action string, c condition) condition {
		return with(c, "StringEquals", "ec2:CreateAction", action)
	}
	fromTemplate := condition{"StringLike": {"ec2:LaunchTemplate": fmt.Sprintf("arn:%s:ec2:*:*:launch-template/*",
		o.Partition)}}
	all := []statement{
		{Sid: "LookAtLaunches", Effect: "Allow", Action: launching("Describe"), Resource: []string{"*"}},
		o.allow("CreateForTheCluster", []string{"ec2:CreateLaunchTemplate"}, o.withCondition("aws:RequestTag"),
			"launch-template"),
		o.allow("TagWhatIsCreated", called("CreateTags"),
			created("CreateLaunchTemplate", o.withCondition("aws:RequestTag")), "launch-template"),
		o.allow("TagWhatIsTheClusters", called("CreateTags"), o.keepingIts(), "launch-template"),
		o.allow("ChangeWhatIsTheClusters", launching("CreateLaunchTemplateVersion", "Delete"),
			o.withCondition("aws:ResourceTag"), "launch-template"),
		o.allow("TryWhatIsTheClusters", launching("RunInstances"), o.withCondition("aws:ResourceTag"), "launch-template"),
		o.allow("TryFromLaunchTemplates", launching("RunInstances"), fromTemplate,
			"instance", "volume", "network-interface", "subnet", "security-group", "image", "snapshot", "key-pair",
			"placement-group", "capacity-reservation"),
		o.allow("TagWhatIsTried", called("CreateTags"), created("RunInstances", o.withCondition("aws:RequestTag")),
			"instance", "volume", "network-interface"),
		{Sid: "SeeWhoLaunches", Effect: "Allow", Action: []string{"autoscaling:DescribeAutoScalingGroups"},
			Resource: []string{"*"}},
		{Sid: "ResolveImages", Effect: "Allow", Action: []string{"ssm:GetParameters"},
			Resource: []string{fmt.Sprintf("arn:%s:ssm:*::parameter/aws/service/*", o.Partition)}},
	}
	if len(o.LaunchTemplateIDs) > 0 {
		// The tags of the resources that a launch creates are the user's.
		all = append(all, o.allow("TagWhatIsTriedOfYours", called("CreateTags"), created("RunInstances", nil),
			"instance", "volume", "network-interface"),
			statement{Sid: "TryWhatIsYours", Effect: "Allow", Action: launching("RunInstances"),
				Resource: o.arns("ec2", "launch-template", o.LaunchTemplateIDs)})
	}
	return all
}

// subnetReservations lets the controller reserve in subnets, and delete reservations with the cluster's tag.
func (o PolicyOptions) subnetReservations() []statement {
	created := with(o.withCondition("aws:RequestTag"), "StringEquals", "ec2:CreateAction", "CreateSubnetCidrReservation")
	return []statement{
		o.allow("ReserveInSubnets", reserving("Create"), o.inSubnets(), "subnet"),
		o.allow("ReserveForTheCluster", reserving("Create"), o.withCondition("aws:RequestTag"), "subnet-cidr-reservation"),
		o.allow("TagWhatIsCreated", called("CreateTags"), created, "subnet-cidr-reservation"),
		o.allow("DeleteWhatIsTheClusters", reserving("Delete"), o.withCondition("aws:ResourceTag"),
			"subnet-cidr-reservation"),
	}
}

func (o PolicyOptions) operator() []statement {
	stranger := with(o.withCondition("aws:RequestTag"), "Null", "aws:ResourceTag/"+identity.TagCluster, "true")
	// Without a key in the request EC2 would remove all tags.
	imported := with(o.withCondition("aws:ResourceTag"), "Null", "aws:ResourceTag/"+identity.TagImportedFrom, "false")
	imported = with(imported, "Null", "aws:TagKeys", "false")
	imported = with(imported, "ForAllValues:StringLike", "aws:TagKeys", []string{identity.Prefix + "*"})
	return []statement{
		o.look(),
		o.allow("CollectLeaks", called("DeleteNetworkInterface"), o.withCondition("aws:ResourceTag"), "network-interface"),
		o.allow("ImportWhatIsNobodys", called("CreateTags"), stranger, "network-interface"),
		o.allow("UndoImports", operating("Delete"), imported, "network-interface"),
	}
}

// lifecycleHook has the calls for all instances of the cluster, like the controller's. The name of its queue is not
// known here.
func (o PolicyOptions) lifecycleHook() []statement {
	elsewhere := func(sid string, resources []string, actions ...string) statement {
		return statement{Sid: sid, Effect: "Allow", Action: actions, Resource: resources}
	}
	all := []string{"*"}
	return append(o.controller(),
		elsewhere("LookAtGroups", all, "autoscaling:DescribeAutoScalingInstances", "autoscaling:DescribeLifecycleHooks"),
		elsewhere("CompleteHooks", o.arns("autoscaling", "autoScalingGroup:*:autoScalingGroupName", o.AutoScalingGroups),
			"autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"),
		elsewhere("TakeEvents", []string{fmt.Sprintf("arn:%s:sqs:*:*:*", o.Partition)},
			"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"),
	)
}

// bootstrap lets an instance create, change and attach interfaces with its own tags, and attach them only to itself.
// The role's session is named after the instance, so that aws:userid ends with the instance's ID (IAM user guide, "AWS
// global condition context keys", aws:userid of a role assigned to an EC2 instance).
func (o PolicyOptions) bootstrap() []statement {
	itself := condition{"StringLike": {"aws:userid": "*:${ec2:InstanceID}"}}
	return []statement{
		o.look(),
		o.allow("CreateForItself", called("CreateNetworkInterface"), o.ownedCondition("aws:RequestTag"), "network-interface"),
		o.allow("CreateInSubnets", called("CreateNetworkInterface"), o.inSubnets(), "subnet"),
		o.allow("CreateWithSecurityGroups", called("CreateNetworkInterface"), o.withGroups(), "security-group"),
		o.allow("TagWhatIsCreated", called("CreateTags"),
			with(o.ownedCondition("aws:RequestTag"), "StringEquals", "ec2:CreateAction", "CreateNetworkInterface"),
			"network-interface"),
		o.allow("TagItsOwn", called("CreateTags"),
			o.unchangedTags(o.ownedCondition("aws:ResourceTag"), identity.TagCluster, identity.TagInstanceID),
			"network-interface"),
		o.allow("ChangeItsOwn", called("Attach", "Detach", "Delete", "Modify", "Assign", "Unassign"),
			o.ownedCondition("aws:ResourceTag"), "network-interface"),
		o.allow("AttachToItself", called("Attach", "Detach", "Modify"), itself, "instance"),
		o.allow("UseSecurityGroups", called("Modify"), o.withGroups(), "security-group"),
	}
}

func (o PolicyOptions) look() statement {
	return statement{Sid: "Look", Effect: "Allow", Action: called("Describe", "Get"), Resource: []string{"*"}}
}

// among requires one of the values for the key, if values is not empty.
func among(key string, values []string) condition {
	if len(values) == 0 {
		return nil
	}
	return condition{"StringEquals": {key: values}}
}

func (o PolicyOptions) inSubnets() condition { return among("ec2:SubnetID", o.SubnetIDs) }

func (o PolicyOptions) withGroups() condition {
	return among("ec2:SecurityGroupID", o.SecurityGroupIDs)
}

// arns returns the ARNs of resources of a kind by name or, without names, of all resources of the kind.
func (o PolicyOptions) arns(service, kind string, names []string) []string {
	if len(names) == 0 {
		names = []string{"*"}
	}
	var arns []string
	for _, name := range names {
		arns = append(arns, fmt.Sprintf("arn:%s:%s:*:*:%s/%s", o.Partition, service, kind, name))
	}
	return arns
}

// tagged requires the tag of the cluster's instances, if the options name one.
func (o PolicyOptions) tagged() condition {
	if o.InstanceTag == "" {
		return nil
	}
	key, value, _ := strings.Cut(o.InstanceTag, "=")
	return condition{"StringEquals": {"aws:ResourceTag/" + key: value}}
}

func (o PolicyOptions) allow(sid string, actions []string, c condition, kinds ...string) statement {
	s := statement{Sid: sid, Effect: "Allow", Action: actions, Condition: c}
	for _, kind := range kinds {
		s.Resource = append(s.Resource, o.arns("ec2", kind, nil)...)
	}
	return s
}

// withCondition requires the cluster's tag, in the request or on the resource.
func (o PolicyOptions) withCondition(where string) condition {
	key := where + "/" + identity.TagCluster
	if o.Cluster == "" {
		return condition{"StringLike": {key: "?*"}}
	}
	return condition{"StringEquals": {key: o.Cluster}}
}

// ownedCondition requires the tags of the cluster and of the calling instance, in the request or on the resource. A
// wildcard in a requested instance ID would match every caller.
func (o PolicyOptions) ownedCondition(where string) condition {
	key := where + "/" + identity.TagInstanceID
	c := with(o.withCondition(where), "StringLike", "aws:userid", fmt.Sprintf("*:${%s}", key))
	if where == "aws:RequestTag" {
		c = with(c, "StringNotLike", key, []string{"*${*}*", "*${?}*"})
	}
	return c
}

// keepingIts requires the cluster's tag on the resource, and forbids another value in a request.
func (o PolicyOptions) keepingIts() condition {
	return o.unchangedTags(o.withCondition("aws:ResourceTag"), identity.TagCluster)
}

// unchangedTags requires that a request with one of the tags has the value of the resource.
func (o PolicyOptions) unchangedTags(c condition, tags ...string) condition {
	for _, tag := range tags {
		value := "${aws:ResourceTag/" + tag + "}"
		if tag == identity.TagCluster && o.Cluster != "" {
			value = o.Cluster
		}
		c = with(c, "StringEqualsIfExists", "aws:RequestTag/"+tag, value)
	}
	return c
}

func with(c condition, operator, key string, value any) condition {
	if c == nil {
		c = condition{}
	}
	if c[operator] == nil {
		c[operator] = map[string]any{}
	}
	c[operator][key] = value
	return c
}
