// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

func ownerOf(i eni.Interface) string { return i.Tags[identity.TagNodeENIUID] }

// story has a controller, the desired state, and the EC2 that it works on.
type story struct {
	*rapid.T
	cloud   *hostile
	intents *intents
	c       *restartable
	// interference is set if other programs change the instance.
	interference bool
}

// trouble has the faults of a story.
type trouble struct {
	lag                                                 int
	faults, crashes, forgetful, strangers, interference bool
}

func newStory(rt *rapid.T, tr trouble) *story {
	slots := rapid.IntRange(3, 8).Draw(rt, "interfaces the type takes")
	s := &story{T: rt, cloud: newHostile(rt, eni.Limits{Cards: []int{slots}, Interfaces: slots, IPv4: 15, IPv6: 15}), intents: newIntents(rt)}
	if tr.strangers {
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 4), 0, 2, rapid.ID).Draw(rt, "strangers") {
			s.cloud.occupy(device(n))
		}
	}
	s.c = newRestartable(rt, s.cloud, s.intents.desired)
	s.interference = tr.interference
	s.cloud.maxLag, s.cloud.faulty, s.c.crashes, s.c.forgetful = tr.lag, tr.faults, tr.crashes, tr.forgetful
	s.cloud.judge = s.judge
	return s
}

// fail ends the test with a complete description.
func (s *story) fail(format string, args ...any) {
	s.Helper()
	s.Fatalf("%s\n\nEC2:\n%s\nlast plan:\n%s\ncalls:\n%s", fmt.Sprintf(format, args...), s.cloud.describeAll(), s.c.last.Explain(), strings.Join(s.c.log, "\n"))
}

// judge is called before every call for an existing interface.
func (s *story) judge(operation string, target eni.Interface) {
	if target.Tags[identity.TagCluster] != cluster {
		s.fail("%s of the foreign interface %s", operation, target.ID)
	}
	if a := target.Attachment; a != nil && (a.InstanceID != instance || a.Slot == eni.Primary) {
		s.fail("%s of %s, which is not ours to touch where it is", operation, target.ID)
	}
	if owner := s.intents.find(ownerOf(target)); owner != nil {
		if standing := owner.claim().Mode; standing != render.Ensure && standing != render.Release {
			s.fail("%s of %s, which is to be left as it is", operation, target.ID)
		}
	}
	if operation == "detach" || operation == "delete" {
		s.judgeRemoval(operation, target)
	}
}

// judgeRemoval fails if a claim still desires the interface.
func (s *story) judgeRemoval(operation string, target eni.Interface) {
	owner := s.intents.find(ownerOf(target))
	if owner == nil {
		s.fail("%s of %s, whose NodeENI is not known: no confirmed reason", operation, target.ID)
		return
	}
	claim := owner.claim()
	switch {
	case claim.Mode == render.Release:
	case !claim.AllResolved && !claim.ReplaceAllowed:
		s.fail("%s of %s while the subnets of its NodeENI are not resolved", operation, target.ID)
	case len(claim.Interfaces) == 0 && operation == "detach" && target.Attachment != nil && target.Attachment.Status == eni.AttachmentAttached:
		s.fail("%s of %s, although its NodeENI has no subnet for the node that could replace it", operation, target.ID)
	case claim.ReplaceAllowed:
		// Drift that only a replacement corrects is a reason; settled checks that the replacement exists.
	case s.soleFor(claim, target):
		s.fail("%s of %s, which is wanted and has no twin", operation, target.ID)
	}
}

// soleFor reports whether the interface is the only one of its claim in a desired subnet.
func (s *story) soleFor(claim render.Claim, target eni.Interface) bool {
	wanted := slices.ContainsFunc(claim.Interfaces, func(w plan.DesiredInterface) bool { return slices.Contains(w.Subnets, target.SubnetID) })
	twins := 0
	for _, i := range s.cloud.ours() {
		if ownerOf(i) == string(claim.Owner) && i.SubnetID == target.SubnetID {
			twins++
		}
	}
	return wanted && twins == 1
}

// upheaval changes the desired state while the controller works.
func (s *story) upheaval(changes int) {
	for range changes {
		s.c.say("%s", s.intents.change())
		if s.interference {
			s.c.say("%s", s.cloud.interference())
		}
		s.c.reconcile()
		s.c.idle(time.Duration(rapid.IntRange(0, 90).Draw(s.T, "seconds")) * time.Second)
		s.intents.letGo(s.c)
	}
}

