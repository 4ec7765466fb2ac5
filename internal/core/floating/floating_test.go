// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floating_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/floating"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	vip   = netip.MustParseAddr("10.0.4.200")
)

// interfaceA is the interface of node-a, on which addresses may move.
func interfaceA() *floating.Interface {
	return &floating.Interface{
		ID: "eni-a", InstanceType: "t3.medium", SubnetID: "subnet-1", Subnet: netip.MustParsePrefix("10.0.4.0/24"),
		Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.4.192/26")}, Room: -1,
	}
}

// held is the address with a pod on node-a as the holder.
func held() floating.Address {
	return floating.Address{IP: vip, SubnetID: "subnet-1", Sequence: 3, Holder: &floating.Holder{Node: "node-a", InterfaceID: "eni-a"}}
}

func assigned(to string, found bool) *floating.Assignment {
	return &floating.Assignment{InterfaceID: to, Sequence: 3, Found: found}
}

// TestNext decides once for each situation. Each is the address that a pod of node-a has and that EC2 has nowhere, with a
// change.
func TestNext(t *testing.T) {
	type situation struct {
		floating.Address
		floating.Facts
		floating.Memory
	}
	for name, tc := range map[string]struct {
		change func(*situation)
		do     floating.Action
		on     string
		state  floating.State
		reason string
		after  time.Duration // until the next decision; 0 for none
	}{
		"no interface has it": {func(*situation) {}, floating.Assign, "eni-a", floating.Progressing, "Assigning", 0},
		"another interface has it": {func(s *situation) { s.At = []string{"eni-b"} },
			floating.Assign, "eni-a", floating.Progressing, "Assigning", 0},
		"its interface has it after our call": {func(s *situation) { s.At, s.Assignment = []string{"eni-a"}, assigned("eni-a", false) },
			floating.Wait, "", floating.Ready, "Assigned", 0},
		"a prefix of the interface has it": {func(s *situation) { s.Interface.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.4.192/28")} },
			floating.Wait, "", floating.Ready, "Assigned", 0},
		"it moved a second ago": {func(s *situation) { s.MovedAt = start.Add(-time.Second) },
			floating.Wait, "", floating.Progressing, "Assigning", time.Second},
		"EC2 throttled the call": {func(s *situation) { s.Memory = s.Failed(3, eni.Throttled, "slow down", start) },
			floating.Wait, "", floating.Progressing, "Assigning", time.Second},
		"EC2 refused the call": {func(s *situation) { s.Memory = s.Failed(3, eni.Invalid, "a primary address", start) },
			floating.Wait, "", floating.Stalled, "AddressRefused", 5 * time.Minute},
		"EC2 refused the call, and it is made again": {func(s *situation) {
			s.Memory = s.Failed(3, eni.Invalid, "a primary address", start.Add(-5*time.Minute))
		},
			floating.Assign, "eni-a", floating.Stalled, "AddressRefused", 0},
		"EC2 refused it for an earlier holder": {func(s *situation) { s.Memory = s.Failed(2, eni.Invalid, "a primary address", start) },
			floating.Assign, "eni-a", floating.Progressing, "Assigning", 0},
		"the interface is full": {func(s *situation) { s.Interface.Room = 0 },
			floating.Wait, "", floating.Stalled, "AddressesLimited", 10 * time.Second},
		"an older address takes the room": {func(s *situation) { s.Interface.Room, s.Interface.Ahead = 1, 1 },
			floating.Wait, "", floating.Stalled, "AddressesLimited", 10 * time.Second},
		"there is room for both": {func(s *situation) { s.Interface.Room, s.Interface.Ahead = 2, 1 },
			floating.Assign, "eni-a", floating.Progressing, "Assigning", 0},
		"it is outside the ranges": {func(s *situation) { s.Interface.Ranges = nil }, floating.Delete, "", floating.Progressing, "", 0},
		"it is in another subnet":  {func(s *situation) { s.SubnetID = "subnet-2" }, floating.Delete, "", floating.Progressing, "", 0},
		"the range is larger than the subnet": {func(s *situation) {
			s.IP, s.Interface.Ranges = netip.MustParseAddr("10.0.5.20"), []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}
		}, floating.Delete, "", floating.Progressing, "", 0},
		"EC2 reserves it": {func(s *situation) {
			s.IP, s.Interface.Ranges = netip.MustParseAddr("10.0.4.1"), []netip.Prefix{netip.MustParsePrefix("10.0.4.0/24")}
		}, floating.Delete, "", floating.Progressing, "", 0},
		"its subnet is not known": {func(s *situation) { s.Interface.Subnet = netip.Prefix{} },
			floating.Wait, "", floating.Progressing, "Assigning", 0},
		"its subnet is not known, and its interface has it": {func(s *situation) {
			s.Interface.Subnet, s.At, s.Assignment = netip.Prefix{}, []string{"eni-a"}, assigned("eni-a", false)
		}, floating.Wait, "", floating.Ready, "Assigned", 0},
		"the ranges were edited after the call": {func(s *situation) {
			s.Interface.Ranges, s.At, s.Assignment = nil, []string{"eni-a"}, assigned("eni-a", false)
		}, floating.Wait, "", floating.Stalled, "NotDeclared", 0},
		"a user paused the node": {func(s *situation) { s.Paused = true }, floating.Wait, "", floating.Progressing, "Paused", 10 * time.Second},
		"a call had no answer, and reads are older": {func(s *situation) {
			s.At, s.Assignment, s.UnansweredAt, s.ReadAt = []string{"eni-a"}, assigned("eni-a", false), start.Add(-20*time.Second), start
		}, floating.Wait, "", floating.Ready, "Assigned", 40 * time.Second},
		"a call had no answer, and a read is due": {func(s *situation) {
			s.At, s.Assignment, s.UnansweredAt, s.ReadAt = []string{"eni-a"}, assigned("eni-a", false), start.Add(-time.Minute), start.Add(-time.Second)
		}, floating.Read, "", floating.Ready, "Assigned", 10 * time.Second},
		"an earlier leader may still assign it elsewhere": {func(s *situation) {
			s.At, s.Assignment, s.ReadAt, s.Era = []string{"eni-a"}, assigned("eni-a", false), start, era.Era{Since: start.Add(-20 * time.Second)}
			s.MovedAt = start.Add(-10 * time.Second)
		}, floating.Wait, "", floating.Ready, "Assigned", 40 * time.Second},
		"an earlier leader may have assigned it elsewhere": {func(s *situation) {
			s.At, s.Assignment, s.ReadAt, s.Era = []string{"eni-a"}, assigned("eni-a", false), start.Add(-time.Minute), era.Era{Since: start.Add(-90 * time.Second)}
			s.MovedAt = start.Add(-80 * time.Second)
		}, floating.Read, "", floating.Ready, "Assigned", 10 * time.Second},

		"it was in place before this leader": {func(s *situation) {
			s.At, s.Assignment, s.ReadAt, s.Era = []string{"eni-a"}, assigned("eni-a", false), start, era.Era{Since: start.Add(-20 * time.Second)}
		}, floating.Wait, "", floating.Ready, "Assigned", 0},

		"no pod has it": {func(s *situation) { s.Holder, s.At = nil, []string{"eni-a"} },
			floating.Wait, "", floating.Progressing, "Released", time.Minute},
		"no pod has had it yet": {func(s *situation) { s.Holder, s.Sequence = nil, 0 },
			floating.Wait, "", floating.Progressing, "", time.Minute},
		"no pod has had it yet, and it has the assignment of a former object": {func(s *situation) {
			s.Holder, s.Sequence, s.Assignment = nil, 0, assigned("eni-a", false)
		},
			floating.Wait, "", floating.Progressing, "Released", time.Minute},
		"no pod has had it for a minute": {func(s *situation) { s.Holder, s.IdleSince, s.IdleSequence = nil, start.Add(-time.Minute), 3 },
			floating.Delete, "", floating.Progressing, "", 0},
		"another pod had it within the minute": {func(s *situation) { s.Holder, s.IdleSince, s.IdleSequence = nil, start.Add(-time.Minute), 1 },
			floating.Wait, "", floating.Progressing, "Released", time.Minute},
		"the interface of the holder is gone": {func(s *situation) { s.Interface = nil },
			floating.Wait, "", floating.Progressing, "Released", time.Minute},

		"the object is being deleted": {func(s *situation) {
			s.Holder, s.Deleting, s.At, s.Assignment = nil, true, []string{"eni-a"}, assigned("eni-a", false)
		}, floating.Unassign, "eni-a", floating.Progressing, "Deleting", 0},
		"it is being deleted, and no read shows the address": {func(s *situation) {
			s.Holder, s.Deleting, s.Assignment, s.ReadAt = nil, true, assigned("eni-a", false), start
		}, floating.Finish, "", floating.Progressing, "Deleting", 0},
		"it is being deleted, and an earlier leader may still assign it": {func(s *situation) {
			s.Holder, s.Deleting, s.Assignment, s.ReadAt, s.Era = nil, true, assigned("eni-a", false), start, era.Era{Since: start.Add(-20 * time.Second)}
		}, floating.Wait, "", floating.Progressing, "Deleting", 40 * time.Second},
		"it is being deleted, and the reads are older than that": {func(s *situation) {
			s.Holder, s.Deleting, s.Assignment, s.ReadAt, s.Era = nil, true, assigned("eni-a", false), start.Add(-time.Minute), era.Era{Since: start.Add(-90 * time.Second)}
		}, floating.Read, "", floating.Progressing, "Deleting", 10 * time.Second},
		"it is being deleted, and a call without an answer may have moved it": {func(s *situation) {
			s.Holder, s.Deleting, s.At, s.Assignment, s.ReadAt = nil, true, []string{"eni-b"}, assigned("eni-a", false), start
			s.UnansweredAt = start.Add(-20 * time.Second)
		}, floating.Wait, "", floating.Progressing, "Deleting", 40 * time.Second},
		"it is being deleted, and the reads are older than the end of that call": {func(s *situation) {
			s.Holder, s.Deleting, s.At, s.Assignment, s.ReadAt = nil, true, []string{"eni-b"}, assigned("eni-a", false), start.Add(-40*time.Second)
			s.UnansweredAt = start.Add(-90 * time.Second)
		}, floating.Read, "", floating.Progressing, "Deleting", 10 * time.Second},
		"it is being deleted, and a read shows where that call left it": {func(s *situation) {
			s.Holder, s.Deleting, s.At, s.Assignment, s.ReadAt = nil, true, []string{"eni-a"}, assigned("eni-a", false), start
			s.UnansweredAt = start.Add(-time.Minute)
		}, floating.Unassign, "eni-a", floating.Progressing, "Deleting", 0},
		"it is being deleted, and another program assigned the address": {func(s *situation) {
			s.Holder, s.Deleting, s.At, s.Assignment = nil, true, []string{"eni-a"}, assigned("eni-a", true)
		}, floating.Finish, "", floating.Progressing, "Deleting", 0},
		"somebody deletes it under a pod": {func(s *situation) {
			s.Deleting, s.At, s.Assignment = true, []string{"eni-a"}, assigned("eni-a", false)
		}, floating.Renew, "", floating.Progressing, "", 0},
		"somebody deletes it under a pod, and another program assigned the address": {func(s *situation) {
			s.Deleting, s.At, s.Assignment = true, []string{"eni-a"}, assigned("eni-a", true)
		}, floating.Finish, "", floating.Progressing, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{held(), floating.Facts{Interface: interfaceA(), Era: era.Era{Since: start.Add(-time.Hour)}}, floating.Memory{}}
			tc.change(&s)
			got, _ := floating.Next(s.Address, s.Facts, s.Memory, start)
			if got.Do != tc.do || got.On != tc.on || got.State != tc.state || got.Reason != tc.reason {
				t.Errorf("got action %d on %q, state %d %q, want %d on %q, %d %q", got.Do, got.On, got.State, got.Reason, tc.do, tc.on, tc.state, tc.reason)
			}
			var after time.Duration
			if !got.At.IsZero() {
				after = got.At.Sub(start)
			}
			if after != tc.after {
				t.Errorf("the next decision is after %s, want %s", after, tc.after)
			}
		})
	}
}

