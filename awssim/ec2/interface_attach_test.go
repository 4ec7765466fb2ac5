// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
)

// exactly returns a fixed latency.
func exactly(d time.Duration) ec2.Latency { return ec2.Latency{Min: d, Max: d} }

func TestAttachmentTakesItsTime(t *testing.T) {
	s := play(t, ec2.Behavior{Attach: exactly(3 * time.Second), Detach: exactly(5 * time.Second)})
	id := s.create(subnetA)
	attachment := s.attach(id, instanceA, 0, 1)
	expect := func(want string) {
		t.Helper()
		if got := status(s.eni(id)); got != want {
			t.Errorf("at %s: %s, want %s", s.call.Now.Sub(beginning), got, want)
		}
	}
	expect("in-use/attaching")
	s.wait(3*time.Second - 1)
	expect("in-use/attaching")
	s.wait(1)
	expect("in-use/attached")
	s.detach(attachment, false)
	expect("in-use/detaching")
	if due, ok := s.NextDue(); !ok || !due.Equal(s.call.Now.Add(5*time.Second)) {
		t.Errorf("next due %v %v", due, ok)
	}
	s.detach(attachment, false) // a second time changes nothing
	s.wait(5 * time.Second)
	expect("available")
	if _, err := s.DetachNetworkInterface(s.call, &ec2.DetachNetworkInterfaceInput{AttachmentID: attachment}); codeOf(err) != "InvalidAttachmentID.NotFound" {
		t.Errorf("detach what is detached: %v", err)
	}
}

func TestDetachWhileAttaching(t *testing.T) {
	s := play(t, ec2.Behavior{Attach: exactly(3 * time.Second), Detach: exactly(time.Second)})
	id := s.create(subnetA)
	s.detach(s.attach(id, instanceA, 0, 1), false)
	s.wait(time.Minute)
	if got := status(s.eni(id)); got != "available" {
		t.Errorf("got %s", got)
	}
}

func TestNewAttachmentIsNotDeletedOnTermination(t *testing.T) {
	s := play(t, ec2.Behavior{})
	id := s.create(subnetA)
	s.attach(id, instanceA, 0, 1)
	if s.eni(id).Attachment.DeleteOnTermination {
		t.Error("deleteOnTermination is on")
	}
}

func TestAttachRefusals(t *testing.T) {
	try := func(s *scene, eni, instance string, card, device int) error {
		_, err := s.AttachNetworkInterface(s.call, attach(eni, instance, card, device))
		return err
	}
	refusals(t, map[string]refusal{
		"no index": {"MissingParameter", func(s *scene) error {
			_, err := s.AttachNetworkInterface(s.call, &ec2.AttachNetworkInterfaceInput{NetworkInterfaceID: s.create(subnetA), InstanceID: instanceA})
			return err
		}},
		"no instance":      {"MissingParameter", func(s *scene) error { return try(s, s.create(subnetA), "", 0, 1) }},
		"unknown instance": {"InvalidInstanceID.NotFound", func(s *scene) error { return try(s, s.create(subnetA), "i-0000000000000dead", 0, 1) }},
		"malformed":        {"InvalidInstanceID.Malformed", func(s *scene) error { return try(s, s.create(subnetA), "i-x", 0, 1) }},
		"index taken":      {"InvalidParameterValue", func(s *scene) error { return try(s, s.create(subnetA), instanceA, 0, 0) }},
		"negative index":   {"InvalidParameterValue", func(s *scene) error { return try(s, s.create(subnetA), instanceA, 0, -1) }},
		"no such card":     {"InvalidParameterValue", func(s *scene) error { return try(s, s.create(subnetA), instanceA, 1, 1) }},
		"another zone":     {"InvalidParameterCombination", func(s *scene) error { return try(s, s.create(subnetB), instanceA, 0, 1) }},
		"another VPC":      {"InvalidParameterCombination", func(s *scene) error { return try(s, s.create(bigSubnet), instanceA, 0, 1) }},
		"in use": {"InvalidNetworkInterface.InUse", func(s *scene) error {
			id := s.create(subnetA)
			s.attach(id, instanceA, 0, 1)
			return try(s, id, smallA, 0, 1)
		}},
		"too many": {"AttachmentLimitExceeded", func(s *scene) error {
			s.attach(s.create(subnetA), smallA, 0, 1)
			s.attach(s.create(subnetA), smallA, 0, 2)
			return try(s, s.create(subnetA), smallA, 0, 3)
		}},
		"too many on the card": {"AttachmentLimitExceeded", func(s *scene) error {
			for device := range 15 {
				s.attach(s.create(subnetA), cardsA, 1, device)
			}
			return try(s, s.create(subnetA), cardsA, 1, 15)
		}},
		"same index of another card": {"", func(s *scene) error {
			s.attach(s.create(subnetA), cardsA, 0, 1)
			return try(s, s.create(subnetA), cardsA, 1, 1)
		}},
		"more addresses than the type takes": {"PrivateIpAddressLimitExceeded", func(s *scene) error {
			in := create(subnetA)
			in.SecondaryPrivateIPAddressCount = new(6)
			out, err := s.CreateNetworkInterface(s.call, in)
			s.must(err)
			return try(s, out.NetworkInterface.NetworkInterfaceID, smallA, 0, 1)
		}},
		"terminated instance": {"IncorrectState", func(s *scene) error {
			s.must(s.terminate(instanceA))
			return try(s, s.create(subnetA), instanceA, 0, 1)
		}},
		"EFA on a running instance": {"InvalidParameterCombination", func(s *scene) error {
			in := create(subnetA)
			in.InterfaceType = "efa"
			out, err := s.CreateNetworkInterface(s.call, in)
			s.must(err)
			return try(s, out.NetworkInterface.NetworkInterfaceID, cardsA, 0, 1)
		}},
		"a service's interface": {"OperationNotPermitted", func(s *scene) error { return try(s, balancerENI, instanceA, 0, 1) }},
		"ENA Express on an old type": {"UnsupportedOperation", func(s *scene) error {
			in := attach(s.create(subnetA), smallA, 0, 1)
			in.ENASRD = &ec2.ENASRD{ENASRDEnabled: true}
			_, err := s.AttachNetworkInterface(s.call, in)
			return err
		}},
	})
}

