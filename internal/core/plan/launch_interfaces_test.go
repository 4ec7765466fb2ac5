// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// launchedAt adds a launch interface that satisfies [desiredInterface].
func (w *minimalEC2) launchedAt(slot eni.Slot, subnet string) eni.Interface {
	i := w.make(subnet, map[string]string{
		identity.TagCluster: cluster, identity.TagNodeTemplate: "default", identity.TagNodeTemplateUID: "uid-t", identity.TagNoManage: "true",
	})
	i.Status, i.Description, i.Groups = eni.InUse, "d", []string{"sg-1"}
	i.Attachment = &eni.Attachment{ID: "attach-" + i.ID, InstanceID: instance, Slot: slot, Status: eni.AttachmentAttached, DeleteOnTermination: true}
	w.interfaces[i.ID] = i
	return i
}

// A launch interface in the declared slot serves without a call.
func TestALaunchedInterfaceServesANodeENIWithoutACall(t *testing.T) {
	w := newMinimalEC2(limits(4))
	born := w.launchedAt(device(1), "s1")
	p, _ := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	if w.calls != 0 {
		t.Errorf("%d calls were made", w.calls)
	}
	if len(p.Members) != 1 || !p.Members[0].Ready() || p.Members[0].Interface.ID != born.ID || p.Members[0].Slot != device(1) {
		t.Errorf("members %+v", p.Members)
	}
	observed := w.observe(p.Ledger)
	observed.Snapshot = nil
	if again := compute(desired(claim("a", desiredInterface(0, 1, "s1"))), observed, w.now); again.NeedsDescribe {
		t.Error("a node at rest is looked at")
	}
}

func TestWhichLaunchedInterfacesServe(t *testing.T) {
	cases := map[string]struct {
		slot   eni.Slot
		subnet string
		serves bool
	}{
		"the slot and a subnet of it": {device(1), "s1", true},
		"another of its subnets":      {device(1), "s2", true},
		"another subnet":              {device(1), "s9", false},
		"another slot":                {device(2), "s1", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			born := w.launchedAt(tc.slot, tc.subnet)
			p, _ := w.drive(desired(claim("a", desiredInterface(0, 1, "s1", "s2"))), nil)
			if serves := p.Members[0].Interface.ID == born.ID; serves != tc.serves {
				t.Errorf("serves: %t", serves)
			}
			if !p.Members[0].Ready() {
				t.Errorf("not ready: %v", p.Members[0].Why)
			}
			if still := w.interfaces[born.ID]; still.Attachment == nil || still.Attachment.Slot != tc.slot {
				t.Error("the launched interface was moved")
			}
		})
	}
}

// TestThePrimaryInterfaceIsNeverAdopted: a NodeENI would change its groups and addresses, which the node's own network
// needs.
func TestThePrimaryInterfaceIsNeverAdopted(t *testing.T) {
	w := newMinimalEC2(limits(4))
	for id := range w.interfaces {
		delete(w.interfaces, id)
	}
	primary := w.launchedAt(eni.Primary, "s1")
	asked := desiredInterface(0, eni.Primary.Device, "s1")
	asked.Spec = spec("sg-2")
	p := w.follow(desired(claim("a", asked)), nil, 5, 5*time.Second)
	if got := w.interfaces[primary.ID]; got.Groups[0] != primary.Groups[0] || p.Members[0].Interface == nil || p.Members[0].Interface.ID == primary.ID {
		t.Errorf("the primary interface serves the NodeENI, with the groups %v:\n%s", got.Groups, p.Explain())
	}
}

func TestAnAdoptedInterfaceIsMendedAndKeepsItsTags(t *testing.T) {
	w := newMinimalEC2(limits(4))
	born := w.launchedAt(device(1), "s1")
	asked := desiredInterface(0, 1, "s1")
	asked.Spec = spec("sg-2")
	asked.Spec.Description, asked.Spec.SourceDestCheck, asked.Spec.IPv4Prefixes = "router", false, 1
	w.drive(desired(claim("a", asked)), nil)
	got := w.interfaces[born.ID]
	if got.Description != "router" || got.Groups[0] != "sg-2" || got.SourceDestCheck || len(got.IPv4Prefixes) != 1 {
		t.Errorf("not as asked: %+v", got)
	}
	if _, verdict := identity.Read(cluster, got.Tags); verdict != identity.Launched {
		t.Errorf("verdict %d: its tags say that it goes with its instance", verdict)
	}
}

// The generation of an interface is the time of the decision to create it, and its age follows from that. An interface
// that replaces an adopted launch interface must not be as old as the epoch, or garbage collection would delete it as
// an old leak.
func TestAnInterfaceAfterAnAdoptedOneIsNew(t *testing.T) {
	w := newMinimalEC2(limits(4))
	w.launchedAt(device(1), "s1")
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	p := compute(desired(claim("a", desiredInterface(0, 2, "s2"))), w.observe(ledger), w.now)
	if len(p.Actions) != 1 {
		t.Fatalf("want one interface to be made:\n%s", p.Explain())
	}
	if made, is := p.Actions[0].(plan.Create); !is || made.Member.Generation != identity.GenerationAt(w.now) {
		t.Errorf("want an interface of generation %d:\n%s", identity.GenerationAt(w.now), p.Explain())
	}
}