// TestAnAssignmentIsRecordedForItsHolder looks at what must be in the object before a call, and after EC2 has the
// address.
func TestAnAssignmentIsRecordedForItsHolder(t *testing.T) {
	for name, tc := range map[string]struct {
		before *floating.Assignment
		at     []string
		want   floating.Assignment
	}{
		"before a call":                          {nil, nil, floating.Assignment{InterfaceID: "eni-a", Sequence: 3}},
		"before a call for a later holder":       {&floating.Assignment{InterfaceID: "eni-b", Sequence: 1}, nil, floating.Assignment{InterfaceID: "eni-a", Sequence: 3}},
		"before a call for one that is back":     {&floating.Assignment{InterfaceID: "eni-a", Sequence: 1}, nil, floating.Assignment{InterfaceID: "eni-a", Sequence: 3}},
		"another program assigned it":            {nil, []string{"eni-a"}, floating.Assignment{InterfaceID: "eni-a", Sequence: 3, Found: true}},
		"we assigned it":                         {assigned("eni-a", false), []string{"eni-a"}, floating.Assignment{InterfaceID: "eni-a", Sequence: 3}},
		"it is back after an earlier holder":     {&floating.Assignment{InterfaceID: "eni-a", Sequence: 1}, []string{"eni-a"}, floating.Assignment{InterfaceID: "eni-a", Sequence: 3}},
		"another program moved what we assigned": {&floating.Assignment{InterfaceID: "eni-b", Sequence: 1}, []string{"eni-a"}, floating.Assignment{InterfaceID: "eni-a", Sequence: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			a := held()
			a.Assignment = tc.before
			got, _ := floating.Next(a, floating.Facts{Interface: interfaceA(), At: tc.at}, floating.Memory{}, start)
			if got.Record == nil || *got.Record != tc.want {
				t.Errorf("recorded is %+v, want %+v", got.Record, tc.want)
			}
		})
	}
}

