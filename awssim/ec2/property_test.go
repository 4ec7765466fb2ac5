// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
)

// TestInvariants makes random calls at random times, and checks the invariants after each step.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := newAccount(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":          a.check,
			"create":    a.create,
			"attach":    a.attach,
			"detach":    a.detach,
			"delete":    a.delete,
			"assign":    a.assign,
			"terminate": a.terminate,
			"stop":      a.stopOrStart,
			"launch":    a.launch,
			"wait":      a.wait,
		})
	})
}

// account is the model with names that a step can draw from. EC2 may refuse calls.
type account struct {
	t    *rapid.T
	m    *ec2.Model
	call ec2.Call
}

func newAccount(rt *rapid.T) *account {
	seed := rapid.Uint64().Draw(rt, "seed")
	faults := fault.NewSet(seed)
	for _, kind := range []fault.Kind{fault.StuckAttaching, fault.StuckDetaching, fault.InstanceDies, fault.LowerLimit} {
		if rapid.Bool().Draw(rt, string(kind)) {
			_, err := faults.Add(fault.Fault{Kind: kind, Probability: 0.1, Limit: 2}, beginning)
			if err != nil {
				rt.Fatal(err)
			}
		}
	}
	world := smallWorld()
	world.Instances[1].CNI = &ec2.CNI{WarmENIs: 1}
	m, err := ec2.New(ec2.Options{World: world, Behavior: ec2.DefaultBehavior(), Faults: faults, Seed: seed, Now: beginning})
	if err != nil {
		rt.Fatal(err)
	}
	return &account{rt, m, ec2.Call{Now: beginning}}
}

func (a *account) anyInterface(t *rapid.T) *ec2.NetworkInterface {
	return rapid.SampledFrom(a.m.State(a.call).NetworkInterfaces).Draw(t, "interface")
}

func (a *account) anyInstance(t *rapid.T) string {
	return rapid.SampledFrom(a.m.State(a.call).Instances).Draw(t, "instance").InstanceID
}

func (a *account) create(t *rapid.T) {
	in := create(rapid.SampledFrom([]string{subnetA, subnetA2, subnetB, tinySubnet}).Draw(t, "subnet"))
	switch rapid.IntRange(0, 3).Draw(t, "addresses") {
	case 1:
		in.SecondaryPrivateIPAddressCount = new(rapid.IntRange(0, 12).Draw(t, "count"))
	case 2:
		in.IPv4PrefixCount = new(1)
	case 3:
		in.IPv6AddressCount = new(1)
	}
	_, _ = a.m.CreateNetworkInterface(a.call, in)
}

func (a *account) attach(t *rapid.T) {
	_, _ = a.m.AttachNetworkInterface(a.call, attach(a.anyInterface(t).NetworkInterfaceID, a.anyInstance(t),
		rapid.IntRange(0, 1).Draw(t, "card"), rapid.IntRange(0, 4).Draw(t, "device")))
}

func (a *account) detach(t *rapid.T) {
	if attachment := a.anyInterface(t).Attachment; attachment != nil {
		_, _ = a.m.DetachNetworkInterface(a.call, &ec2.DetachNetworkInterfaceInput{
			AttachmentID: attachment.AttachmentID, Force: rapid.Bool().Draw(t, "force"),
		})
	}
}

func (a *account) delete(t *rapid.T) {
	_, _ = a.m.DeleteNetworkInterface(a.call, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: a.anyInterface(t).NetworkInterfaceID})
}

func (a *account) assign(t *rapid.T) {
	eni := a.anyInterface(t)
	if rapid.Bool().Draw(t, "unassign") && len(eni.PrivateIPAddresses) > 0 {
		address := rapid.SampledFrom(eni.PrivateIPAddresses).Draw(t, "address").PrivateIPAddress.String()
		_, _ = a.m.UnassignPrivateIPAddresses(a.call, &ec2.UnassignPrivateIPAddressesInput{
			NetworkInterfaceID: eni.NetworkInterfaceID, PrivateIPAddresses: []string{address, address},
		})
		return
	}
	_, _ = a.m.AssignPrivateIPAddresses(a.call, &ec2.AssignPrivateIPAddressesInput{
		NetworkInterfaceID: eni.NetworkInterfaceID, AllowReassignment: rapid.Bool().Draw(t, "move"),
		PrivateIPAddresses: rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 12), func(n int) string { return fmt.Sprintf("10.0.0.%d", n) }), 1, 3).Draw(t, "addresses"),
	})
}

func (a *account) terminate(t *rapid.T) {
	_, _ = a.m.TerminateInstances(a.call, &ec2.InstancesInput{InstanceIDs: []string{a.anyInstance(t)}})
}

func (a *account) stopOrStart(t *rapid.T) {
	ids := ec2.InstancesInput{InstanceIDs: []string{a.anyInstance(t)}}
	if rapid.Bool().Draw(t, "start") {
		_, _ = a.m.StartInstances(a.call, &ids)
	} else {
		_, _ = a.m.StopInstances(a.call, &ec2.StopInstancesInput{InstancesInput: ids})
	}
}

func (a *account) launch(t *rapid.T) {
	_, _ = a.m.Launch(a.call, ec2.WorldInstance{
		InstanceType: "t3.medium", AvailabilityZone: "us-east-1a", Count: rapid.IntRange(1, 3).Draw(t, "count"), CNI: &ec2.CNI{WarmENIs: 1},
	})
}

