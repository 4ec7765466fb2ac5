// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

func launch(changes ...func(*runInput)) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.RunInstances(ctx, ec.request(changes...))
		return err
	}
}

// onDevice returns the specification of an existing interface.
func onDevice(device int32, eni string) types.InstanceNetworkInterfaceSpecification {
	return types.InstanceNetworkInterfaceSpecification{DeviceIndex: &device, NetworkInterfaceId: &eni}
}

func TestRunInstances(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "one instance with one interface", run: launchesOne},
		{name: "tags for the instance and its interfaces", run: func(t *testing.T, ec *endpoint) {
			host := ec.instance(t, func(in *runInput) {
				in.TagSpecifications = []types.TagSpecification{
					{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{tag("Name", "host")}},
					{ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{tag("Name", "port")}},
				}
			})
			if diff := cmp.Diff(map[string]string{"Name": "host"}, tagsOf(host.Tags)); diff != "" {
				t.Errorf("tags of the instance (-want +got):\n%s", diff)
			}
			ec.awaitTags(t, *host.NetworkInterfaces[0].NetworkInterfaceId, map[string]string{"Name": "port"})
		}},
		{name: "several instances in one reservation", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.RunInstances(t.Context(), ec.request(func(in *runInput) { in.MaxCount = aws.Int32(2) }))
			ok(t, err)
			var indexes []int32
			for _, instance := range out.Instances {
				indexes = append(indexes, aws.ToInt32(instance.AmiLaunchIndex))
			}
			if slices.Sort(indexes); !slices.Equal(indexes, []int32{0, 1}) {
				t.Errorf("launch indexes %v, want 0 and 1", indexes)
			}
		}},
		{name: "interfaces named one by one", run: launchesWithInterfaces},
		{name: "interfaces that exist already", run: func(t *testing.T, ec *endpoint) {
			first, second := *ec.eni(t).NetworkInterfaceId, *ec.eni(t).NetworkInterfaceId
			host := ec.instance(t, withInterfaces(onDevice(0, first), onDevice(1, second)))
			for _, eni := range []string{first, second} {
				seen := ec.awaitENI(t, eni, "attached", isAttached)
				if *seen.Attachment.InstanceId != *host.InstanceId || aws.ToBool(seen.Attachment.DeleteOnTermination) {
					t.Errorf("attached to %s, delete on termination %t", *seen.Attachment.InstanceId, *seen.Attachment.DeleteOnTermination)
				}
			}
			refused(inUse, launch(withInterfaces(onDevice(0, first))))(t, ec)
		}},
		{name: "prefixes and IPv6 addresses per interface", run: func(t *testing.T, ec *endpoint) {
			spec := ec.spec(0, 0)
			spec.SubnetId = need(t, ec, ec.dualStack, "subnet with IPv6").SubnetId
			spec.Ipv4PrefixCount, spec.Ipv6AddressCount = aws.Int32(1), aws.Int32(2)
			host := ec.instance(t, withInterfaces(spec))
			eni := ec.awaitENI(t, *host.NetworkInterfaces[0].NetworkInterfaceId, "attached", isAttached)
			if len(eni.Ipv4Prefixes) != 1 || len(eni.Ipv6Addresses) != 2 {
				t.Errorf("prefixes %v, IPv6 addresses %v", eni.Ipv4Prefixes, eni.Ipv6Addresses)
			}
		}},
	})
}

func TestRunInstancesClientToken(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "the same client token launches once", run: func(t *testing.T, ec *endpoint) {
			token := mark().Value
			withToken := func(in *runInput) { in.ClientToken = token }
			first := ec.instance(t, withToken)
			again, err := ec.RunInstances(t.Context(), ec.request(withToken))
			ok(t, err)
			if *again.Instances[0].InstanceId != *first.InstanceId || again.Instances[0].State.Name != types.InstanceStateNameRunning {
				t.Errorf("again %s (%s), want %s with its state of now", *again.Instances[0].InstanceId, again.Instances[0].State.Name, *first.InstanceId)
			}
		}},
		{name: "a client token fits no other parameters, and ends with its instance", strict: true, run: func(t *testing.T, ec *endpoint) {
			token := mark().Value
			withToken := func(in *runInput) { in.ClientToken = token }
			first := ec.instance(t, withToken)
			refused("IdempotentParameterMismatch", launch(withToken, ofType("m5.large")))(t, ec)
			ec.terminate(t, *first.InstanceId)
			refused("IdempotentInstanceTerminated", launch(withToken))(t, ec)
		}},
	})
}