// calm ends all faults and lets the controller finish. At its end there are no actions left.
func (s *story) calm() {
	s.cloud.maxLag, s.cloud.faulty, s.c.crashes = 0, false, false
	s.cloud.instance.State = eni.InstanceRunning
	s.c.say("CALM")
	s.c.reconcile()
	for range 6 {
		s.c.idle(10 * time.Minute)
		s.intents.letGo(s.c)
	}
	before := s.cloud.calls
	s.c.idle(30 * time.Minute)
	if s.cloud.calls != before {
		s.fail("%d calls after an hour of calm", s.cloud.calls-before)
	}
	if s.c.reconcile(); len(s.c.last.Actions) > 0 {
		s.fail("the second plan is not empty")
	}
}

// settled checks that EC2 is as declared. Interfaces that are unverified after a loss of ledgers wait for a person, and
// the status names them.
func (s *story) settled() {
	have := map[string][]eni.Interface{}
	for _, i := range s.cloud.ours() {
		if !s.c.forgetful || !slices.Contains(s.c.denied, i.ID) {
			have[ownerOf(i)] = append(have[ownerOf(i)], i)
		}
	}
	for _, n := range s.intents.all {
		s.settledClaim(n.claim(), have[n.uid])
		delete(have, n.uid)
	}
	for uid, leaked := range have {
		s.fail("%d interfaces of %s leaked: its NodeENI is gone", len(leaked), uid)
	}
}

func (s *story) settledClaim(claim render.Claim, have []eni.Interface) {
	switch claim.Mode {
	case render.Release:
		if len(have) > 0 {
			s.fail("%s is released and has %d interfaces", claim.Owner, len(have))
		}
	case render.Ensure:
		seen := map[string]bool{}
		for _, m := range s.c.last.Members {
			if m.Owner != claim.Owner {
				continue
			}
			if m.Interface != nil {
				if seen[m.Interface.ID] {
					s.fail("%s stands for two members", m.Interface.ID)
				}
				seen[m.Interface.ID] = true
			}
			// A crash that lost the ledger leaves only the tags of an interface that is retained: they never enter a ledger.
			if m.Interface != nil && !m.Unverified && s.c.ledger[m.Key] < m.Generation {
				s.fail("the ledger does not know %s", m.Interface.ID)
			}
			s.settledMember(claim, m)
		}
		if claim.AllResolved && len(claim.Interfaces) > 0 && len(have) > len(claim.Interfaces) {
			s.fail("%s wants %d interfaces and has %d", claim.Owner, len(claim.Interfaces), len(have))
		}
		if len(seen) != len(have) {
			s.fail("%s has %d interfaces, and the plan speaks of %d", claim.Owner, len(have), len(seen))
		}
	}
}

// settledMember checks one member of a desired claim.
func (s *story) settledMember(claim render.Claim, m plan.Member) {
	switch {
	case !m.Desired:
		if claim.AllResolved {
			s.fail("%s is neither wanted nor removed", m.Interface.ID)
		}
	case m.Why.Reason == plan.NoSubnetInZone && m.Interface == nil && len(claim.Interfaces) == 0:
	case len(claim.Interfaces) == 0:
		if m.Why.Reason != plan.Drifted || len(m.Drift) == 0 {
			s.fail("%s has no subnet for the node, and is not reported as drifted: %v", m.Interface.ID, m.Why)
		}
	case m.Phase == plan.Blocked:
		s.justified(claim, m)
	case slices.Contains([]plan.Reason{plan.SlotTaken, plan.NoSuchDeviceIndex}, m.Why.Reason) && claim.ExactSlot &&
		claim.ReplaceAllowed && len(m.Drift) > 0:
		// The reason is that another interface has its new slot, or that the card does not have it.
	case !m.Ready():
		s.fail("%s[%d] is %s", m.Owner, m.Ordinal, m.Phase)
	case len(m.Drift) > 0:
		if claim.ReplaceAllowed && claim.AllResolved && !claim.ExactSlot && len(s.c.unsettled) == 0 {
			s.fail("%s may be replaced and is not: %v", m.Interface.ID, m.Drift)
		}
	case claim.ExactSlot && m.Slot != m.RequestedSlot:
		s.fail("%s sits at %s without a word of drift", m.Interface.ID, m.Slot)
	}
	if m.Ready() && len(claim.Interfaces) > 0 {
		s.attributes(claim, m)
	}
}

