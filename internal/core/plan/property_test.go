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
)

// story has a controller, the API server and the agent in its place, and the EC2 that it works on.
type story struct {
	*rapid.T
	cloud *hostile
	c     *controller
	// wanted are the names that users want an object of, with the NodeENI and the ordinal of each.
	wanted  map[string]identity.Interface
	serial  int
	trouble trouble
	// torn are the UIDs of objects whose finalizer a user removed.
	torn map[string]bool
}

// trouble has the faults of a story.
type trouble struct {
	lag                                            int
	faults, crashes, strangers, interference, torn bool
}

func newStory(rt *rapid.T, tr trouble) *story {
	slots := rapid.IntRange(3, 8).Draw(rt, "interfaces the type takes")
	s := &story{T: rt, cloud: newHostile(rt, limits(slots)), wanted: map[string]identity.Interface{}, trouble: tr, torn: map[string]bool{}}
	if tr.strangers {
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 4), 0, 2, rapid.ID).Draw(rt, "strangers") {
			s.cloud.occupy(device(n))
		}
	}
	s.c = newController(rt, s.cloud)
	for n := range rapid.IntRange(1, 4).Draw(rt, "objects") {
		s.declare(n)
	}
	s.cloud.maxLag, s.cloud.faulty, s.c.crashes = tr.lag, tr.faults, tr.crashes
	s.cloud.judge = s.judge
	return s
}

// declare creates the object of a name, unless it exists.
func (s *story) declare(n int) {
	of := key([]string{"a", "b"}[n%2], n/2, "")
	s.wanted[of.Name] = of
	s.post(of)
}

func (s *story) post(of identity.Interface) {
	if slices.ContainsFunc(s.c.objects, func(o *stored) bool { return o.key.Name == of.Name }) {
		return // the API server refuses a second one
	}
	s.serial++
	of.UID = identity.UID(fmt.Sprintf("uid-%d", s.serial))
	s.c.objects = append(s.c.objects, &stored{key: of, settings: s.settings(), since: s.c.now(), birth: s.c.process})
	s.c.next = s.c.now()
	s.c.say("%s is created as %s", of.Name, of.UID)
}

func (s *story) settings() eni.Settings {
	subnets := rapid.Permutation([]string{"s1", "s2", "s3"}).Draw(s.T, "subnets")
	return eni.Settings{
		Subnets: subnets[:rapid.IntRange(1, 2).Draw(s.T, "number of subnets")], Slot: device(rapid.IntRange(1, 4).Draw(s.T, "deviceIndex")),
		ExactSlot: rapid.Bool().Draw(s.T, "exact"), Spec: s.spec(),
	}
}

func (s *story) spec() eni.Spec {
	return eni.Spec{
		Description:         rapid.SampledFrom([]string{"", "a", "b"}).Draw(s.T, "description"),
		Groups:              rapid.SampledFrom([][]string{{"sg-1"}, {"sg-1", "sg-2"}, {"sg-3"}}).Draw(s.T, "groups"),
		SourceDestCheck:     rapid.Bool().Draw(s.T, "sourceDestCheck"),
		DeleteOnTermination: rapid.Bool().Draw(s.T, "deleteOnTermination"),
		AddressCounts: rapid.SampledFrom([]eni.AddressCounts{
			{}, {SecondaryIPv4: 2}, {IPv4Prefixes: 1}, {SecondaryIPv4: 1, IPv6: 2}, {IPv6Prefixes: 1},
		}).Draw(s.T, "counts"),
	}
}

// fail ends the test with a complete description.
func (s *story) fail(format string, args ...any) {
	s.Helper()
	var objects []string
	for _, o := range s.c.objects {
		objects = append(objects, fmt.Sprintf("%s %s %s deleting %t held %t", o.key.Name, o.key.UID, o.eniID, o.deleting, o.held()))
	}
	s.Fatalf("%s\n\nobjects:\n%s\nEC2:\n%s\nlast plan: %+v\ncalls:\n%s", fmt.Sprintf(format, args...), strings.Join(objects, "\n"),
		s.cloud.describeAll(), s.c.last, strings.Join(s.c.log, "\n"))
}

// judge is called before every call for an existing interface takes effect.
func (s *story) judge(operation string, target eni.Interface) {
	if target.Tags[identity.TagCluster] != cluster {
		s.fail("%s of the foreign interface %s", operation, target.ID)
	}
	if a := target.Attachment; a != nil && (a.InstanceID != instance || a.Slot == eni.Primary) {
		s.fail("%s of %s, which is not ours to touch where it is", operation, target.ID)
	}
	if operation != "detach" && operation != "delete" {
		return
	}
	for _, o := range s.c.objects {
		if o.eniID != target.ID {
			continue
		}
		if !o.deleting || o.held() {
			s.fail("%s of %s, whose object %s is not final", operation, target.ID, o.key.UID)
		}
		return
	}
	if !s.torn[target.ID] {
		s.fail("%s of %s, which is that of no object", operation, target.ID)
	}
}