func TestRunInstancesRefusals(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "an unknown subnet", run: refused("InvalidSubnetID.NotFound",
			launch(func(in *runInput) { in.SubnetId = aws.String(noSubnet) }))},
		{name: "an unknown group", strict: true, run: refused("InvalidGroup.NotFound|InvalidSecurityGroupID.NotFound",
			launch(func(in *runInput) { in.SecurityGroupIds = []string{noGroup} }))},
		{name: "an unknown instance type", run: refused("InvalidParameterValue|InvalidInstanceType", launch(ofType("t3.gigantic")))},
		{name: "an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound", launch(withInterfaces(onDevice(0, noENI))))},
		{name: "a device index that the type does not have", strict: true, run: refused("InvalidParameterValue",
			launch(withInterfaces(ec.spec(0, 0), ec.spec(0, 60))))},
		{name: "tags for interfaces of which none is new", run: func(t *testing.T, ec *endpoint) {
			existing := *ec.eni(t).NetworkInterfaceId
			refused("InvalidParameterValue", launch(withInterfaces(onDevice(0, existing)), func(in *runInput) {
				in.TagSpecifications = append(in.TagSpecifications, types.TagSpecification{
					ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{tag("Name", "port")},
				})
			}))(t, ec)
		}},
		{name: "more at least than at most", strict: true, run: refused("InvalidParameterCombination|InvalidParameterValue",
			launch(func(in *runInput) { in.MinCount = aws.Int32(2) }))},
		{name: "none", strict: true, run: refused("InvalidParameterCombination|InvalidParameterValue",
			launch(func(in *runInput) { in.MinCount, in.MaxCount = aws.Int32(0), aws.Int32(0) }))},
	})
}

func TestRunInstancesInterfaceRefusals(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "interfaces and a subnet", strict: true, run: refused("InvalidParameterCombination",
			launch(withInterfaces(ec.spec(0, 0)), inSubnet(&ec.subnet)))},
		{name: "interfaces and groups", strict: true, run: refused("InvalidParameterCombination",
			launch(withInterfaces(ec.spec(0, 0)), func(in *runInput) { in.SecurityGroupIds = []string{ec.group} }))},
		{name: "two interfaces and a public address", strict: true, run: func(t *testing.T, ec *endpoint) {
			first, second := ec.spec(0, 0), ec.spec(0, 1)
			first.AssociatePublicIpAddress = aws.Bool(true)
			refused("InvalidParameterCombination", launch(withInterfaces(first, second)))(t, ec)
		}},
		{name: "two interfaces at one index", strict: true, run: refused("InvalidParameterValue|InvalidParameterCombination",
			launch(withInterfaces(ec.spec(0, 0), ec.spec(0, 1), ec.spec(0, 1))))},
		{name: "no primary interface", strict: true, run: refused("InvalidParameterValue|InvalidParameterCombination|MissingParameter",
			launch(withInterfaces(ec.spec(0, 1))))},
		{name: "more interfaces than the type takes", strict: true, run: refused("AttachmentLimitExceeded",
			launch(withInterfaces(ec.spec(0, 0), ec.spec(0, 1), ec.spec(0, 2), ec.spec(0, 3))))},
		{name: "a card that the type does not have", strict: true, run: refused("InvalidParameterValue|InvalidParameterCombination",
			launch(withInterfaces(ec.spec(0, 0), ec.spec(1, 1))))},
		{name: "interfaces in two zones", strict: true, run: func(t *testing.T, ec *endpoint) {
			elsewhere := ec.spec(0, 1)
			elsewhere.SubnetId = ec.otherZone.SubnetId
			refused("InvalidParameterCombination|InvalidParameterValue", launch(withInterfaces(ec.spec(0, 0), elsewhere)))(t, ec)
		}},
		{name: "an Elastic Fabric Adapter on a type without", strict: true, run: func(t *testing.T, ec *endpoint) {
			efa := ec.spec(0, 0)
			efa.InterfaceType = aws.String("efa")
			refusedSomehow(launch(withInterfaces(efa)))(t, ec)
		}},
	})
}

