// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// edited is one edit of the ENA settings of a NodeENI and what follows.
type edited struct {
	spec eni.Spec
	// calls are those about ENA settings, and tracking and express what EC2 has afterwards.
	calls    []string
	tracking eni.ConnectionTracking
	express  eni.ENAExpress
	reason   plan.Reason
}

// An interface gets the declared ENA settings with the calls that create and attach it, each edit costs one call, and
// the removal of a field writes the default once. A node at rest is not read.
func TestENASettingsFollowTheNodeENI(t *testing.T) {
	nitro := limits(4)
	nitro.ENAExpress, nitro.Tracking = true, eni.ConnectionTracking{TCPEstablished: 350, UDPStream: 180, UDP: 30}
	offline, xen := limits(4), limits(4)
	xen.XenHypervisor = true
	hour := eni.ConnectionTracking{TCPEstablished: 3600}
	for name, c := range map[string]struct {
		limits  eni.Limits
		primary eni.ConnectionTracking
		edits   []edited
	}{
		"timeouts from the creation on": {nitro, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ConnectionTracking: hour}, tracking: hour},
		}},
		"a default needs no call": {nitro, eni.ConnectionTracking{}, []edited{
			{},
			{spec: eni.Spec{ConnectionTracking: eni.ConnectionTracking{TCPEstablished: 350}}},
		}},
		"an edit is one call with all timeouts": {nitro, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ConnectionTracking: hour}, tracking: hour},
			{
				spec:     eni.Spec{ConnectionTracking: eni.ConnectionTracking{TCPEstablished: 3600, UDP: 45}},
				calls:    []string{"connection tracking tcpEstablishedTimeout 3600 s, udpTimeout 45 s"},
				tracking: eni.ConnectionTracking{TCPEstablished: 3600, UDP: 45},
			},
		}},
		"a removed timeout becomes the default once": {nitro, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ConnectionTracking: eni.ConnectionTracking{TCPEstablished: 3600, UDP: 45}}, tracking: eni.ConnectionTracking{TCPEstablished: 3600, UDP: 45}},
			{
				spec: eni.Spec{ConnectionTracking: hour}, calls: []string{"connection tracking tcpEstablishedTimeout 3600 s, udpTimeout 30 s"},
				tracking: eni.ConnectionTracking{TCPEstablished: 3600, UDP: 30},
			},
			{calls: []string{"connection tracking tcpEstablishedTimeout 350 s"}, tracking: eni.ConnectionTracking{TCPEstablished: 350, UDP: 30}},
		}},
		"a default that EC2 does not tell is the documented one": {offline, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ConnectionTracking: hour}, tracking: hour},
			{calls: []string{"connection tracking tcpEstablishedTimeout 432000 s"}, tracking: eni.ConnectionTracking{TCPEstablished: 432000}},
		}},
		"those of the primary": {nitro, hour, []edited{
			{spec: eni.Spec{TrackAsPrimary: true}, tracking: hour},
		}},
		"those of the primary instead of others": {nitro, hour, []edited{
			{spec: eni.Spec{ConnectionTracking: eni.ConnectionTracking{UDP: 45}}, tracking: eni.ConnectionTracking{UDP: 45}},
			{
				spec: eni.Spec{TrackAsPrimary: true}, calls: []string{"connection tracking tcpEstablishedTimeout 3600 s, udpTimeout 30 s"},
				tracking: eni.ConnectionTracking{TCPEstablished: 3600, UDP: 30},
			},
		}},
		"a primary without timeouts": {nitro, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ConnectionTracking: hour}, tracking: hour},
			{
				spec: eni.Spec{TrackAsPrimary: true}, calls: []string{"connection tracking tcpEstablishedTimeout 350 s"},
				tracking: eni.ConnectionTracking{TCPEstablished: 350},
			},
		}},
		"no timeouts on a type without": {xen, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ConnectionTracking: hour}, reason: plan.UnsupportedByType},
			{},
		}},
		"ENA Express with the attachment": {nitro, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ENAExpress: eni.ENAExpressTCP}, calls: []string{"attach, ENA Express TCP"}, express: eni.ENAExpressTCP},
			{spec: eni.Spec{ENAExpress: eni.ENAExpressTCPAndUDP}, calls: []string{"ENA Express TCPAndUDP"}, express: eni.ENAExpressTCPAndUDP},
			{spec: eni.Spec{ENAExpress: eni.ENAExpressNone}, calls: []string{"ENA Express None"}, express: eni.ENAExpressNone},
		}},
		"ENA Express is turned off once": {nitro, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ENAExpress: eni.ENAExpressTCP}, calls: []string{"attach, ENA Express TCP"}, express: eni.ENAExpressTCP},
			{calls: []string{"ENA Express None"}, express: eni.ENAExpressNone},
		}},
		"no ENA Express on a type without": {xen, eni.ConnectionTracking{}, []edited{
			{spec: eni.Spec{ENAExpress: eni.ENAExpressTCP, ConnectionTracking: hour}, reason: plan.UnsupportedByType},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(c.limits)
			w.onPrimary(func(i *eni.Interface) { i.ConnectionTracking = c.primary })
			l := life{w: w, records: map[string]plan.ENA{}}
			for n, e := range c.edits {
				asked := desiredInterface(0, 1, "s1")
				asked.Spec.ConnectionTracking, asked.Spec.TrackAsPrimary = e.spec.ConnectionTracking, e.spec.TrackAsPrimary
				asked.Spec.ENAExpress = e.spec.ENAExpress
				calls, last := l.settle(t, asked)
				if diff := cmp.Diff(e.calls, calls); diff != "" {
					t.Errorf("edit %d makes other calls (-want +got):\n%s", n, diff)
				}
				i := w.ours()[0]
				if i.ConnectionTracking != e.tracking || i.Attachment.ENAExpress != e.express {
					t.Errorf("edit %d leads to %v and %q, want %v and %q", n, i.ConnectionTracking, i.Attachment.ENAExpress, e.tracking, e.express)
				}
				if m := last.Members[0]; m.Why.Reason != e.reason || !m.Ready() {
					t.Errorf("edit %d: ready %t, %v", n, m.Ready(), m.Why)
				}
				if again, _ := l.plan(asked, false); again.NeedsDescribe || again.Members[0].Why.Reason != e.reason {
					t.Errorf("edit %d: a node at rest is read, or says something else:\n%s", n, again.Explain())
				}
			}
		})
	}
}

