// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

func TestOnlyCallsAndLedgersVerify(t *testing.T) {
	v := inventory.New(cluster)
	for n, id := range []string{"eni-called", "eni-recorded", "eni-tagged"} {
		v.ObserveInterfaces(after(0), fresh(id, member(n, 1), after(-60)))
	}
	v.RecordCall(after(1), fresh("eni-called", member(0, 1), after(-60)), always)
	v.Judged(after(1), instance, []string{"eni-recorded"}, nil)
	for _, r := range v.Of(instance) {
		if want := r.ID != "eni-tagged"; r.Verified != want {
			t.Errorf("%s is verified: %t, want %t", r.ID, r.Verified, want)
		}
	}
}

// TestEvidenceOutlivesAnAbsence checks that an interface that reads omitted for a while still has its evidence when it
// is visible again.
func TestEvidenceOutlivesAnAbsence(t *testing.T) {
	v := inventory.New(cluster)
	i := attached(fresh("eni-1", member(0, 1), after(-3600)), eni.AttachmentAttached)
	v.RecordCall(after(0), i, always)
	v.ObserveList(after(300), nil)
	v.ObserveList(after(400), nil)
	v.ObserveList(after(700), []eni.Interface{i})
	if r := v.Of(instance); len(r) != 1 || !r[0].Verified {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsDeniedCountsForNobody(t *testing.T) {
	v := inventory.New(cluster)
	v.ObserveInterfaces(after(0), attached(fresh("eni-1", member(0, 1), after(-60)), eni.AttachmentAttached))
	if newly := v.Judged(after(1), instance, nil, []string{"eni-1"}); !slices.Equal(newly, []string{"eni-1"}) {
		t.Errorf("news of %v", newly)
	}
	if newly := v.Judged(after(2), instance, nil, []string{"eni-1"}); len(newly) > 0 {
		t.Errorf("old news of %v", newly)
	}
	everybody := func(inventory.Record) bool { return true }
	if v.Holds("uid-a") || v.Attached(everybody) != 0 || !slices.Equal(v.Denied(), []string{"eni-1"}) {
		t.Errorf("holds %t, attached %d, denied %v", v.Holds("uid-a"), v.Attached(everybody), v.Denied())
	}
	v.Judged(after(3), instance, []string{"eni-1"}, nil)
	if !v.Holds("uid-a") || v.Attached(everybody) != 1 || len(v.Denied()) > 0 {
		t.Errorf("holds %t, attached %d, denied %v once it is verified", v.Holds("uid-a"), v.Attached(everybody), v.Denied())
	}
}

// TestTheEndOfAnInstanceIsBelievedAtOnce ends an instance, which reverts the effects of our calls, so that no read has
// to show them.
func TestTheEndOfAnInstanceIsBelievedAtOnce(t *testing.T) {
	for _, state := range []eni.InstanceState{eni.InstanceShuttingDown, eni.InstanceTerminated} {
		t.Run(string(state), func(t *testing.T) {
			v := inventory.New(cluster)
			free := fresh("eni-1", member(0, 1), after(-3600))
			v.RecordCall(after(0), attached(free, eni.AttachmentAttached), whether(func(i eni.Interface) bool { return i.Attachment != nil }))
			look := eni.InstanceSnapshot{At: after(1), Instance: eni.Instance{ID: instance, State: state}, Interfaces: []eni.Interface{free}}
			v.ObserveInstance(look)
			if r := v.Of(instance); len(r) != 1 || r[0].Attachment != nil {
				t.Errorf("%s after %s the call is believed rather than the reading: %+v", state, time.Second, r)
			}
		})
	}
}