func TestRunInstancesAddressRefusals(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "more addresses than the type takes", strict: true, run: func(t *testing.T, ec *endpoint) {
			spec := ec.spec(0, 0)
			spec.SecondaryPrivateIpAddressCount = aws.Int32(40)
			refused(tooManyAddresses, launch(withInterfaces(spec)))(t, ec)
		}},
		{name: "one existing interface for two instances", strict: true, run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t).NetworkInterfaceId
			refusedSomehow(launch(withInterfaces(onDevice(0, eni)), func(in *runInput) { in.MinCount, in.MaxCount = aws.Int32(2), aws.Int32(2) }))(t, ec)
			ec.awaitENI(t, eni, "available", isAvailable)
		}},
		{name: "one existing interface at two indexes", strict: true, run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t).NetworkInterfaceId
			refusedSomehow(launch(withInterfaces(onDevice(0, eni), onDevice(1, eni))))(t, ec)
			ec.awaitENI(t, eni, "available", isAvailable)
		}},
		{name: "an existing interface with groups of its own", strict: true, run: func(t *testing.T, ec *endpoint) {
			spec := onDevice(0, *ec.eni(t).NetworkInterfaceId)
			spec.Groups = []string{ec.group}
			refused("InvalidParameterCombination|InvalidParameterValue", launch(withInterfaces(spec)))(t, ec)
		}},
		{name: "an address that another holds", strict: true, run: func(t *testing.T, ec *endpoint) {
			holder := ec.eni(t)
			refused("InvalidIPAddress.InUse", launch(func(in *runInput) { in.PrivateIpAddress = holder.PrivateIpAddress }))(t, ec)
		}},
		{name: "a refused launch leaves no interface behind", strict: true, run: func(t *testing.T, ec *endpoint) {
			marked := mark()
			first, second := ec.spec(0, 0), ec.spec(0, 1)
			second.Groups = []string{noGroup}
			refused("InvalidGroup.NotFound|InvalidSecurityGroupID.NotFound", launch(withInterfaces(first, second), func(in *runInput) {
				in.TagSpecifications = []types.TagSpecification{{
					ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{marked},
				}}
			}))(t, ec)
			ec.awaitFound(t, []string{}, hasTag(marked))
		}},
	})
}

var (
	instanceID    = regexp.MustCompile(`^i-[0-9a-f]{17}$`)
	reservationID = regexp.MustCompile(`^r-[0-9a-f]{17}$`)
)

// launchesOne follows the simplest launch from the answer to the running instance.
func launchesOne(t *testing.T, ec *endpoint) {
	out, err := ec.RunInstances(t.Context(), ec.request(func(in *runInput) { in.SecurityGroupIds = []string{ec.group} }))
	ok(t, err)
	answered := out.Instances[0]
	if answered.State.Name != types.InstanceStateNamePending || aws.ToInt32(answered.State.Code) != 0 {
		t.Errorf("state %s (%d), want pending (0)", answered.State.Name, *answered.State.Code)
	}
	if !instanceID.MatchString(*answered.InstanceId) || !reservationID.MatchString(*out.ReservationId) {
		t.Errorf("instance %s in reservation %s", *answered.InstanceId, *out.ReservationId)
	}
	running := ec.awaitInstance(t, *answered.InstanceId, types.InstanceStateNameRunning)
	switch i := running; {
	case aws.ToInt32(i.State.Code) != 16, i.LaunchTime == nil, *i.ImageId != ec.image, string(i.InstanceType) != ec.instanceType:
		t.Errorf("state %d, launched %v, image %s, type %s", *i.State.Code, i.LaunchTime, *i.ImageId, i.InstanceType)
	case *i.SubnetId != *ec.subnet.SubnetId, *i.VpcId != *ec.subnet.VpcId, *i.Placement.AvailabilityZone != *ec.subnet.AvailabilityZone:
		t.Errorf("is in %s, %s, %s", *i.SubnetId, *i.VpcId, *i.Placement.AvailabilityZone)
	case len(i.SecurityGroups) != 1, *i.SecurityGroups[0].GroupId != ec.group, len(i.NetworkInterfaces) != 1:
		t.Errorf("groups %v, interfaces %v", i.SecurityGroups, i.NetworkInterfaces)
	}
	primary := ec.awaitENI(t, *running.NetworkInterfaces[0].NetworkInterfaceId, "attached", isAttached)
	switch a := primary.Attachment; {
	case *a.DeviceIndex != 0, aws.ToInt32(a.NetworkCardIndex) != 0, !aws.ToBool(a.DeleteOnTermination):
		t.Errorf("primary at %d on card %d, delete on termination %t", *a.DeviceIndex, aws.ToInt32(a.NetworkCardIndex), *a.DeleteOnTermination)
	case *primary.PrivateIpAddress != *running.PrivateIpAddress, *a.InstanceId != *running.InstanceId:
		t.Errorf("primary holds %s of %s, want %s", *primary.PrivateIpAddress, *a.InstanceId, *running.PrivateIpAddress)
	}
}