// An address without a holder waits a whole minute, however often it is looked at.
func TestAnIdleAddressWaitsOnce(t *testing.T) {
	a, memory := held(), floating.Memory{}
	a.Holder = nil
	var step floating.Step
	for _, at := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
		if step, memory = floating.Next(a, floating.Facts{}, memory, start.Add(at)); step.Do != floating.Wait || !step.At.Equal(start.Add(time.Minute)) {
			t.Errorf("after %s: %+v", at, step)
		}
	}
	if step, _ = floating.Next(a, floating.Facts{}, memory, start.Add(time.Minute)); step.Do != floating.Delete {
		t.Errorf("after a minute: %+v", step)
	}
}

// TestAnAddressStaysWhileItsInterfaceIsDetached says that the object outlives a detach of EC2 that does not end: the pod
// still has the address, and its agent would make the object again.
func TestAnAddressStaysWhileItsInterfaceIsDetached(t *testing.T) {
	step, memory := floating.Next(held(), floating.Facts{Leaves: true}, floating.Memory{IdleSince: start, IdleSequence: 3}, start.Add(time.Hour))
	if step.Do != floating.Wait || step.Reason != floating.ReasonReleased || !memory.IdleSince.IsZero() {
		t.Errorf("%+v, idle since %v", step, memory.IdleSince)
	}
	step, memory = floating.Next(held(), floating.Facts{}, memory, start.Add(time.Hour))
	if !step.At.Equal(start.Add(time.Hour + floating.Retention)) {
		t.Errorf("after the detach: %+v, %+v", step, memory)
	}
}

