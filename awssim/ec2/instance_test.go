// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
)

// run is a request for count instances in subnetA.
func run(count int) *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		LaunchTemplateData: ec2.LaunchTemplateData{ImageID: "ami-1", InstanceType: "m5.xlarge"},
		SubnetID:           subnetA, MinCount: &count, MaxCount: &count,
	}
}

func at(card, device int, change ...func(*ec2.InterfaceSpecification)) ec2.InterfaceSpecification {
	spec := ec2.InterfaceSpecification{
		InterfaceSettings: ec2.InterfaceSettings{SubnetID: subnetA}, NetworkCardIndex: &card, DeviceIndex: &device,
	}
	for _, c := range change {
		c(&spec)
	}
	return spec
}

func runWith(specs ...ec2.InterfaceSpecification) *ec2.RunInstancesInput {
	in := run(1)
	in.SubnetID, in.NetworkInterfaces = "", specs
	return in
}

func TestRunInstances(t *testing.T) {
	s := play(t, ec2.Behavior{Start: exactly(10 * time.Second)})
	in := run(2)
	in.TagSpecifications = []ec2.TagSpecification{
		{ResourceType: "instance", Tags: []ec2.Tag{tag("Name", "node")}},
		{ResourceType: "network-interface", Tags: []ec2.Tag{tag("of", "node")}},
	}
	out, err := s.RunInstances(s.call, in)
	s.must(err)
	if len(out.Instances) != 2 || out.Instances[0].ReservationID != out.ReservationID {
		t.Fatalf("reservation %+v", out)
	}
	instance := out.Instances[1]
	primary := instance.NetworkInterfaces[0]
	switch {
	case instance.State.Name != ec2.Pending, instance.AMILaunchIndex != 1, instance.Tags["Name"] != "node":
		t.Errorf("instance %+v", instance)
	case !primary.Attachment.DeleteOnTermination, primary.Tags["of"] != "node", status(primary) != "in-use/attaching":
		t.Errorf("primary interface %+v", primary)
	case instance.PrivateIPAddress != primary.PrivateIPAddress, instance.SubnetID != subnetA:
		t.Errorf("instance in %s at %s", instance.SubnetID, instance.PrivateIPAddress)
	}
	s.wait(10 * time.Second)
	if now := s.instance(instance.InstanceID); now.State.Name != ec2.Running || status(now.NetworkInterfaces[0]) != "in-use/attached" {
		t.Errorf("after the start: %s, %s", now.State.Name, status(now.NetworkInterfaces[0]))
	}
}

func TestRunInstancesWithInterfaces(t *testing.T) {
	s := play(t, ec2.Behavior{})
	existing := s.create(subnetA2)
	in := runWith(
		at(1, 1),
		at(0, 1, func(spec *ec2.InterfaceSpecification) { spec.SubnetID, spec.NetworkInterfaceID = "", existing }),
		at(0, 0, func(spec *ec2.InterfaceSpecification) { spec.DeleteOnTermination = new(false) }),
	)
	in.InstanceType = "p4d.24xlarge"
	out, err := s.RunInstances(s.call, in)
	s.must(err)
	enis := s.instance(out.Instances[0].InstanceID).NetworkInterfaces
	if len(enis) != 3 || enis[1].NetworkInterfaceID != existing {
		t.Fatalf("%d interfaces, the second is %s", len(enis), enis[1].NetworkInterfaceID)
	}
	for i, want := range []bool{false, false, true} {
		if got := enis[i].Attachment.DeleteOnTermination; got != want {
			t.Errorf("interface %d: deleteOnTermination %v, want %v", i, got, want)
		}
	}
}