// launchesWithInterfaces sets per interface all that a launch can set, which needs no further call.
func launchesWithInterfaces(t *testing.T, ec *endpoint) {
	first, second := ec.spec(0, 0), ec.spec(0, 1)
	second.SubnetId = need(t, ec, ec.sameZone, "second subnet in the zone").SubnetId
	second.Description = aws.String("the second")
	second.Groups = []string{ec.group}
	second.DeleteOnTermination = aws.Bool(false)
	second.SecondaryPrivateIpAddressCount = aws.Int32(2)
	host := ec.instance(t, withInterfaces(first, second))
	if len(host.NetworkInterfaces) != 2 || *host.SubnetId != *ec.subnet.SubnetId {
		t.Fatalf("%d interfaces, instance in %s", len(host.NetworkInterfaces), *host.SubnetId)
	}
	for _, listed := range host.NetworkInterfaces {
		eni := ec.awaitENI(t, *listed.NetworkInterfaceId, "attached", isAttached)
		isSecond := *eni.Attachment.DeviceIndex == 1
		if aws.ToBool(eni.Attachment.DeleteOnTermination) == isSecond {
			t.Errorf("device %d: delete on termination %t", *eni.Attachment.DeviceIndex, *eni.Attachment.DeleteOnTermination)
		}
		if isSecond && (*eni.Description != "the second" || len(addresses(eni)) != 3 || *eni.SubnetId != *second.SubnetId) {
			t.Errorf("device 1: %q with %v in %s", *eni.Description, addresses(eni), *eni.SubnetId)
		}
	}
}

// TestLaunchOnCards: each card has its own indexes, and Elastic Fabric Adapters come only with the launch.
func TestLaunchOnCards(t *testing.T) {
	ec := open(t)
	if ec.multiCardType == "" {
		t.Skip("set MULTIENI_CONFORMANCE_MULTI_CARD_TYPE to spend money on it")
	}
	efa := ec.spec(1, 1)
	efa.InterfaceType = aws.String("efa")
	host := ec.instance(t, ofType(ec.multiCardType), withInterfaces(ec.spec(0, 0), ec.spec(0, 1), efa))
	slots := map[[2]int32]string{}
	for _, eni := range host.NetworkInterfaces {
		slots[[2]int32{*eni.Attachment.NetworkCardIndex, *eni.Attachment.DeviceIndex}] = *eni.InterfaceType
	}
	want := map[[2]int32]string{{0, 0}: "interface", {0, 1}: "interface", {1, 1}: "efa"}
	if diff := cmp.Diff(want, slots); diff != "" {
		t.Errorf("slots (-want +got):\n%s", diff)
	}
	expectRefusal(t, "InvalidParameterValue|InvalidParameterCombination",
		launch(ofType(ec.multiCardType), withInterfaces(ec.spec(1, 0)))(t.Context(), ec))
	onlyEFA := ec.spec(0, 0)
	onlyEFA.InterfaceType = aws.String("efa-only")
	refusedSomehow(launch(ofType(ec.multiCardType), withInterfaces(onlyEFA)))(t, ec)
	if ec.simulated { // c6in.32xlarge supports two
		third, primary := efa, ec.spec(0, 0)
		third.DeviceIndex, primary.InterfaceType = aws.Int32(2), aws.String("efa")
		refusedSomehow(launch(ofType(ec.multiCardType), withInterfaces(primary, efa, third)))(t, ec)
	}
}

// TestLaunchRace: a token makes one reservation, regardless of how many callers use it at once.
func TestLaunchRace(t *testing.T) {
	ec := open(t)
	token := mark().Value
	ids := make(chan string, 4)
	for range cap(ids) {
		go func() {
			out, err := ec.RunInstances(t.Context(), ec.request(func(in *runInput) { in.ClientToken = token }))
			if err != nil {
				ids <- err.Error()
				return
			}
			ids <- *out.Instances[0].InstanceId
		}()
	}
	distinct := map[string]bool{}
	for range cap(ids) {
		distinct[<-ids] = true
	}
	if len(distinct) != 1 {
		t.Errorf("got %v, want one instance", distinct)
	}
}

// instanceIDs is a DescribeInstances answer, flattened.
func instanceIDs(out *ec2.DescribeInstancesOutput) []string {
	ids := []string{}
	for _, reservation := range out.Reservations {
		for _, instance := range reservation.Instances {
			ids = append(ids, *instance.InstanceId)
		}
	}
	return ids
}