// change makes one possible change of a user or of an agent.
func (s *story) change() string {
	kinds := []string{"declare", "delete", "unwanted", "settings", "pause", "open", "close", "nothing"}
	if s.trouble.interference {
		kinds = append(kinds, "detached", "deleted", "retagged", "assigned", "described", "instance")
	}
	if s.trouble.torn {
		kinds = append(kinds, "torn", "torn")
	}
	kind := rapid.SampledFrom(kinds).Draw(s.T, "change")
	if kind == "declare" || len(s.c.objects) == 0 {
		s.declare(rapid.IntRange(0, 3).Draw(s.T, "object"))
		return "declare"
	}
	o := rapid.SampledFrom(s.c.objects).Draw(s.T, "object")
	switch kind {
	case "delete":
		o.deleting = true
	case "unwanted":
		o.deleting = true
		delete(s.wanted, o.key.Name)
	case "settings":
		if subnets := o.settings.Subnets; !o.deleting {
			slot := o.settings.Slot
			o.settings = s.settings()
			if o.eniID != "" {
				o.settings.Subnets, o.settings.Slot = subnets, slot
			}
		}
	case "pause":
		o.paused = !o.paused
	case "open": // the API server refuses a hold on what is being deleted, and an agent opens what is attached only
		if i, err := s.cloud.get(o.eniID); err == nil && !o.deleting && i.AttachedTo(instance) {
			o.answered, o.open = true, true
		}
	case "close":
		o.answered, o.open = o.eniID != "", false
	case "torn":
		s.torn[o.eniID] = true
		s.c.remove(o)
	default:
		return kind + " " + s.interfere(kind, o)
	}
	return kind + " " + o.key.Name
}

// interfere is another program that changes an interface.
func (s *story) interfere(kind string, o *stored) string {
	i, err := s.cloud.get(o.eniID)
	if kind == "instance" {
		s.cloud.instance.State = rapid.SampledFrom([]eni.InstanceState{eni.InstanceRunning, eni.InstanceStopping, eni.InstanceStopped}).Draw(s.T, "state")
		return string(s.cloud.instance.State)
	}
	if err != nil {
		return "nothing"
	}
	switch kind {
	case "detached":
		if i.Attachment != nil {
			i.Attachment.Status = eni.AttachmentDetaching
			s.cloud.due[i.ID] = s.cloud.clock.Add(4 * time.Second)
		}
	case "deleted":
		if i.Attachment == nil {
			s.cloud.drop(i.ID)
			return i.ID
		}
	case "retagged":
		delete(i.Tags, rapid.SampledFrom([]string{identity.TagUID, identity.TagInterface, identity.TagName}).Draw(s.T, "tag"))
	case "assigned":
		if c := i.Counts(); 2+c.SecondaryIPv4+c.IPv4Prefixes <= s.cloud.limits.IPv4 {
			had := i.Addresses
			i = s.cloud.more(i, 4, 1, 0)
			s.cloud.foreign[i.ID] = s.cloud.foreign[i.ID].With(i.Without(had))
		}
	case "described":
		i.Description = "by another program"
	}
	s.cloud.set(i)
	return i.ID
}

// successors creates the objects that users want and that are gone.
func (s *story) successors() {
	for _, n := range []string{"a", "b"} {
		for ordinal := range 2 {
			if of, is := s.wanted[key(n, ordinal, "").Name]; is {
				s.post(of)
			}
		}
	}
}

func (s *story) upheaval(changes int) {
	for range changes {
		s.c.say("%s", s.change())
		s.c.reconcile()
		for range rapid.IntRange(1, 3).Draw(s.T, "rounds") {
			s.c.idle(time.Duration(rapid.IntRange(0, 60).Draw(s.T, "seconds")) * time.Second)
			s.successors()
		}
	}
}

// calm ends all faults and lets the controller finish. At its end there are no calls left.
func (s *story) calm() {
	s.cloud.maxLag, s.cloud.faulty, s.c.crashes = 0, false, false
	s.cloud.instance.State = eni.InstanceRunning
	s.c.say("CALM")
	for range 12 {
		for _, o := range s.c.objects {
			o.paused = false
			if o.eniID != "" {
				o.answered = true
			}
			if o.deleting {
				o.open = false
			}
		}
		s.c.reconcile()
		s.c.idle(5 * time.Minute)
		s.successors()
	}
	before := s.cloud.calls
	s.c.idle(30 * time.Minute)
	if s.cloud.calls != before {
		s.fail("%d calls after an hour of calm", s.cloud.calls-before)
	}
	if s.c.reconcile(); len(s.c.last.Calls) > 0 {
		s.fail("the second plan is not empty")
	}
}

