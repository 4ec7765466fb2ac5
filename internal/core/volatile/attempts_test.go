// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/volatile"
)

var (
	start = time.Unix(1_800_000_000, 0)
	key   = identity.Interface{UID: "uid", NodeENI: "data"}
	full  = &eni.APIError{Class: eni.NoAddresses}

	update = plan.Change{Key: key, InterfaceID: "eni-1", To: plan.SourceDestCheck(true)}
)

func createIn(subnetID string) plan.Create { return plan.Create{Key: key, SubnetID: subnetID} }

func TestAttemptsAreOfOneInstance(t *testing.T) {
	var a volatile.Attempts
	a.Record("i-1", createIn("subnet-1"), full, start)
	if got := a.Of("i-1")[key.UID].Failure; got.Count != 1 || !got.At.Equal(start) {
		t.Errorf("after a failure: %+v", got)
	}
	if got := a.Of("i-2"); len(got) != 0 {
		t.Errorf("another instance has %v", got)
	}
	before := a.Of("i-1")
	a.Record("i-1", createIn("subnet-1"), nil, start)
	if before[key.UID].Failure.Count != 1 || a.Of("i-1")[key.UID].Failure.Count != 0 {
		t.Errorf("after a success: %+v; before: %+v", a.Of("i-1"), before)
	}
}

func TestInFlightCreates(t *testing.T) {
	var c volatile.InFlightCreates
	two := []plan.Call{createIn("subnet-1"), plan.Attach{}, createIn("subnet-2")}
	if creates, before := c.Begin(two); creates != 2 || before != 0 {
		t.Errorf("first: got %d creates after %d, want 2 after 0", creates, before)
	}
	if creates, before := c.Begin(two[:1]); creates != 1 || before != 2 {
		t.Errorf("second: got %d creates after %d, want 1 after 2", creates, before)
	}
	c.End(2)
	if c.Count() != 1 {
		t.Errorf("got %d in flight, want 1", c.Count())
	}
}

// TestFullSubnets plays calls for one subnet, and checks after each whether a create in it is allowed.
func TestFullSubnets(t *testing.T) {
	const soon, later = time.Minute, plan.SubnetFullBackoff
	demand := plan.SubnetDemand{NodeENI: "data", SubnetID: "subnet-1"}
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
			if got := s.Allow([]plan.Call{createIn("subnet-1")}, start.Add(tc.after)); got != tc.want {
				t.Errorf("got %v, want %v; next attempts %v", got, tc.want, s.Known(start))
			}
			if !s.Allow([]plan.Call{createIn("subnet-2"), plan.Delete{}}, start) {
				t.Error("a full subnet holds up other calls")
			}
		})
	}
	t.Run("one node at a time makes the next attempt", func(t *testing.T) {
		var s volatile.FullSubnets
		s.Record(createIn("subnet-1"), full, start)
		attempt := start.Add(later)
		first, second := s.Allow([]plan.Call{createIn("subnet-1")}, attempt), s.Allow([]plan.Call{createIn("subnet-1")}, attempt)
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

func TestStateShrinks(t *testing.T) {
	var s volatile.State
	s.Attempts.Record("i-1", update, nil, start)
	s.FullSubnets.Record(createIn("subnet-1"), full, start)
	creates, _ := s.Creates.Begin([]plan.Call{createIn("subnet-1")})
	s.StaleInstances.Add("i-1")

	s.ForgetInstance("i-1")
	s.FullSubnets.Known(start.Add(time.Hour))
	s.Creates.End(creates)
	if left := fmt.Sprint(s); left != fmt.Sprint(volatile.State{}) {
		t.Errorf("left: %s", left)
	}
}
