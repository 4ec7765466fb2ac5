// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// halfReplaced returns a world in which the first of two interfaces has left its slot because its NodeENI has another
// subnet now, and the plan for it, which creates the interface in the new subnet and deletes the old one.
func halfReplaced(t *testing.T) (*minimalEC2, render.Declared, plan.Create, plan.Delete, plan.Plan) {
	t.Helper()
	w := newMinimalEC2(limits(4))
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s2"))), nil)
	exchanged := claim("a", desiredInterface(0, 1, "s3"), desiredInterface(1, 2, "s2"))
	exchanged.ReplaceAllowed = true
	d := desired(exchanged)
	planned := computeWith(d, w.observe(ledger), granted, w.now)
	if _, detaches := planned.Actions[0].(plan.Detach); !detaches {
		t.Fatalf("planned %v, want a detach", planned.Actions)
	}
	w.apply(planned.Actions[0])
	w.pass(time.Minute)
	planned = compute(d, w.observe(planned.Ledger), w.now)
	var create plan.Create
	var remove plan.Delete
	for _, action := range planned.Actions {
		switch action := action.(type) {
		case plan.Create:
			create = action
		case plan.Delete:
			remove = action
		}
	}
	if len(planned.Actions) != 2 || create.SubnetID != "s3" || remove.InterfaceID == "" {
		t.Fatalf("planned %v, want a create in s3 and a delete", planned.Actions)
	}
	return w, d, create, remove, planned
}

// TestAReplacementIsMadeOnce plans while a replacement is being created and the interface before it is being deleted,
// for each order of the effects and the answers of the two calls.
func TestAReplacementIsMadeOnce(t *testing.T) {
	type state struct {
		made, deleted            bool // in EC2
		creating, deleting, lost bool // the answer is pending or lost
	}
	cases := map[string]state{
		"nothing has happened yet":                 {creating: true, deleting: true},
		"it is made, and the answer is on its way": {made: true, creating: true, deleting: true},
		"it is made":                {made: true, deleting: true},
		"the one before is deleted": {deleted: true, creating: true},
		"the one before is deleted, and the answer is on its way":         {deleted: true, creating: true, deleting: true},
		"the one before is deleted, and the answer of the create is lost": {deleted: true, lost: true},
		"both are done": {made: true, deleted: true},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			w, d, create, remove, planned := halfReplaced(t)
			if s.made {
				w.apply(create)
			}
			if s.deleted {
				w.apply(remove)
			}
			observed := w.observe(planned.Ledger)
			if s.deleted {
				observed.UsedGenerations[remove.Member.Key] = remove.Member.Generation
			}
			if s.creating {
				observed.InFlight = append(observed.InFlight, create)
			}
			if s.deleting {
				observed.InFlight = append(observed.InFlight, remove)
			}
			if s.lost {
				observed.Backoffs = map[identity.Key]plan.Backoff{create.Member.Key: plan.Backoff{}.Next(eni.Transient, "no answer", w.now.Add(-time.Minute))}
			}
			for _, action := range compute(d, observed, w.now).Actions {
				again, creates := action.(plan.Create)
				if creates && (!s.lost || again.Member.Token() != create.Member.Token()) {
					t.Errorf("another one is to be made: %v, generation %d, after generation %d", again.Member.Key, again.Member.Generation, create.Member.Generation)
				}
				if action.Interface() == remove.InterfaceID && (s.deleting || s.deleted) {
					t.Errorf("a call for an interface that is being deleted: %s", action)
				}
			}
		})
	}
}

// TestNothingIsAttachedBeforeTheAnswerOfItsCreation plans while EC2 shows an interface whose creation it has not answered.
func TestNothingIsAttachedBeforeTheAnswerOfItsCreation(t *testing.T) {
	w := newMinimalEC2(limits(8))
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	planned := compute(d, w.observe(nil), w.now)
	w.apply(planned.Actions[0])
	observed := w.observe(planned.Ledger)
	observed.InFlight = planned.Actions
	if next := compute(d, observed, w.now); len(next.Actions) > 0 {
		t.Errorf("%v is under way, and %v is to begin", planned.Actions, next.Actions)
	}
	if next := compute(d, w.observe(planned.Ledger), w.now); len(next.Actions) != 1 {
		t.Errorf("after the answer %v is to begin, want an attach", next.Actions)
	}
}

