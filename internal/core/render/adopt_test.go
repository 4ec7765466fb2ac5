// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

func TestNodeENITakesOverWhatTheInstanceGotBeforeItJoined(t *testing.T) {
	for name, tc := range map[string]struct {
		owned  []inventory.Record
		claims []render.Claim
		want   []string
	}{
		"in the same slots, whatever the network is called": {
			[]inventory.Record{preJoin("eni-1", "multus", "s1", 1), preJoin("eni-2", "multus", "s2", 2)},
			[]render.Claim{asks("upf", "s1", "s2")}, []string{"ensure upf[0] eni-1", "ensure upf[1] eni-2"},
		},
		"the one of its own name first": {
			[]inventory.Record{preJoin("eni-1", "other", "s1", 1), preJoin("eni-2", "upf", "s1", 2)},
			[]render.Claim{asks("upf", "s1")}, []string{"ensure upf[0] eni-2", "retain other[0] eni-1"},
		},
		"but not what bears another NodeENI's name": {
			[]inventory.Record{preJoin("eni-1", "upf", "s1", 1)},
			[]render.Claim{asks("a", "s1"), asks("upf", "s1")}, []string{"ensure a[0]", "ensure upf[0] eni-1"},
		},
		"without a NodeENI it stays as it is": {
			[]inventory.Record{preJoin("eni-1", "multus", "s1", 1)}, nil, []string{"retain multus[0] eni-1"},
		},
		"in another subnet it stays as it is": {
			[]inventory.Record{preJoin("eni-1", "multus", "s9", 1)},
			[]render.Claim{asks("multus", "s1")}, []string{"ensure multus[0]", "retain multus[0] eni-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := render.Interfaces(declared(tc.claims...), render.Evidence{}, running(tc.owned...), now)
			if diff := cmp.Diff(tc.want, goals(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatWasTakenOverStays adds another NodeENI that would have been first, before a tag names the owner of the
// interface.
func TestWhatWasTakenOverStays(t *testing.T) {
	for name, tc := range map[string]struct {
		ledger identity.Generations
		want   []string
	}{
		"with whom the ledger names": {
			identity.Generations{{Owner: "uid-upf"}: identity.GenerationAt(start)}, []string{"ensure a[0]", "ensure upf[0] eni-1"},
		},
		"and is the first one's without any": {nil, []string{"ensure a[0] eni-1", "ensure upf[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := running(preJoin("eni-1", "multus", "s1", 1))
			o.Ledger = tc.ledger
			r := render.Interfaces(declared(asks("a", "s1"), asks("upf", "s1")), render.Evidence{}, o, now)
			if diff := cmp.Diff(tc.want, goals(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatWasReportedAsTakenOverStays adds the NodeENI with the name of the network after another one took the interface
// over. The NodeENIState lists the interface for that one, and its pods can use it.
func TestWhatWasReportedAsTakenOverStays(t *testing.T) {
	pausedUPF := asks("upf", "s1")
	pausedUPF.Mode = render.Paused
	for name, tc := range map[string]struct {
		adopter render.Claim
		want    []string
	}{
		"with the one that the state names":          {asks("upf", "s1"), []string{"ensure multus[0]", "ensure upf[0] eni-1"}},
		"and is nobody else's while that is paused":  {pausedUPF, []string{"ensure multus[0]", "retain multus[0] eni-1"}},
		"unless that does not ask for it any longer": {asks("upf", "s2"), []string{"ensure multus[0] eni-1", "ensure upf[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := render.Evidence{HasState: true, Recorded: []render.Recorded{{ID: "eni-1", Key: identity.Key{Owner: "uid-upf"}}}}
			r := render.Interfaces(declared(asks("multus", "s1"), tc.adopter), e, running(preJoin("eni-1", "multus", "s1", 1)), now)
			if diff := cmp.Diff(tc.want, goals(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatWasReportedAsTakenOverComesFirst has another pre-join interface that matches better, since a user edited the
// NodeENI, before a tag names the owner of the first one. Both would have one identity if the NodeENI took it over.
func TestWhatWasReportedAsTakenOverComesFirst(t *testing.T) {
	second := asks("upf", "s1")
	second.FirstSlot.Device, second.Interfaces[0].Slot.Device = 2, 2
	for name, other := range map[string]inventory.Record{
		"before the one in the requested slot":         preJoin("eni-2", "other", "s1", 2),
		"before the one of a network of the same name": preJoin("eni-2", "upf", "s1", 2),
	} {
		t.Run(name, func(t *testing.T) {
			e := render.Evidence{HasState: true, Recorded: []render.Recorded{{ID: "eni-1", Key: identity.Key{Owner: "uid-upf"}}}}
			r := render.Interfaces(declared(second), e, running(preJoin("eni-1", "multus", "s1", 1), other), now)
			want := []string{"ensure upf[0] eni-1", "retain " + other.Member.NodeENI + "[0] eni-2"}
			if diff := cmp.Diff(want, goals(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNodeENITakesOverWhatAnEarlierOneOfItsNameLeft has interfaces in use whose NodeENI was lost and created again.
func TestNodeENITakesOverWhatAnEarlierOneOfItsNameLeft(t *testing.T) {
	unseen := outlived("eni-1", "upf", "s1", 0)
	unseen.Missing = true
	with := func(status eni.AttachmentStatus) inventory.Record {
		r := outlived("eni-1", "upf", "s1", 0)
		r.Attachment.Status = status
		return r
	}
	for name, tc := range map[string]struct {
		owned  []inventory.Record
		claims []render.Claim
		want   []string
	}{
		"all of them": {
			[]inventory.Record{outlived("eni-1", "upf", "s1", 0), outlived("eni-2", "upf", "s2", 1)},
			[]render.Claim{gone("upf"), asks("upf", "s1", "s2")}, []string{"ensure upf[0] eni-1", "ensure upf[1] eni-2"},
		},
		"with what is lacking made": {
			[]inventory.Record{outlived("eni-2", "upf", "s2", 1)},
			[]render.Claim{asks("upf", "s1", "s2"), gone("upf")}, []string{"ensure upf[0]", "ensure upf[1] eni-2"},
		},
		"not of another name": {
			[]inventory.Record{outlived("eni-1", "other", "s1", 0)},
			[]render.Claim{gone("other"), asks("upf", "s1")}, []string{"ensure upf[0]", "retain other[0] eni-1"},
		},
		"not in another subnet": {
			[]inventory.Record{outlived("eni-1", "upf", "s9", 0)},
			[]render.Claim{gone("upf"), asks("upf", "s1")}, []string{"ensure upf[0]", "retain upf[0] eni-1"},
		},
		"not one that somebody attached elsewhere": {
			[]inventory.Record{elsewhere(outlived("eni-1", "upf", "s1", 0))},
			[]render.Claim{gone("upf"), asks("upf", "s1")}, []string{"ensure upf[0]", "release upf[0] eni-1"},
		},
		"not before it is certain that the earlier one is gone, and nothing is made meanwhile": {
			[]inventory.Record{outlived("eni-1", "upf", "s1", 0)},
			[]render.Claim{asks("upf", "s1")}, []string{"ensure upf[0] after eni-1", "retain upf[0] eni-1"},
		},
		"one that is being attached": {
			[]inventory.Record{with(eni.AttachmentAttaching)},
			[]render.Claim{gone("upf"), asks("upf", "s1")}, []string{"ensure upf[0] eni-1"},
		},
		"one that is being attached not before it is certain either, and nothing is made meanwhile": {
			[]inventory.Record{with(eni.AttachmentAttaching)},
			[]render.Claim{asks("upf", "s1")}, []string{"ensure upf[0] after eni-1", "retain upf[0] eni-1"},
		},
		"not one that is leaving": {
			[]inventory.Record{with(eni.AttachmentDetaching)},
			[]render.Claim{gone("upf"), asks("upf", "s1")}, []string{"ensure upf[0]", "retain upf[0] eni-1"},
		},
		"not while EC2 does not show it, and nothing is made meanwhile": {
			[]inventory.Record{unseen},
			[]render.Claim{gone("upf"), asks("upf", "s1")}, []string{"ensure upf[0] after eni-1", "retain upf[0] eni-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := render.Interfaces(declared(tc.claims...), render.Evidence{}, running(tc.owned...), now)
			if diff := cmp.Diff(tc.want, goals(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestALaunchInterfaceServesTheNodeENIOfItsSlot checks that one launch interface serves one desired interface, in its
// slot and an allowed subnet.
func TestALaunchInterfaceServesTheNodeENIOfItsSlot(t *testing.T) {
	o := running()
	o.Launched = []eni.Interface{inUse("eni-launch", identity.Key{}, "s1", 1).Interface}
	r := render.Interfaces(declared(asks("a", "s1"), asks("b", "s1"), asks("c", "s2")), render.Evidence{}, o, now)
	if diff := cmp.Diff([]string{"ensure a[0] eni-launch", "ensure b[0]", "ensure c[0]"}, goals(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if i := r.Interfaces[0]; i.Launched == nil || i.Record != nil || i.Generation != identity.Adopted || i.Goal != plan.Ensure {
		t.Errorf("got %+v", i)
	}
}