func TestDetachRefusals(t *testing.T) {
	try := func(s *scene, attachment string) error {
		_, err := s.DetachNetworkInterface(s.call, &ec2.DetachNetworkInterfaceInput{AttachmentID: attachment})
		return err
	}
	refusals(t, map[string]refusal{
		"no ID":     {"MissingParameter", func(s *scene) error { return try(s, "") }},
		"malformed": {"InvalidNetworkInterfaceAttachmentId.Malformed", func(s *scene) error { return try(s, "eni-0000000000000dead") }},
		"unknown":   {"InvalidAttachmentID.NotFound", func(s *scene) error { return try(s, "eni-attach-0000000000000dead") }},
		"the primary": {"OperationNotPermitted", func(s *scene) error {
			return try(s, s.instance(instanceA).NetworkInterfaces[0].Attachment.AttachmentID)
		}},
		"a service's": {"OperationNotPermitted", func(s *scene) error { return try(s, s.eni(balancerENI).Attachment.AttachmentID) }},
	})
}

func TestForcedDetachRuinsTheSlot(t *testing.T) {
	for name, keeps := range map[string]bool{"by default": false, "unless told": true} {
		t.Run(name, func(t *testing.T) {
			s := play(t, ec2.Behavior{ForceDetachKeepsSlot: keeps})
			id := s.create(subnetA)
			s.detach(s.attach(id, instanceA, 0, 1), true)
			_, err := s.AttachNetworkInterface(s.call, attach(id, instanceA, 0, 1))
			if usable := err == nil; usable != keeps {
				t.Fatalf("the slot is usable: %v (%v)", usable, err)
			}
			if keeps {
				return
			}
			_, err = s.StopInstances(s.call, &ec2.StopInstancesInput{InstancesInput: ec2.InstancesInput{InstanceIDs: []string{instanceA}}})
			s.must(err)
			_, err = s.StartInstances(s.call, &ec2.InstancesInput{InstanceIDs: []string{instanceA}})
			s.must(err)
			s.attach(id, instanceA, 0, 1)
		})
	}
}

