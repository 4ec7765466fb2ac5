// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestACorrectionIsTriedAtOnce has EC2 refuse the first call of a member. The member then waits for five minutes, unless
// a user edits the NodeENI so that it needs another call.
func TestACorrectionIsTriedAtOnce(t *testing.T) {
	groups := func(ids ...string) func(*plan.DesiredInterface) {
		return func(d *plan.DesiredInterface) { d.Spec.Groups = ids }
	}
	for name, tc := range map[string]struct {
		exists bool
		class  eni.Class
		edit   func(*plan.DesiredInterface)
		acts   bool
	}{
		"a create, and no edit":            {class: eni.Invalid, edit: groups("sg-refused")},
		"a create, other groups":           {class: eni.Invalid, edit: groups("sg-2"), acts: true},
		"a create, other addresses":        {class: eni.LimitExceeded, edit: func(d *plan.DesiredInterface) { d.Spec.SecondaryIPv4 = 1 }, acts: true},
		"a create, another subnet":         {class: eni.Unauthorized, edit: func(d *plan.DesiredInterface) { d.Subnets = []string{"s2"} }, acts: true},
		"a create, one more subnet":        {class: eni.Unauthorized, edit: func(d *plan.DesiredInterface) { d.Subnets = []string{"s1", "s2"} }},
		"a throttled create, other groups": {class: eni.Throttled, edit: groups("sg-2")},
		"a change, and no edit":            {exists: true, class: eni.Invalid, edit: groups("sg-refused")},
		"a change, other groups":           {exists: true, class: eni.Invalid, edit: groups("sg-2"), acts: true},
		"a change, another description":    {exists: true, class: eni.Invalid, edit: func(d *plan.DesiredInterface) { d.Spec.Description = "n6" }, acts: true},
		"a throttled change, and no edit":  {exists: true, class: eni.Throttled, edit: groups("sg-refused")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			d := desired(claim("a", desiredInterface(0, 1, "s1")))
			if tc.exists {
				w.drive(d, nil)
			}
			member := &d.Claims[0].Interfaces[0]
			member.Spec.Groups = []string{"sg-refused"}
			first := compute(d, w.observe(nil), w.now).Actions[0]
			tc.edit(member)
			o := w.observe(nil)
			refused := &eni.APIError{Class: tc.class, Operation: "the call"}
			o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: plan.Backoff{}.WithFailure(first, refused, w.now)}
			if p := compute(d, o, w.now); len(p.Actions) > 0 != tc.acts {
				t.Errorf("it acts %t, want %t after %s was refused:\n%s", len(p.Actions) > 0, tc.acts, first, p.Explain())
			}
		})
	}
}

// TestARefusedUpdateDelaysNoOther has EC2 refuse the security groups of an interface, and accept its description: the
// success of one does not end the backoff of the other.
func TestARefusedUpdateDelaysNoOther(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	w.drive(d, nil)
	spec := &d.Claims[0].Interfaces[0].Spec
	spec.Groups, spec.Description = []string{"sg-refused"}, "n6"
	both := compute(d, w.observe(nil), w.now).Actions
	if len(both) != 2 {
		t.Fatalf("want a description and security groups, have %v", both)
	}
	backoff := plan.Backoff{}.WithFailure(both[1], &eni.APIError{Class: eni.Invalid, Operation: "the call"}, w.now)
	for _, step := range []struct {
		name    string
		backoff plan.Backoff
		want    int
	}{
		{"after the refusal", backoff, 1},
		{"after EC2 accepted the description", backoff.AfterSuccess(both[0]), 1},
		{"after EC2 deleted another interface of the member", backoff.AfterSuccess(plan.Delete{InterfaceID: "eni-other"}), 1},
		{"after EC2 deleted the interface", backoff.AfterSuccess(plan.Delete{InterfaceID: both[1].Interface()}), 2},
		{"after EC2 accepted the security groups", backoff.AfterSuccess(both[1]), 2},
	} {
		o := w.observe(nil)
		o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: step.backoff}
		if p := compute(d, o, w.now); len(p.Actions) != step.want {
			t.Errorf("%s there are %d actions, want %d:\n%s", step.name, len(p.Actions), step.want, p.Explain())
		}
	}
}