// A call that EC2 did not answer leaves no record that it was made.
func TestTheTimeoutsOfThePrimaryAreSetAfterAFailure(t *testing.T) {
	w := newMinimalEC2(limits(4))
	w.onPrimary(func(i *eni.Interface) { i.ConnectionTracking.TCPEstablished = 3600 })
	l := life{w: w, records: map[string]plan.ENA{}}
	asked := desiredInterface(0, 1, "s1")
	l.settle(t, asked)
	asked.Spec.TrackAsPrimary = true
	lost, _ := l.plan(asked, true)
	if len(lost.Actions) != 1 {
		t.Fatalf("the plan is\n%s", lost.Explain())
	}
	l.records[w.ours()[0].ID] = lost.Members[0].ENA
	if again, _ := l.plan(asked, false); !again.NeedsDescribe {
		t.Errorf("the next plan is\n%s", again.Explain())
	}
}

// Settings that others made stay, as long as the NodeENI declares none.
func TestENASettingsOfOthersStay(t *testing.T) {
	w := newMinimalEC2(limits(4))
	l := life{w: w, records: map[string]plan.ENA{}}
	l.settle(t, desiredInterface(0, 1, "s1"))
	i := w.ours()[0]
	i.ConnectionTracking.TCPEstablished, i.Attachment.ENAExpress = 60, eni.ENAExpressTCP
	w.interfaces[i.ID] = i
	if calls, _ := l.settle(t, desiredInterface(0, 1, "s1")); len(calls) > 0 {
		t.Errorf("calls %q", calls)
	}
}

// EC2 can refuse ENA Express for a reason that it tells beforehand to no one, for example in a Local Zone.
func TestAnInterfaceIsAttachedWithoutENAExpressIfEC2RefusesIt(t *testing.T) {
	w := newMinimalEC2(limits(4))
	w.limits.ENAExpress = true
	asked := desiredInterface(0, 1, "s1")
	asked.Spec.ENAExpress = eni.ENAExpressTCP
	l := life{w: w, records: map[string]plan.ENA{}}
	var refused plan.Action
	for refused == nil {
		p, _ := l.plan(asked, true)
		for _, action := range p.Actions {
			if _, is := action.(plan.Attach); is {
				refused = action
				break
			}
			w.apply(action)
		}
	}
	l.attempts = l.attempts.After(refused, &eni.APIError{Class: eni.Invalid, Code: "UnsupportedOperation"}, w.now)
	p, _ := l.plan(asked, true)
	attach, _ := p.Actions[len(p.Actions)-1].(plan.Attach)
	if attach.InterfaceID == "" || attach.ENAExpress != "" {
		t.Errorf("the next plan is\n%s", p.Explain())
	}
}

// life is an instance with what the API server stores about its interfaces.
type life struct {
	w        *minimalEC2
	records  map[string]plan.ENA
	ledger   identity.Generations
	attempts plan.Attempts
}

// plan computes one plan, with or without a read of the instance.
func (l *life) plan(asked plan.DesiredInterface, read bool) (p plan.Plan, ledger identity.Generations) {
	o := l.w.observe(l.ledger)
	for id, record := range l.records {
		store(&o, id, func(s *plan.Stored) { s.ENA = record })
	}
	o.Attempts = l.attempts
	if !read {
		o.Snapshot, o.Limits = nil, eni.Limits{}
	}
	p = compute(desired(claim("a", asked)), o, l.w.now)
	return p, p.Ledger
}

// settle plans as a controller does, which reads the instance if a plan asks for it, until nothing is left to do. It
// returns the calls about ENA settings.
func (l *life) settle(t *testing.T, asked plan.DesiredInterface) (calls []string, last plan.Plan) {
	t.Helper()
	for range 20 {
		if last, _ = l.plan(asked, false); last.NeedsDescribe {
			last, l.ledger = l.plan(asked, true)
		}
		for _, m := range last.Members {
			if m.Interface != nil {
				l.records[m.Interface.ID] = m.ENA
			}
		}
		if len(last.Actions) == 0 && last.RequeueAt.IsZero() {
			return calls, last
		}
		for _, action := range last.Actions {
			l.w.apply(action)
			switch a := action.(type) {
			case plan.Attach:
				if a.ENAExpress != "" {
					calls = append(calls, "attach, ENA Express "+string(a.ENAExpress))
				}
			case plan.Change:
				if text := a.To.String(); strings.HasPrefix(text, "connection") || strings.HasPrefix(text, "ENA") {
					calls = append(calls, text)
				}
			}
		}
		l.w.pass(time.Second)
	}
	t.Fatalf("it does not settle:\n%s", last.Explain())
	return nil, last
}

// onPrimary changes the primary interface of the instance.
func (w *minimalEC2) onPrimary(change func(*eni.Interface)) {
	for id, i := range w.interfaces {
		if i.Attachment != nil && i.Attachment.Slot == eni.Primary {
			change(&i)
			w.interfaces[id] = i
		}
	}
}