func TestRunInstancesRefusals(t *testing.T) {
	try := func(in *ec2.RunInstancesInput) func(*scene) error {
		return func(s *scene) error {
			before := s.State(s.call)
			_, err := s.RunInstances(s.call, in)
			if after := s.State(s.call); len(after.Instances) != len(before.Instances) || len(after.NetworkInterfaces) != len(before.NetworkInterfaces) {
				s.Error("a refused launch left something behind")
			}
			return err
		}
	}
	with := func(change func(*ec2.RunInstancesInput)) func(*scene) error {
		in := run(1)
		change(in)
		return try(in)
	}
	public := func(spec *ec2.InterfaceSpecification) { spec.AssociatePublicIPAddress = new(true) }
	refusals(t, map[string]refusal{
		"timeouts of connection tracking on a type without Nitro": {"InvalidParameterValue", func(s *scene) error {
			in := runWith(at(0, 0, func(spec *ec2.InterfaceSpecification) {
				spec.ConnectionTracking = &ec2.ConnectionTracking{UDPTimeout: new(45)}
			}))
			in.InstanceType = "m4.large"
			return try(in)(s)
		}},
		"no image":       {"MissingParameter", with(func(in *ec2.RunInstancesInput) { in.ImageID = "" })},
		"no count":       {"MissingParameter", with(func(in *ec2.RunInstancesInput) { in.MinCount = nil })},
		"no instances":   {"InvalidParameterValue", with(func(in *ec2.RunInstancesInput) { in.MinCount, in.MaxCount = new(0), new(0) })},
		"unknown type":   {"InvalidParameterValue", with(func(in *ec2.RunInstancesInput) { in.InstanceType = "z9.nano" })},
		"unknown subnet": {"InvalidSubnetID.NotFound", with(func(in *ec2.RunInstancesInput) { in.SubnetID = "subnet-0000000000000dead" })},
		"no subnet's ID": {"InvalidSubnetID.Malformed", with(func(in *ec2.RunInstancesInput) { in.SubnetID = "subnet-x" })},
		"no default VPC": {"VPCIdNotSpecified", with(func(in *ec2.RunInstancesInput) { in.SubnetID = "" })},
		"wrong zone": {"InvalidParameterValue", with(func(in *ec2.RunInstancesInput) {
			in.Placement = &ec2.PlacementSpecification{AvailabilityZone: "us-east-1b"}
		})},
		"tags for what no launch makes": {"InvalidParameterValue", with(func(in *ec2.RunInstancesInput) {
			in.TagSpecifications = []ec2.TagSpecification{{ResourceType: "subnet"}}
		})},
		"too many for the subnet": {"InsufficientFreeAddressesInSubnet", with(func(in *ec2.RunInstancesInput) {
			in.SubnetID, in.MinCount, in.MaxCount = tinySubnet, new(12), new(12)
		})},
		"subnet and interfaces": {"InvalidParameterCombination", with(func(in *ec2.RunInstancesInput) {
			in.NetworkInterfaces = []ec2.InterfaceSpecification{at(0, 0)}
		})},
		"no primary":               {"InvalidParameterCombination", try(runWith(at(0, 1)))},
		"a slot twice":             {"InvalidParameterValue", try(runWith(at(0, 0), at(0, 1), at(0, 1)))},
		"too many interfaces":      {"AttachmentLimitExceeded", try(runWith(at(0, 0), at(0, 1), at(0, 2), at(0, 3), at(0, 4)))},
		"no such card":             {"InvalidParameterValue", try(runWith(at(0, 0), at(1, 1)))},
		"two zones":                {"InvalidParameterCombination", try(runWith(at(0, 0), at(0, 1, func(spec *ec2.InterfaceSpecification) { spec.SubnetID = subnetB })))},
		"public addresses for two": {"InvalidParameterCombination", try(runWith(at(0, 0, public), at(0, 1)))},
		"an interface in use": {"InvalidNetworkInterface.InUse", func(s *scene) error {
			id := s.create(subnetA)
			s.attach(id, instanceA, 0, 1)
			return try(runWith(at(0, 0), at(0, 1, func(spec *ec2.InterfaceSpecification) { spec.SubnetID, spec.NetworkInterfaceID = "", id })))(s)
		}},
		"dry run": {"DryRunOperation", with(func(in *ec2.RunInstancesInput) { in.DryRun = true })},
	})
}

func TestRunInstancesToken(t *testing.T) {
	s := play(t, ec2.Behavior{})
	in := run(1)
	in.ClientToken = "token"
	first, err := s.RunInstances(s.call, in)
	s.must(err)
	again, err := s.RunInstances(s.call, in)
	s.must(err)
	if first.ReservationID != again.ReservationID || again.Instances[0].State.Name != ec2.Running {
		t.Errorf("%s, then %s (%s)", first.ReservationID, again.ReservationID, again.Instances[0].State.Name)
	}
	other := run(2)
	other.ClientToken = "token"
	if _, err := s.RunInstances(s.call, other); codeOf(err) != "IdempotentParameterMismatch" {
		t.Errorf("other parameters: %v", err)
	}
	s.must(s.terminate(first.Instances[0].InstanceID))
	if _, err := s.RunInstances(s.call, in); codeOf(err) != "IdempotentInstanceTerminated" {
		t.Errorf("a terminated instance: %v", err)
	}
}

func TestTermination(t *testing.T) {
	s := play(t, ec2.Behavior{Terminate: exactly(time.Minute)})
	kept, deleted := s.create(subnetA), s.create(subnetA)
	s.attach(kept, instanceA, 0, 1)
	_, err := s.ModifyNetworkInterfaceAttribute(s.call, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceID: deleted,
		Attachment:         &ec2.AttachmentChanges{AttachmentID: s.attach(deleted, instanceA, 0, 2), DeleteOnTermination: new(true)},
	})
	s.must(err)
	primary := s.instance(instanceA).NetworkInterfaces[0].NetworkInterfaceID
	free := s.free(subnetA)
	s.must(s.terminate(instanceA))
	s.must(s.terminate(instanceA)) // a second time changes nothing
	if got := s.instance(instanceA).State.Name; got != ec2.ShuttingDown || status(s.eni(kept)) != "in-use/attached" {
		t.Errorf("at first %s, the interface %s", got, status(s.eni(kept)))
	}
	s.wait(time.Minute)
	if got := s.instance(instanceA).State.Name; got != ec2.Terminated {
		t.Errorf("the instance is %s", got)
	}
	for id, want := range map[string]string{kept: "available", deleted: "gone", primary: "gone"} {
		if got := status(s.eni(id)); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	if got := s.free(subnetA) - free; got != 2 {
		t.Errorf("%d addresses freed, want 2", got)
	}
	s.wait(time.Hour)
	if _, err := s.DescribeInstances(s.call, &ec2.DescribeInstancesInput{InstanceIDs: []string{instanceA}}); codeOf(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("an hour later: %v", err)
	}
}

