// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/volatile"
)

var (
	start = time.Unix(1_800_000_000, 0)
	key   = identity.Key{Owner: "uid"}
	full  = &eni.APIError{Class: eni.NoAddresses}

	update = plan.Change{Member: identity.Member{Key: key}, InterfaceID: "eni-1", To: plan.SourceDestCheck(true)}
)

func createIn(subnetID string) plan.Create {
	return plan.Create{Member: identity.Member{Key: key}, SubnetID: subnetID}
}

func TestAttemptsCountFailuresUntilASuccess(t *testing.T) {
	var a volatile.Attempts
	create := createIn("subnet-1")
	a.Record("i-1", create, full, start)
	a.Record("i-1", create, full, start.Add(time.Hour))
	if got := a.Of("i-1").Backoffs[key]; got.Count != 2 || !got.At.Equal(start.Add(time.Hour)) {
		t.Errorf("after two failures: got count %d at %v", got.Count, got.At)
	}
	if got := a.Of("i-2").Backoffs; len(got) != 0 {
		t.Errorf("another instance has %v", got)
	}
	a.Record("i-1", create, nil, start)
	if got := a.Of("i-1").Backoffs; len(got) != 0 {
		t.Errorf("after a success: got %v", got)
	}
}

// EC2 refuses a slot regardless of the member, so a success elsewhere says nothing about the slot.
func TestAttemptsKeepRefusedSlots(t *testing.T) {
	var a volatile.Attempts
	attach := func(index int) plan.Attach {
		return plan.Attach{Member: identity.Member{Key: key}, Slot: eni.Slot{Device: index}}
	}
	a.Record("i-1", attach(1), &eni.APIError{Class: eni.SlotTaken}, start)
	a.Record("i-1", attach(2), nil, start)
	if got := a.Of("i-1").Backoffs[key]; got.Count != 0 || len(got.UnusableSlots) != 1 {
		t.Errorf("after a success elsewhere: got %+v, want one unusable slot", got)
	}
	a.Record("i-1", attach(1), nil, start)
	if got := a.Of("i-1").Backoffs; len(got) != 0 {
		t.Errorf("after a success in the slot: got %v", got)
	}
}

func TestAttemptsCountRepeatedUpdatesByInstance(t *testing.T) {
	var a volatile.Attempts
	for n := range 3 {
		a.Record("i-1", update, nil, start.Add(time.Duration(n)*time.Minute))
	}
	if got := a.Of("i-1").RepeatedUpdates["eni-1"][plan.FieldOf(update.To)].Count; got != 3 {
		t.Errorf("got %d repetitions, want 3", got)
	}
	if got := a.Of("i-2").RepeatedUpdates; len(got) != 0 {
		t.Errorf("another instance has %v", got)
	}
}

func TestAttemptsCountRefusedEvictions(t *testing.T) {
	var a volatile.Attempts
	a.RecordEviction("i-1", "eni-1", "a budget", start)
	a.RecordEviction("i-1", "eni-1", "a budget", start.Add(time.Minute))
	want := map[string]fleet.Attempt{"eni-1": {At: start.Add(time.Minute), Refusals: 2, Refusal: "a budget"}}
	if diff := cmp.Diff(want, a.Of("i-1").Evictions); diff != "" {
		t.Errorf("after two refusals (-want +got):\n%s", diff)
	}
	a.RecordEviction("i-1", "eni-1", "", start.Add(time.Hour))
	if got := a.Of("i-1").Evictions["eni-1"]; got.Refusals != 0 || got.Refusal != "" {
		t.Errorf("after an attempt without a refusal: got %+v", got)
	}
}

func TestLaterAttemptsDoNotChangeTheResult(t *testing.T) {
	var a volatile.Attempts
	record := func(err error) {
		a.Record("i-1", update, err, start)
		a.RecordEviction("i-1", "eni-1", "a budget", start)
	}
	record(nil)
	record(full)
	before, want := a.Of("i-1"), a.Of("i-1")
	want.Backoffs, want.Evictions = maps.Clone(want.Backoffs), maps.Clone(want.Evictions)
	want.RepeatedUpdates = maps.Clone(want.RepeatedUpdates)
	record(full)
	record(nil)
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("the result changed (-want +got):\n%s", diff)
	}
}

// TestFullSubnets plays calls for one subnet, and checks after each whether a create in it is allowed.
func TestFullSubnets(t *testing.T) {
	const soon, later = time.Minute, plan.SubnetFullBackoff
	demand := plan.SubnetDemand{Owner: "uid", SubnetID: "subnet-1"}
	cases := map[string]struct {
		outcomes []error
		after    time.Duration
		want     bool
	}{
		"no create failed":                                   {nil, 0, true},
		"the subnet was full a minute ago":                   {[]error{full}, soon, false},
		"the subnet was full a backoff ago":                  {[]error{full}, later, true},
		"another node found an address":                      {[]error{full, nil}, soon, true},
		"the attempt failed for another cause":               {[]error{full, errors.New("no answer")}, 0, true},
		"a failure for another cause is no sign of fullness": {[]error{errors.New("no answer")}, 0, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var s volatile.FullSubnets
			for _, err := range tc.outcomes {
				s.Record(createIn("subnet-1"), err, start)
			}
			if got := s.Allow([]plan.Action{createIn("subnet-1")}, start.Add(tc.after)); got != tc.want {
				t.Errorf("got %v, want %v; next attempts %v", got, tc.want, s.Known(start))
			}
			if !s.Allow([]plan.Action{createIn("subnet-2"), plan.Delete{}}, start) {
				t.Error("a full subnet holds up other calls")
			}
		})
	}
	t.Run("one node at a time makes the next attempt", func(t *testing.T) {
		var s volatile.FullSubnets
		s.Record(createIn("subnet-1"), full, start)
		attempt := start.Add(later)
		first, second := s.Allow([]plan.Action{createIn("subnet-1")}, attempt), s.Allow([]plan.Action{createIn("subnet-1")}, attempt)
		if !first || second {
			t.Errorf("got %v and %v, want the first alone", first, second)
		}
		if diff := cmp.Diff(map[plan.SubnetDemand]plan.FullSubnet{demand: {Until: attempt.Add(later), Class: eni.NoAddresses}}, s.Known(attempt)); diff != "" {
			t.Errorf("next attempts (-want +got):\n%s", diff)
		}
	})
	t.Run("a subnet that is full for no node any more is dropped", func(t *testing.T) {
		var s volatile.FullSubnets
		s.Record(createIn("subnet-1"), full, start)
		if got := s.Known(start.Add(time.Hour)); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestForgetInstanceDropsItsAttempts(t *testing.T) {
	var s volatile.State
	s.Attempts.Record("i-1", update, nil, start)
	s.Attempts.Record("i-1", update, full, start)
	s.Attempts.RecordEviction("i-1", "eni-1", "", start)
	s.ForgetInstance("i-1")
	if diff := cmp.Diff(volatile.InstanceAttempts{}, s.Attempts.Of("i-1")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