func TestStuckAttachments(t *testing.T) {
	t.Run("attaching", func(t *testing.T) {
		s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.StuckAttaching, Count: 1})
		id := s.create(subnetA)
		attachment := s.attach(id, instanceA, 0, 1)
		s.wait(time.Hour)
		stuck := status(s.eni(id))
		s.detach(attachment, false)
		if freed := status(s.eni(id)); stuck != "in-use/attaching" || freed != "available" {
			t.Errorf("%s, then %s", stuck, freed)
		}
	})
	t.Run("detaching", func(t *testing.T) {
		s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.StuckDetaching, Resource: instanceA})
		id := s.create(subnetA)
		attachment := s.attach(id, instanceA, 0, 1)
		s.detach(attachment, false)
		s.wait(time.Hour)
		s.detach(attachment, false)
		stuck := status(s.eni(id))
		s.detach(attachment, true)
		if freed := status(s.eni(id)); stuck != "in-use/detaching" || freed != "available" {
			t.Errorf("%s, then %s", stuck, freed)
		}
	})
}

func TestFaultsOfAttaching(t *testing.T) {
	t.Run("the instance dies", func(t *testing.T) {
		s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.InstanceDies, Count: 1})
		id := s.create(subnetA)
		_, err := s.AttachNetworkInterface(s.call, attach(id, instanceA, 0, 1))
		if codeOf(err) != "IncorrectState" || s.instance(instanceA).State.Name != ec2.Terminated || status(s.eni(id)) != "available" {
			t.Errorf("%v; the instance is %s, the interface %s", err, s.instance(instanceA).State.Name, status(s.eni(id)))
		}
	})
	t.Run("a lower limit", func(t *testing.T) {
		s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.LowerLimit, Limit: 2, Resource: instanceA})
		s.attach(s.create(subnetA), instanceA, 0, 1)
		_, err := s.AttachNetworkInterface(s.call, attach(s.create(subnetA), instanceA, 0, 2))
		if codeOf(err) != "AttachmentLimitExceeded" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the card index bug", func(t *testing.T) {
		s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.CardIndexBug})
		s.attach(s.create(subnetA), cardsA, 1, 1)
		id := s.create(subnetA)
		_, err := s.AttachNetworkInterface(s.call, &ec2.AttachNetworkInterfaceInput{NetworkInterfaceID: id, InstanceID: cardsA, DeviceIndex: new(1)})
		if codeOf(err) != "InvalidParameterValue" {
			t.Errorf("without a card: %v", err)
		}
		s.attach(id, cardsA, 0, 1)
	})
}

func TestSwitchesOfAttaching(t *testing.T) {
	t.Run("ShowDetaching", func(t *testing.T) {
		s := play(t, ec2.Behavior{ShowDetaching: true, Detach: exactly(time.Second)})
		id := s.create(subnetA)
		s.detach(s.attach(id, instanceA, 0, 1), false)
		if got := status(s.eni(id)); got != "detaching/detaching" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("RefuseSecondDetach", func(t *testing.T) {
		s := play(t, ec2.Behavior{RefuseSecondDetach: true, Detach: exactly(time.Second)})
		attachment := s.attach(s.create(subnetA), instanceA, 0, 1)
		s.detach(attachment, false)
		_, err := s.DetachNetworkInterface(s.call, &ec2.DetachNetworkInterfaceInput{AttachmentID: attachment})
		if codeOf(err) != "IncorrectState" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("codes", func(t *testing.T) {
		s := play(t, ec2.Behavior{AttachInUseCode: "InvalidParameterValue", DeleteInUseCode: "InvalidNetworkInterface.InUse"})
		id := s.create(subnetA)
		s.attach(id, instanceA, 0, 1)
		_, attached := s.AttachNetworkInterface(s.call, attach(id, smallA, 0, 1))
		_, deleted := s.DeleteNetworkInterface(s.call, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: id})
		if codeOf(attached) != "InvalidParameterValue" || codeOf(deleted) != "InvalidNetworkInterface.InUse" {
			t.Errorf("attach %v, delete %v", attached, deleted)
		}
	})
	t.Run("Available and AttachToPending", func(t *testing.T) {
		s := play(t, ec2.Behavior{Available: exactly(time.Second), Start: exactly(time.Minute), AttachToPending: true})
		launched, err := s.Launch(s.call, ec2.WorldInstance{InstanceType: "m5.xlarge", SubnetID: subnetA})
		s.must(err)
		id := s.create(subnetA)
		if _, err := s.AttachNetworkInterface(s.call, attach(id, launched[0].InstanceID, 0, 1)); codeOf(err) != "IncorrectState" {
			t.Errorf("a pending interface: %v", err)
		}
		s.wait(time.Second)
		s.attach(id, launched[0].InstanceID, 0, 1)
	})
}