// TestAnEarlierGenerationAnswersNoCreation has an interface of an earlier generation of the member that is being created:
// both take room.
func TestAnEarlierGenerationAnswersNoCreation(t *testing.T) {
	w := newMinimalEC2(limits(8))
	planned := compute(desired(claim("a", desiredInterface(0, 1, "s1"))), w.observe(nil), w.now)
	create := planned.Actions[0].(plan.Create)
	earlier := create
	earlier.Member.Generation--
	w.apply(earlier)
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	for n, nodeENI := range []string{"b", "c", "d"} {
		d.Claims = append(d.Claims, claim(nodeENI, desiredInterface(0, 2+n, "s1")))
	}
	observed := w.observe(planned.Ledger)
	observed.InFlight = []plan.Action{create}
	creates := 0
	for _, action := range compute(d, observed, w.now).Actions {
		if _, is := action.(plan.Create); is {
			creates++
		}
	}
	if creates != plan.MaxUnattached-2 {
		t.Errorf("%d creates begin, want %d", creates, plan.MaxUnattached-2)
	}
}

// TestAnAttachUnderWayLeavesNoRoom has the maximum number of attach calls in flight: EC2 may refuse all of them.
func TestAnAttachUnderWayLeavesNoRoom(t *testing.T) {
	w := newMinimalEC2(limits(8))
	var interfaces []plan.DesiredInterface
	for n := range plan.MaxUnattached + 2 {
		interfaces = append(interfaces, desiredInterface(n, n+1, "s1"))
	}
	d := desired(claim("a", interfaces...))
	planned := compute(d, w.observe(nil), w.now)
	for _, action := range planned.Actions {
		w.apply(action)
	}
	attaching := compute(d, w.observe(planned.Ledger), w.now)
	observed := w.observe(attaching.Ledger)
	observed.InFlight = attaching.Actions
	if next := compute(d, observed, w.now); len(attaching.Actions) != plan.MaxUnattached || len(next.Actions) > 0 {
		t.Errorf("%v are under way, and %v is to begin", attaching.Actions, next.Actions)
	}
}

// TestADeletionUnderWayLeavesNoRoom deletes a surplus interface while the one that takes its place is being created. The
// deleted one counts until EC2 answers.
func TestADeletionUnderWayLeavesNoRoom(t *testing.T) {
	w := newMinimalEC2(limits(8))
	planned := compute(desired(claim("a", desiredInterface(0, 1, "s1"))), w.observe(nil), w.now)
	w.apply(planned.Actions[0])
	d := desired(claim("a", desiredInterface(0, 1, "s2")), claim("b", desiredInterface(0, 2, "s1")), claim("c", desiredInterface(0, 3, "s1")))
	planned = compute(d, w.observe(planned.Ledger), w.now)
	made, deletes := 0, false
	observed := w.observe(planned.Ledger)
	for _, action := range planned.Actions {
		switch action.(type) {
		case plan.Create:
			made++
		case plan.Delete:
			deletes = true
		}
		observed.InFlight = append(observed.InFlight, action)
	}
	if made != plan.MaxUnattached-1 || !deletes {
		t.Fatalf("planned %v, want two creates and a delete", planned.Actions)
	}
	if next := compute(d, observed, w.now); len(next.Actions) > 0 {
		t.Errorf("%v are under way, and %v is to begin", planned.Actions, next.Actions)
	}
}

// TestOneInterfaceIsReplacedAtATime plans while an interface is being detached to be replaced.
func TestOneInterfaceIsReplacedAtATime(t *testing.T) {
	w := newMinimalEC2(limits(4))
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s2"))), nil)
	exchanged := claim("a", desiredInterface(0, 1, "s3"), desiredInterface(1, 2, "s4"))
	exchanged.ReplaceAllowed = true
	observed := w.observe(ledger)
	planned := computeWith(desired(exchanged), observed, granted, w.now)
	if len(planned.Actions) != 1 {
		t.Fatalf("planned %v, want a detach", planned.Actions)
	}
	observed.InFlight = planned.Actions
	if next := computeWith(desired(exchanged), observed, granted, w.now); len(next.Actions) > 0 {
		t.Errorf("%v is under way, and %v is to begin", planned.Actions, next.Actions)
	}
}