// settled checks that EC2 is as declared.
func (s *story) settled() {
	have := map[string]eni.Interface{}
	for _, i := range s.cloud.ours() {
		have[i.ID] = i
	}
	for n, o := range s.c.objects {
		switch _, wanted := s.wanted[o.key.Name]; {
		case o.deleting:
			s.fail("%s is still there", o.key.UID)
		case !wanted:
			s.fail("nobody wants %s", o.key.UID)
		}
		s.settledObject(o, s.c.last.Interfaces[n])
		delete(have, o.eniID)
	}
	for name := range s.wanted {
		if !slices.ContainsFunc(s.c.objects, func(o *stored) bool { return o.key.Name == name }) {
			s.fail("%s has no object", name)
		}
	}
	for id := range have {
		if !s.trouble.torn {
			s.fail("%s is that of no object", id)
		}
	}
}

func (s *story) settledObject(o *stored, state plan.State) {
	switch {
	case state.Phase == plan.Blocked:
		s.justified(o, state)
	case !state.Ready():
		s.fail("%s is %s: %v", o.key.UID, state.Phase, state.Problem)
	case o.eniID != state.Interface.ID:
		s.fail("%s records %q, and the plan speaks of %s", o.key.UID, o.eniID, state.Interface.ID)
	default:
		s.attributes(o, state)
	}
}

// attributes compares an interface with its declaration. Addresses above the declared counts stay that multieni has no
// record of: the controller crashed before it recorded them, or another program assigned them.
func (s *story) attributes(o *stored, state plan.State) {
	i, want := *state.Interface, o.settings.Spec
	have, ours := i.Counts(), i.Common(state.Requested).Counts()
	floor := func(want, have, ours int) int { return max(ours, min(have, want)) }
	counts := eni.AddressCounts{
		SecondaryIPv4: floor(want.SecondaryIPv4, have.SecondaryIPv4, ours.SecondaryIPv4), IPv4Prefixes: floor(want.IPv4Prefixes, have.IPv4Prefixes, ours.IPv4Prefixes),
		IPv6: floor(want.IPv6, have.IPv6, ours.IPv6), IPv6Prefixes: floor(want.IPv6Prefixes, have.IPv6Prefixes, ours.IPv6Prefixes),
	}
	if o.open {
		counts = want.AddressCounts // pods keep what they have
	}
	got := eni.Spec{Description: i.Description, Groups: i.Groups, SourceDestCheck: i.SourceDestCheck,
		DeleteOnTermination: i.Attachment.DeleteOnTermination, AddressCounts: counts}
	if diff := cmp.Diff(want, got); diff != "" {
		s.fail("%s differs (-want +got):\n%s", i.ID, diff)
	}
	for name, value := range o.key.Tags(o.since, nil) {
		if name != identity.TagCreatedAt && i.Tags[name] != value {
			s.fail("the tag %s of %s is %q", name, i.ID, i.Tags[name])
		}
	}
}

// justified checks that there was no slot for a blocked object.
func (s *story) justified(o *stored, state plan.State) {
	attached, taken := 0, false
	for _, i := range s.cloud.now() {
		if i.AttachedTo(instance) {
			attached++
			taken = taken || i.Attachment.Slot == o.settings.Slot
		}
	}
	full := attached >= s.cloud.limits.Interfaces
	taken = taken || o.settings.Slot.Device >= s.cloud.limits.MaxOnCard(o.settings.Slot.Card)
	if !full && (!o.settings.ExactSlot || !taken) {
		s.fail("%s is blocked for %v, and there is room", o.key.UID, state.Problem)
	}
}

func TestPlansReachWhatIsWanted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStory(rt, trouble{strangers: true})
		s.c.reconcile()
		s.calm()
		s.settled()
	})
}

func TestNothingIsLostOrDoubledInTrouble(t *testing.T) {
	t.Parallel()
	stories := map[string]trouble{
		"changes of mind":                     {strangers: true},
		"lost requests and replies":           {faults: true},
		"readings that lag":                   {lag: 20},
		"crashes":                             {crashes: true, faults: true},
		"crashes, and readings that lag":      {crashes: true, faults: true, lag: 20, strangers: true},
		"interference":                        {interference: true, strangers: true},
		"interference, and readings that lag": {interference: true, strangers: true, lag: 20},
		"everything, as bad as it ever was":   {crashes: true, faults: true, lag: 40, strangers: true, interference: true},
		"finalizers that users remove":        {torn: true, faults: true, lag: 20},
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
