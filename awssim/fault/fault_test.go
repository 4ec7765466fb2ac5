// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/fault"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// strikes draws n times and returns which draws struck.
func strikes(t *testing.T, f fault.Fault, n int) []bool {
	t.Helper()
	set := fault.NewSet(1)
	if _, err := set.Add(f, now); err != nil {
		t.Fatal(err)
	}
	var struck []bool
	for i := range n {
		_, strikes := set.Draw(f.Kind, now.Add(time.Duration(i)*time.Second), "Attach", "eni-1", "i-1")
		struck = append(struck, strikes)
	}
	return struck
}

func TestDraw(t *testing.T) {
	for name, row := range map[string]struct {
		fault fault.Fault
		want  []bool
	}{
		"always":           {fault.Fault{Kind: fault.Throttle}, []bool{true, true, true, true}},
		"twice":            {fault.Fault{Kind: fault.Throttle, Count: 2}, []bool{true, true, false, false}},
		"every second":     {fault.Fault{Kind: fault.Throttle, Every: 2}, []bool{false, true, false, true}},
		"for two seconds":  {fault.Fault{Kind: fault.Throttle, Duration: 2 * time.Second}, []bool{true, true, false, false}},
		"the action":       {fault.Fault{Kind: fault.Throttle, Action: "Attach", Count: 1}, []bool{true, false}},
		"another action":   {fault.Fault{Kind: fault.Throttle, Action: "Detach"}, []bool{false, false}},
		"the resource":     {fault.Fault{Kind: fault.Throttle, Resource: "i-1"}, []bool{true, true}},
		"another resource": {fault.Fault{Kind: fault.Throttle, Resource: "i-2"}, []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, strikes(t, row.fault, len(row.want))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestProbability(t *testing.T) {
	struck := 0
	for _, one := range strikes(t, fault.Fault{Kind: fault.Error, Probability: 0.3}, 1000) {
		if one {
			struck++
		}
	}
	if struck < 250 || struck > 350 {
		t.Errorf("struck %d times of 1,000, want about 300", struck)
	}
}

func TestListAndRemove(t *testing.T) {
	set := fault.NewSet(1)
	for _, f := range []fault.Fault{{Kind: fault.Throttle, Count: 1}, {Kind: fault.Error}} {
		if _, err := set.Add(f, now); err != nil {
			t.Fatal(err)
		}
	}
	set.Draw(fault.Throttle, now, "x")
	set.Draw(fault.Error, now, "x")
	if got := set.List(now); len(got) != 1 || got[0].ID != 2 || got[0].Strikes != 1 {
		t.Errorf("list %+v, want the second with one strike", got)
	}
	if !set.Remove(2) || set.Remove(2) || len(set.List(now)) != 0 {
		t.Error("the second is not removed once")
	}
}

func TestJSON(t *testing.T) {
	want := fault.Fault{
		Kind: fault.StaleRead, Action: "DescribeInstances", Probability: 0.5, Duration: 90 * time.Second, Age: time.Minute, Jitter: true,
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got fault.Fault
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after a round trip by %s (-want +got):\n%s", text, diff)
	}
	for _, bad := range []string{`{"kind":"throttle","colour":"red"}`, `{"kind":"throttle","duration":"long"}`, `{"kind":"throttle","duration":5}`} {
		if json.Unmarshal([]byte(bad), &got) == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"no kind":             {},
		"unknown kind":        {Kind: "fire"},
		"probability":         {Kind: fault.Throttle, Probability: 1.5},
		"negative count":      {Kind: fault.Throttle, Count: -1},
		"negative duration":   {Kind: fault.Throttle, Duration: -1},
		"no age":              {Kind: fault.StaleRead},
		"too old":             {Kind: fault.StaleRead, Age: time.Hour},
		"no limit":            {Kind: fault.LowerLimit},
		"no delay":            {Kind: fault.Delay},
		"no reply":            {Kind: fault.WrongReply},
		"unknown reply":       {Kind: fault.WrongReply, Reply: "poem"},
		"status of a success": {Kind: fault.Error, Status: 200},
	} {
		if f.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, kind := range fault.Kinds() {
		f := fault.Fault{Kind: fault.Kind(kind), Age: time.Second, Delay: time.Second, Limit: 1, Reply: fault.Empty}
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
	}
}