// The loss of an interface of a live node is the worst failure: launch interfaces are never detached.
func TestALaunchedInterfaceIsNeverRemoved(t *testing.T) {
	asked := desiredInterface(0, 1, "s1")
	for name, then := range map[string]render.Claim{
		"released":      {NodeENI: "a", Owner: "uid-a", Mode: render.Release, Why: "its NodeENI is being deleted"},
		"other subnet":  func() render.Claim { c := claim("a", desiredInterface(0, 1, "s2")); c.ReplaceAllowed = true; return c }(),
		"no interfaces": claim("a"),
		"other index":   claim("a", desiredInterface(0, 2, "s1")),
		"leaked":        {NodeENI: "a", Owner: "uid-a", Mode: render.Release, Leaked: true},
		"held":          {NodeENI: "a", Owner: "uid-a", Mode: render.Retain},
		"still wanted":  claim("a", asked),
		"nobody at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			born := w.launchedAt(device(1), "s1")
			_, ledger := w.drive(desired(claim("a", asked)), nil)
			w.now = w.now.Add(time.Hour)
			d := desired(then)
			if then.Owner == "" {
				d = desired()
			}
			w.drive(d, ledger)
			if still, is := w.interfaces[born.ID]; !is || still.Attachment == nil || still.Attachment.Status != eni.AttachmentAttached {
				t.Errorf("the interface is %+v", still)
			}
		})
	}
}

func TestMends(t *testing.T) {
	words, no, two := "n3", false, 2
	mend := func(id string) plan.InPlaceUpdate {
		return plan.InPlaceUpdate{InterfaceID: id, Owner: "default", OwnerUID: "uid-t", Description: &words, Groups: []string{"sg-2"}, DeleteOnTermination: &no, IPv4Prefixes: &two}
	}
	t.Run("are carried out", func(t *testing.T) {
		w := newMinimalEC2(limits(4))
		born := w.launchedAt(device(1), "s1")
		d := desired()
		d.InPlaceUpdates = []plan.InPlaceUpdate{mend(born.ID)}
		p, ledger := w.drive(d, nil)
		got := w.interfaces[born.ID]
		if got.Description != "n3" || got.Groups[0] != "sg-2" || got.Attachment.DeleteOnTermination || len(got.IPv4Prefixes) != 2 {
			t.Errorf("not mended: %+v", got)
		}
		if len(p.Members) != 0 || len(ledger) != 0 {
			t.Errorf("it is no member: %v, %v", p.Members, ledger)
		}
	})
	t.Run("wait for a look", func(t *testing.T) {
		w := newMinimalEC2(limits(4))
		born := w.launchedAt(device(1), "s1")
		d, observed := desired(), w.observe(nil)
		d.InPlaceUpdates, observed.Snapshot = []plan.InPlaceUpdate{mend(born.ID)}, nil
		if p := compute(d, observed, w.now); !p.NeedsDescribe || len(p.Actions) > 0 {
			t.Errorf("without a look: %v", p.Actions)
		}
	})
	t.Run("leave what a NodeENI has adopted", func(t *testing.T) {
		w := newMinimalEC2(limits(4))
		born := w.launchedAt(device(1), "s1")
		d := desired(claim("a", desiredInterface(0, 1, "s1")))
		d.InPlaceUpdates = []plan.InPlaceUpdate{mend(born.ID)}
		if w.drive(d, nil); w.calls != 0 {
			t.Errorf("%d calls", w.calls)
		}
	})
	t.Run("keep prefixes while a report may be lost", func(t *testing.T) {
		w := newMinimalEC2(limits(4))
		born := w.launchedAt(device(1), "s1")
		born.IPv4Prefixes = blocks(0, 1, 2)
		w.interfaces[born.ID], w.requested[born.ID] = born, born.Addresses
		d, observed := desired(), w.observe(nil)
		d.InPlaceUpdates = []plan.InPlaceUpdate{{InterfaceID: born.ID, Owner: "default", OwnerUID: "uid-t", IPv4Prefixes: &two}}
		until := w.now.Add(time.Minute)
		store(&observed, born.ID, func(s *plan.Stored) { s.MayLackReport, s.ReportDue = true, until })
		if p := compute(d, observed, w.now); len(p.Actions) > 0 || !p.RequeueAt.Equal(until) {
			t.Errorf("actions %v, and the next plan is due at %v, want none and %v", p.Actions, p.RequeueAt, until)
		}
		if p := compute(d, observed, until); len(p.Actions) != 1 {
			t.Errorf("actions %v when it is certain that no report is lost, want one", p.Actions)
		}
	})
	t.Run("wait after a failure", func(t *testing.T) {
		w := newMinimalEC2(limits(4))
		born := w.launchedAt(device(1), "s1")
		d, observed := desired(), w.observe(nil)
		d.InPlaceUpdates = []plan.InPlaceUpdate{mend(born.ID)}
		observed.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-t", Ordinal: 1}: {Class: eni.Unauthorized, At: w.now, Count: 1}}
		if p := compute(d, observed, w.now); len(p.Actions) > 0 || p.RequeueAt.IsZero() {
			t.Errorf("at once again: %v", p.Actions)
		}
	})
}

// No create call was made for an adopted member, so its removal does not wait for an interface to become visible.
func TestAnAdoptedMemberIsLetGoAtOnce(t *testing.T) {
	w := newMinimalEC2(limits(4))
	w.launchedAt(device(1), "s1")
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	observed := w.observe(ledger)
	observed.Era = era.Era{Since: w.now}
	released := render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release, Why: "its NodeENI is being deleted"}
	if p := compute(desired(released), observed, w.now); len(ledger) != 1 || len(p.Ledger) > 0 || len(p.Actions) > 0 {
		t.Errorf("ledger %v, then %v, actions %v", ledger, p.Ledger, p.Actions)
	}
}