// TestFailures counts failures, and what follows a success.
func TestFailures(t *testing.T) {
	m := floating.Memory{}.Failed(1, eni.Transient, "no answer", start)
	if !m.Alone() || !m.UnansweredAt.Equal(start) {
		t.Errorf("after a call without an answer: %+v", m)
	}
	if m = m.Failed(1, eni.Invalid, "refused", start.Add(time.Second)); !m.UnansweredAt.Equal(start) {
		t.Errorf("a refusal is an answer: %+v", m)
	}
	if m = m.Accepted(floating.Assign, start.Add(time.Minute)); m.Alone() || !m.MovedAt.Equal(start.Add(time.Minute)) {
		t.Errorf("after a success: %+v", m)
	}
}

func TestContention(t *testing.T) {
	a := held()
	a.Holder.Pod = "pod upf/one"
	if got := a.Contention(); got != "" {
		t.Errorf("without a contender: %q", got)
	}
	a.Contender = &floating.Holder{Node: "node-b", InterfaceID: "eni-b", Pod: "pod upf/two"}
	for _, want := range []string{"pod upf/one on node node-a has address 10.0.4.200", "so has pod upf/two on node node-b", "all pods but one"} {
		if got := a.Contention(); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

// TestPace lets addresses of two instances become due, in the order of the steps.
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	var p floating.Pace
	for _, step := range []struct {
		what     string
		instance string
		at       time.Duration
		until    time.Duration // until when it waits; 0 if it changes now
	}{
		{"the first one waits for others", "i-1", 0, 40 * ms},
		{"another one comes", "i-1", 20 * ms, 40 * ms},
		{"one of another instance comes", "i-2", 30 * ms, 70 * ms},
		{"all change together", "i-1", 40 * ms, 0},
		{"one comes too late", "i-1", 41 * ms, 2040 * ms},
		{"the other instance does not wait for it", "i-2", 70 * ms, 0},
		{"one more comes too late", "i-1", 2000 * ms, 2040 * ms},
		{"those change together, and have waited", "i-1", 2040 * ms, 0},
		{"one comes at the end of the interval", "i-1", 4030 * ms, 4070 * ms},
		{"it changes", "i-1", 4070 * ms, 0},
		{"one comes after the interval", "i-1", time.Hour, time.Hour + 40*ms},
		{"it is gone before it changes, and one comes later", "i-1", 2 * time.Hour, 2*time.Hour + 40*ms},
	} {
		until, taken := p.Take(step.instance, start.Add(step.at))
		if taken != (step.until == 0) || !taken && !until.Equal(start.Add(step.until)) {
			t.Errorf("%s: it changes: %t, or after %s, want %s", step.what, taken, until.Sub(start), step.until)
		}
		p.Done(step.instance)
	}
}

// TestOneChangeOfAnInstanceAtATime has a change that takes longer than the interval. It may include further addresses.
func TestOneChangeOfAnInstanceAtATime(t *testing.T) {
	var p floating.Pace
	p.Take("i-1", start)
	p.Take("i-1", start.Add(floating.Gathering))
	later := start.Add(time.Minute)
	if until, taken := p.Take("i-1", later); taken || !until.Equal(later.Add(floating.MoveInterval)) {
		t.Errorf("during a change: it changes: %t, or %s later", taken, until.Sub(later))
	}
	p.Done("i-1")
	p.Take("i-1", later)
	if _, taken := p.Take("i-1", later.Add(floating.Gathering)); !taken {
		t.Error("it does not change after the other one")
	}
}

// TestAChangeThatWasNotMadeDoesNotCount gives a change back, after a conflict: the next attempt waits for nothing.
func TestAChangeThatWasNotMadeDoesNotCount(t *testing.T) {
	var p floating.Pace
	p.Take("i-1", start)
	p.Take("i-1", start.Add(floating.Gathering))
	p.GiveBack("i-1")
	if until, taken := p.Take("i-1", start.Add(100*time.Millisecond)); !taken {
		t.Errorf("it waits until %s after the start", until.Sub(start))
	}
}

// TestWhichRefusalsDivideACall lists the failures after which the addresses of a call are requested one by one.
func TestWhichRefusalsDivideACall(t *testing.T) {
	for class, want := range map[eni.Class]struct{ divides, alone bool }{
		eni.Invalid: {true, true}, eni.AddressTaken: {true, true}, eni.LimitExceeded: {true, true},
		eni.Throttled: {false, false}, eni.Transient: {false, true}, eni.Unauthorized: {false, true},
	} {
		if got := floating.Divides(class); got != want.divides {
			t.Errorf("%s: one call for each address at once: %t, want %t", class, got, want.divides)
		}
		if got := (floating.Memory{}).Failed(1, class, "", start).Alone(); got != want.alone {
			t.Errorf("%s: the next call is for one address alone: %t, want %t", class, got, want.alone)
		}
	}
}