// TestAnUnattachedInterfaceWaitsForARefusedUpdate has EC2 refuse the security groups of an interface before it is
// attached. The interface must not serve with other groups.
func TestAnUnattachedInterfaceWaitsForARefusedUpdate(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	w.apply(compute(d, w.observe(nil), w.now).Actions[0])
	d.Claims[0].Interfaces[0].Spec.Groups = []string{"sg-refused"}
	update := compute(d, w.observe(nil), w.now).Actions[0]
	o := w.observe(nil)
	o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: plan.Backoff{}.WithFailure(update,
		&eni.APIError{Class: eni.Invalid, Operation: "the call"}, w.now)}
	if p := compute(d, o, w.now); len(p.Actions) > 0 {
		t.Errorf("want no action after %s was refused:\n%s", update, p.Explain())
	}
}

// TestAnUnattachedInterfaceServesWithoutAPrefix has a subnet without a block for the prefix of an unattached interface: it
// is attached without one, like an interface that is created there.
func TestAnUnattachedInterfaceServesWithoutAPrefix(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	w.apply(compute(d, w.observe(nil), w.now).Actions[0])
	d.Claims[0].Interfaces[0].Spec.IPv4Prefixes = 1
	update := compute(d, w.observe(nil), w.now).Actions[0]
	o := w.observe(nil)
	o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: plan.Backoff{}.WithFailure(update,
		&eni.APIError{Class: eni.NoPrefixes, Operation: "the call"}, w.now)}
	p := compute(d, o, w.now)
	if len(p.Actions) != 1 {
		t.Fatalf("want an attachment after %s was refused:\n%s", update, p.Explain())
	}
	if _, is := p.Actions[0].(plan.Attach); !is {
		t.Errorf("got %s, want an attachment", p.Actions[0])
	}
}

// TestAnUpdateWithoutAnAnswerIsRepeatedAfterARead has EC2 not answer an update. EC2 may have made it, and only a read that
// began later shows that.
func TestAnUpdateWithoutAnAnswerIsRepeatedAfterARead(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	w.drive(d, nil)
	d.Claims[0].Interfaces[0].Spec.Description = "n6"
	update := compute(d, w.observe(nil), w.now).Actions[0]
	for name, tc := range map[string]struct {
		class eni.Class
		read  time.Duration // from the failure to the begin of the read
		want  int
	}{
		"no answer, and the read was before it": {eni.Transient, -time.Second, 0},
		"no answer, and the read is later":      {eni.Transient, time.Second, 1},
		"throttled, and the read was before it": {eni.Throttled, -time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o, failed := w.observe(nil), w.now.Add(-time.Minute)
			o.Owned[0].LastRead = failed.Add(tc.read)
			o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: plan.Backoff{}.WithFailure(update,
				&eni.APIError{Class: tc.class, Operation: "the call"}, failed)}
			if p := compute(d, o, w.now); len(p.Actions) != tc.want {
				t.Errorf("there are %d actions, want %d:\n%s", len(p.Actions), tc.want, p.Explain())
			}
		})
	}
}

// TestCorrectedTagsAreWrittenAtOnce has EC2 refuse the tags of an interface. The refusal does not delay other tags.
func TestCorrectedTagsAreWrittenAtOnce(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	w.drive(d, nil)
	tags := func(value string) { d.Claims[0].Interfaces[0].Spec.Tags = map[string]string{"team": value} }
	tags("a value that EC2 refuses")
	first := compute(d, w.observe(nil), w.now).Actions[0]
	o := w.observe(nil)
	o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: plan.Backoff{}.WithFailure(first,
		&eni.APIError{Class: eni.Invalid, Operation: "CreateTags"}, w.now)}
	if p := compute(d, o, w.now); len(p.Actions) > 0 {
		t.Errorf("it repeats a refused call at once:\n%s", p.Explain())
	}
	tags("ran")
	if p := compute(d, o, w.now); len(p.Actions) != 1 || !plan.WritesTags(p.Actions[0]) {
		t.Errorf("it does not write the corrected tags:\n%s", p.Explain())
	}
}

// TestAnotherRequestBeginsWithTheFirstDelay counts refusals of the same request, which double the wait.
func TestAnotherRequestBeginsWithTheFirstDelay(t *testing.T) {
	now := start
	create := func(group string) plan.Action {
		return plan.Create{SubnetID: "s1", Spec: eni.Spec{Groups: []string{group}}}
	}
	var failure plan.Backoff
	for n, tc := range []struct {
		group string
		wait  time.Duration
	}{
		{"sg-1", 5 * time.Minute}, {"sg-1", 10 * time.Minute}, {"sg-2", 5 * time.Minute}, {"sg-2", 10 * time.Minute},
	} {
		failure = failure.WithFailure(create(tc.group), &eni.APIError{Class: eni.Invalid}, now)
		if wait := failure.Retry().Sub(now); wait != tc.wait {
			t.Errorf("after refusal %d the wait is %s, want %s", n+1, wait, tc.wait)
		}
	}
}