func TestStopAndStart(t *testing.T) {
	s := play(t, ec2.Behavior{Stop: exactly(time.Minute), Start: exactly(time.Minute), Attach: exactly(time.Hour), Stopped: exactly(time.Second)})
	id := s.create(subnetA)
	stop := &ec2.StopInstancesInput{InstancesInput: ec2.InstancesInput{InstanceIDs: []string{instanceA}}}
	begin := &ec2.InstancesInput{InstanceIDs: []string{instanceA}}
	changes, err := s.StopInstances(s.call, stop)
	s.must(err)
	if c := changes.Changes[0]; c.PreviousState.Name != ec2.Running || c.CurrentState.Code != 64 {
		t.Errorf("change %+v", c)
	}
	if _, err := s.StartInstances(s.call, begin); codeOf(err) != "IncorrectInstanceState" {
		t.Errorf("start what is stopping: %v", err)
	}
	s.wait(time.Minute)
	s.attach(id, instanceA, 0, 1)
	s.wait(time.Second)
	if got := status(s.eni(id)); got != "in-use/attached" {
		t.Errorf("a stopped instance attaches in a second, got %s", got)
	}
	_, err = s.StartInstances(s.call, begin)
	s.must(err)
	s.wait(time.Minute)
	if got := s.instance(instanceA); got.State.Name != ec2.Running || len(got.NetworkInterfaces) != 2 {
		t.Errorf("%s with %d interfaces", got.State.Name, len(got.NetworkInterfaces))
	}
}

func TestInstanceStatesRefusals(t *testing.T) {
	refusals(t, map[string]refusal{
		"one unknown of two changes none": {"InvalidInstanceID.NotFound", func(s *scene) error {
			_, err := s.TerminateInstances(s.call, &ec2.InstancesInput{InstanceIDs: []string{instanceA, "i-0000000000000dead"}})
			if s.instance(instanceA).State.Name != ec2.Running {
				s.Error("the known one was terminated")
			}
			return err
		}},
		"stop a terminated one": {"IncorrectInstanceState", func(s *scene) error {
			s.must(s.terminate(instanceA))
			_, err := s.StopInstances(s.call, &ec2.StopInstancesInput{InstancesInput: ec2.InstancesInput{InstanceIDs: []string{instanceA}}})
			return err
		}},
		"none named": {"MissingParameter", func(s *scene) error {
			_, err := s.StartInstances(s.call, &ec2.InstancesInput{})
			return err
		}},
	})
}

func TestLaunch(t *testing.T) {
	s := play(t, ec2.Behavior{})
	launched, err := s.Launch(s.call, ec2.WorldInstance{
		InstanceType: "t3.medium", AvailabilityZone: "us-east-1b", Count: 2, Name: "worker", Tags: ec2.Tags{"team": "red"},
	})
	s.must(err)
	if len(launched) != 2 || launched[1].Tags["Name"] != "worker-2" || launched[1].Tags["team"] != "red" || launched[1].SubnetID != subnetB {
		t.Errorf("launched %+v", launched)
	}
}

func TestSimulatedCNI(t *testing.T) {
	s := play(t, ec2.Behavior{CNI: exactly(3 * time.Second)})
	launched, err := s.Launch(s.call, ec2.WorldInstance{InstanceType: "t3.medium", SubnetID: subnetA, CNI: &ec2.CNI{WarmENIs: 5}})
	s.must(err)
	id := launched[0].InstanceID
	s.attach(s.create(subnetA), id, 0, 1)
	s.wait(3 * time.Second)
	enis := s.instance(id).NetworkInterfaces
	if len(enis) != 3 {
		t.Fatalf("%d interfaces, want as many as the type takes", len(enis))
	}
	cni := enis[2]
	if cni.Attachment.DeviceIndex != 2 || cni.Tags["node.k8s.amazonaws.com/instance_id"] != id || cni.Description != "aws-K8S-"+id {
		t.Errorf("interface %+v", cni)
	}
	if all := s.State(s.call).NetworkInterfaces; len(all) != 5+1+2 {
		t.Errorf("%d interfaces in all: what found no slot was left behind", len(all))
	}
}