func (a *account) wait(t *rapid.T) {
	a.call.Now = a.call.Now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
}

// check checks the invariants.
func (a *account) check(t *rapid.T) {
	state := a.m.State(a.call)
	a.checkSlots(t, state)
	a.checkAddresses(t, state)
	for _, instance := range state.Instances {
		gone := instance.State.Name == ec2.Terminated
		if gone != (len(instance.NetworkInterfaces) == 0) {
			t.Fatalf("instance %s is %s with %d interfaces", instance.InstanceID, instance.State.Name, len(instance.NetworkInterfaces))
		}
	}
}

func (a *account) checkSlots(t *rapid.T, state ec2.State) {
	taken := map[string]string{}
	for _, eni := range state.NetworkInterfaces {
		if (eni.Attachment == nil) != (eni.Status == ec2.StatusAvailable) {
			t.Fatalf("interface %s is %s, attachment %+v", eni.NetworkInterfaceID, eni.Status, eni.Attachment)
		}
		if eni.Attachment == nil {
			continue
		}
		slot := fmt.Sprintf("%s card %d device %d", eni.Attachment.InstanceID, eni.Attachment.NetworkCardIndex, eni.Attachment.DeviceIndex)
		if other, twice := taken[slot]; twice {
			t.Fatalf("%s holds %s and %s", slot, other, eni.NetworkInterfaceID)
		}
		taken[slot] = eni.NetworkInterfaceID
		if eni.Attachment.InstanceID != "" && !slices.ContainsFunc(state.Instances, func(i *ec2.Instance) bool {
			return i.InstanceID == eni.Attachment.InstanceID && i.Placement.AvailabilityZone == eni.AvailabilityZone
		}) {
			t.Fatalf("%s is attached to %s, which is not in its zone", eni.NetworkInterfaceID, eni.Attachment.InstanceID)
		}
	}
}

func (a *account) checkAddresses(t *rapid.T, state ec2.State) {
	holders := map[netip.Addr]string{}
	perSubnet := map[string]int{}
	hold := func(address netip.Addr, eni *ec2.NetworkInterface) {
		if other, twice := holders[address]; twice {
			t.Fatalf("%s is held by %s and %s", address, other, eni.NetworkInterfaceID)
		}
		holders[address] = eni.NetworkInterfaceID
		if address.Is4() {
			perSubnet[eni.SubnetID]++
		}
	}
	for _, eni := range state.NetworkInterfaces {
		for _, address := range eni.PrivateIPAddresses {
			hold(address.PrivateIPAddress, eni)
		}
		for _, prefix := range eni.IPv4Prefixes {
			for address := prefix.IPv4Prefix.Addr(); prefix.IPv4Prefix.Contains(address); address = address.Next() {
				hold(address, eni)
			}
		}
		for _, address := range eni.IPv6Addresses {
			hold(address.IPv6Address, eni)
		}
	}
	for _, subnet := range state.Subnets {
		all := 1<<(32-subnet.CIDRBlock.Bits()) - 5
		if subnet.AvailableIPAddressCount+perSubnet[subnet.SubnetID] != all {
			t.Fatalf("subnet %s: %d free and %d held of %d", subnet.SubnetID, subnet.AvailableIPAddressCount, perSubnet[subnet.SubnetID], all)
		}
	}
}

// TestDescribeAgreesWithTheTruth compares the results of filters, with an index or without, with the expected ones.
func TestDescribeAgreesWithTheTruth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := play(t, ec2.Behavior{})
		values := rapid.SampledFrom([]string{"x", "y", "z"})
		for range rapid.IntRange(0, 20).Draw(rt, "interfaces") {
			s.createTagged(subnetA, tag("k", values.Draw(rt, "k")), tag("l", values.Draw(rt, "l")))
		}
		for _, eni := range s.State(s.call).NetworkInterfaces {
			if len(eni.Tags) > 0 && rapid.Bool().Draw(rt, "change") {
				_, err := s.CreateTags(s.call, &ec2.TagsInput{ResourceIDs: []string{eni.NetworkInterfaceID}, Tags: []ec2.Tag{tag("k", values.Draw(rt, "k"))}})
				s.must(err)
			}
		}
		k, l := rapid.SliceOfNDistinct(values, 1, 3, rapid.ID).Draw(rt, "ks"), values.Draw(rt, "l")
		var want []string
		for _, eni := range s.State(s.call).NetworkInterfaces {
			if slices.Contains(k, eni.Tags["k"]) && eni.Tags["l"] == l {
				want = append(want, eni.NetworkInterfaceID)
			}
		}
		page := by(filter("tag:k", k...), filter("tag:l", l))
		page.MaxResults = new(5)
		var got []string
		for {
			ids, next := s.find(page)
			got = append(got, ids...)
			if page.NextToken = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("found %v, want %v", got, want)
		}
	})
}

// TestSameSeedSameWorld replays a sequence of calls and compares everything.
func TestSameSeedSameWorld(t *testing.T) {
	story := func() string {
		s := play(t, ec2.DefaultBehavior(), fault.Fault{Kind: fault.StuckAttaching, Probability: 0.3})
		for device := range 3 {
			s.attach(s.create(subnetA), instanceA, 0, device+1)
			s.wait(time.Second)
		}
		s.must(s.terminate(smallA))
		s.wait(30 * time.Second)
		text, err := json.Marshal(s.State(s.call))
		s.must(err)
		return string(text)
	}
	if first, second := story(), story(); first != second {
		t.Error("two runs differ")
	}
}
