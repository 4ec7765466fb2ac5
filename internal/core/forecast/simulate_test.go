// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// texts returns the actions in words, in their order.
func texts(actions []plan.Action) []string {
	var all []string
	for _, action := range actions {
		all = append(all, action.String())
	}
	return all
}

// changed is a desiredInterface with a change.
func changed(w plan.DesiredInterface, change func(*plan.DesiredInterface)) plan.DesiredInterface {
	change(&w)
	return w
}

// TestSimulateListsTheCallsOfANewInterface checks which attributes of a new interface are part of its create call, and
// which need separate calls.
func TestSimulateListsTheCallsOfANewInterface(t *testing.T) {
	create := "create an interface in subnet-1 for " + eni.Slot{Device: 1}.String()
	attach := "attach new interface 1 at " + eni.Slot{Device: 1}.String()
	keep := "set delete on termination true of new interface 1"
	for name, tc := range map[string]struct {
		change func(*plan.DesiredInterface)
		want   []string
	}{
		"defaults": {func(*plan.DesiredInterface) {}, []string{create, attach, keep}},
		"EC2 keeps new interfaces by default": {
			func(w *plan.DesiredInterface) { w.Spec.DeleteOnTermination = false }, []string{create, attach},
		},
		"EC2 checks source and destination by default": {
			func(w *plan.DesiredInterface) { w.Spec.SourceDestCheck = false },
			[]string{create, "set source/dest check false of new interface 1", attach, keep},
		},
		"the creation carries groups, description and tags": {
			func(w *plan.DesiredInterface) {
				w.Spec.Groups = []string{"sg-1", "sg-2"}
				w.Spec.Description, w.Spec.Tags = "storage", map[string]string{"team": "core"}
			}, []string{create, attach, keep},
		},
		"the creation carries IPv4 addresses": {
			func(w *plan.DesiredInterface) { w.Spec.SecondaryIPv4 = 9 }, []string{create, attach, keep},
		},
		"the creation carries IPv4 prefixes": {
			func(w *plan.DesiredInterface) { w.Spec.IPv4Prefixes = 9 }, []string{create, attach, keep},
		},
		"the creation carries IPv6 addresses": {
			func(w *plan.DesiredInterface) { w.Spec.IPv6 = 10 }, []string{create, attach, keep},
		},
		"the creation carries IPv6 prefixes": {
			func(w *plan.DesiredInterface) { w.Spec.IPv6Prefixes = 10 }, []string{create, attach, keep},
		},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := forecast.Simulate(desired(render.Ensure, changed(desiredInterface("subnet-1", 0), tc.change)), facts(), now)
			if diff := cmp.Diff(tc.want, texts(outcome.Actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if m := outcome.Members[0]; m.Phase != plan.Attached || m.Why.Reason != "" {
				t.Errorf("it ends %s: %+v", m.Phase, m.Why)
			}
		})
	}
}

// TestSimulateCompletesWhatEC2IsDoing checks interfaces that EC2 is changing when the forecast begins. Their calls were
// made before and do not count.
func TestSimulateCompletesWhatEC2IsDoing(t *testing.T) {
	in := func(status eni.Status, attachment eni.AttachmentStatus) eni.Interface {
		i := owned("subnet-1")
		if i.Status = status; attachment == "" {
			i.Attachment = nil
		} else {
			i.Attachment.Status = attachment
		}
		return i
	}
	attach, keep := "attach eni-1 at "+eni.Slot{Device: 1}.String(), "set delete on termination true of eni-1"
	detach, remove := "detach eni-1: it is asked for", "delete eni-1: it is asked for"
	attached := []plan.Phase{plan.Attached}
	for name, tc := range map[string]struct {
		mode render.Mode
		now  eni.Interface
		want []string
		ends []plan.Phase
	}{
		"a creation":              {render.Ensure, in(eni.Pending, ""), []string{attach, keep}, attached},
		"an attachment":           {render.Ensure, in(eni.InUse, eni.AttachmentAttaching), nil, attached},
		"a detachment":            {render.Ensure, in(eni.InUse, eni.AttachmentDetaching), []string{attach, keep}, attached},
		"a detachment to the end": {render.Release, in(eni.InUse, eni.AttachmentDetaching), []string{remove}, nil},
		"a detachment, read late": {render.Release, in(eni.Detaching, ""), []string{remove}, nil},
		"an attachment to remove": {render.Release, in(eni.InUse, eni.AttachmentAttaching), []string{detach, remove}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := desired(tc.mode)
			if tc.mode == render.Ensure {
				d = desired(tc.mode, desiredInterface("subnet-1", 0))
			}
			outcome := forecast.Simulate(d, facts(tc.now), now)
			if diff := cmp.Diff(tc.want, texts(outcome.Actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ends, phases(outcome)); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSimulateShowsANewInterfaceAsEC2Would compares the whole interface that a member ends with. The addresses are not
// known before EC2 chooses them, so only their number counts. EC2 may return a registered node as pending for a second
// or two, which delays nothing.
func TestSimulateShowsANewInterfaceAsEC2Would(t *testing.T) {
	in := facts()
	in.Look.Instance.VPCID, in.Look.Instance.State = "vpc-1", eni.InstancePending
	d := desired(render.Ensure, changed(desiredInterface("subnet-1", 0), func(w *plan.DesiredInterface) {
		w.Spec.Description, w.Spec.SecondaryIPv4, w.Spec.IPv6Prefixes = "storage", 2, 1
		w.Spec.Tags = map[string]string{"team": "core"}
	}))
	m := forecast.Simulate(d, in, now).Members[0]
	if m.Interface == nil {
		t.Fatalf("there is no interface: %+v", m.Why)
	}
	got := *m.Interface
	if counts := got.Counts(); counts != (eni.AddressCounts{SecondaryIPv4: 2, IPv6Prefixes: 1}) {
		t.Errorf("the counts of addresses are %+v", counts)
	}
	got.Addresses = eni.Addresses{}
	want := eni.Interface{
		ID: "new interface 1", Type: eni.Standard, Status: eni.InUse, Description: "storage", SubnetID: "subnet-1",
		VPCID: "vpc-1", Zone: "a", Groups: []string{"sg-1"}, SourceDestCheck: true,
		Tags: m.Member.Tags(now, map[string]string{"team": "core"}),
		Attachment: &eni.Attachment{
			ID: "attachment of new interface 1", InstanceID: instanceID, Slot: eni.Slot{Device: 1},
			Status: eni.AttachmentAttached, DeleteOnTermination: true,
		},
	}
	if diff := cmp.Diff(want, got, exact); diff != "" {
		t.Errorf("interface (-want +got):\n%s", diff)
	}
}

func phases(outcome forecast.Outcome) []plan.Phase {
	var all []plan.Phase
	for _, m := range outcome.Members {
		all = append(all, m.Phase)
	}
	return all
}