func (s *story) attributes(claim render.Claim, m plan.Member) {
	want := claim.Interfaces[0].Spec
	i := *m.Interface
	got := eni.Spec{
		Description: i.Description, Groups: i.Groups, SourceDestCheck: i.SourceDestCheck,
		DeleteOnTermination: i.Attachment.DeleteOnTermination, AddressCounts: s.requestedOf(i, want.AddressCounts),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.fail("%s differs (-want +got):\n%s", i.ID, diff)
	}
}

// requestedOf returns the counts of an interface without the addresses above the desired counts that multieni has no
// record of: the controller crashed before it recorded them, or another program assigned them.
func (s *story) requestedOf(i eni.Interface, want eni.AddressCounts) eni.AddressCounts {
	have, ours := i.Counts(), i.Common(s.c.requested()[i.ID]).Counts()
	floor := func(want, have, ours int) int { return max(ours, min(have, want)) }
	return eni.AddressCounts{
		SecondaryIPv4: floor(want.SecondaryIPv4, have.SecondaryIPv4, ours.SecondaryIPv4), IPv4Prefixes: floor(want.IPv4Prefixes, have.IPv4Prefixes, ours.IPv4Prefixes),
		IPv6: floor(want.IPv6, have.IPv6, ours.IPv6), IPv6Prefixes: floor(want.IPv6Prefixes, have.IPv6Prefixes, ours.IPv6Prefixes),
	}
}

// justified checks that there was no slot for a blocked member.
func (s *story) justified(claim render.Claim, m plan.Member) {
	attached, taken := 0, false
	for _, i := range s.cloud.now() {
		if i.AttachedTo(instance) {
			attached++
			taken = taken || i.Attachment.Slot == m.RequestedSlot
		}
	}
	full := attached >= s.cloud.limits.Interfaces
	taken = taken || m.RequestedSlot.Device >= s.cloud.limits.MaxOnCard(m.RequestedSlot.Card)
	if !full && (!claim.ExactSlot || !taken) {
		s.fail("%s[%d] is blocked for %s, and there is room", m.Owner, m.Ordinal, m.Why.Reason)
	}
}

func TestPlansReachWhatIsWanted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStory(rt, trouble{strangers: true})
		s.c.reconcile()
		s.calm()
		s.settled()
		if s.cloud.collisions > 0 {
			s.fail("%d attaches were refused, though readings are current", s.cloud.collisions)
		}
	})
}

func TestATokenAlwaysSaysTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStory(rt, trouble{faults: true, crashes: true, lag: 20, interference: true, strangers: true})
		for range rapid.IntRange(1, 5).Draw(rt, "times") {
			s.c.say("%s", s.cloud.interference())
			s.c.reconcile()
			s.c.idle(time.Minute)
		}
		s.calm()
		s.settled()
		if s.cloud.reused > 0 {
			s.fail("%d requests bore a token that had said something else", s.cloud.reused)
		}
	})
}

func TestChangesOfMindEndWell(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStory(rt, trouble{strangers: true})
		s.upheaval(rapid.IntRange(1, 8).Draw(rt, "changes"))
		s.calm()
		s.settled()
		if s.cloud.collisions > 0 {
			s.fail("%d attaches were refused, though readings are current", s.cloud.collisions)
		}
	})
}

func TestNothingIsLostOrDoubledInTrouble(t *testing.T) {
	t.Parallel()
	stories := map[string]trouble{
		"lost requests and replies":           {faults: true},
		"readings that lag":                   {lag: 20},
		"crashes":                             {crashes: true, faults: true},
		"crashes, and readings that lag":      {crashes: true, faults: true, lag: 20, strangers: true},
		"crashes that lose the ledger":        {crashes: true, faults: true, forgetful: true},
		"everything, as bad as it ever was":   {crashes: true, faults: true, lag: 60, strangers: true, interference: true},
		"interference":                        {interference: true, strangers: true},
		"interference, and readings that lag": {interference: true, strangers: true, lag: 20},
	}
	for name, tr := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				s := newStory(rt, tr)
				s.upheaval(rapid.IntRange(1, 6).Draw(rt, "changes"))
				s.calm()
				s.settled()
			})
		})
	}
}
