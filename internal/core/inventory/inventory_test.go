// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

const (
	cluster  = "cluster-1"
	instance = "i-00000000000000001"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// after returns the time a number of seconds after the start.
func after(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func of(nodeENI string, ordinal int) identity.Interface {
	return identity.Interface{
		Cluster: cluster, UID: identity.UID(fmt.Sprintf("uid-%s-%d", nodeENI, ordinal)), Name: identity.ObjectName(nodeENI, instance, ordinal),
		NodeENI: nodeENI, Node: "node-1", InstanceID: instance, Ordinal: ordinal,
	}
}

func first() identity.Interface { return of("a", 0) }

// fresh is an available interface of an object, made at a time.
func fresh(id string, key identity.Interface, made time.Time) eni.Interface {
	return eni.Interface{ID: id, Type: eni.Standard, Status: eni.Available, SubnetID: "s1", Tags: key.Tags(made, nil)}
}

func attached(i eni.Interface, status eni.AttachmentStatus) eni.Interface {
	i = i.Clone()
	i.Status = eni.InUse
	i.Attachment = &eni.Attachment{ID: "attach-" + i.ID, InstanceID: instance, Slot: eni.Slot{Device: 1}, Status: status}
	return i
}

func described(i eni.Interface, as string) eni.Interface {
	i = i.Clone()
	i.Description = as
	return i
}

func whether(shown func(eni.Interface) bool) inventory.Effect {
	return inventory.Effect{Aspect: "it", IsVisible: shown}
}

var always = inventory.Effect{Aspect: "existence", IsVisible: func(eni.Interface) bool { return true }}

func describes(as string) inventory.Effect {
	return inventory.Effect{Aspect: "description", IsVisible: func(i eni.Interface) bool { return i.Description == as }}
}

func TestAReadingThatDoesNotShowOurCallIsStale(t *testing.T) {
	old := fresh("eni-1", first(), after(-3600))
	calls := map[string]struct {
		before, after eni.Interface
		effect        inventory.Effect
	}{
		"attach": {
			old, attached(old, eni.AttachmentAttaching),
			whether(func(i eni.Interface) bool { return i.Attachment != nil }),
		},
		"detach": {
			attached(old, eni.AttachmentAttached), attached(old, eni.AttachmentDetaching),
			whether(func(i eni.Interface) bool {
				return i.Attachment == nil || i.Attachment.Status == eni.AttachmentDetaching
			}),
		},
		"modify": {old, described(old, "new"), describes("new")},
	}
	for name, tc := range calls {
		t.Run(name, func(t *testing.T) {
			v := inventory.New(cluster)
			v.ObserveInterfaces(start, tc.before)
			v.RecordCall(after(10), tc.after, tc.effect)
			for _, begun := range []int{9, 11, 69} {
				if changed := v.ObserveInterfaces(after(begun), tc.before); len(changed) > 0 {
					t.Errorf("a reading of second %d that does not show the call changed something", begun)
				}
			}
			if got, _ := v.Interface("eni-1"); !inventory.Equal(got, tc.after) {
				t.Errorf("the call is forgotten: %s", cmp.Diff(tc.after.Attachment, got.Attachment))
			}
			if v.ObserveInterfaces(after(71), tc.before); !same(v, tc.before) {
				t.Error("after Settle a reading counts again")
			}
		})
	}
}

func same(v *inventory.Inventory, want eni.Interface) bool {
	got, known := v.Interface(want.ID)
	return known && inventory.Equal(got, want)
}

func TestAReadingThatShowsOurCallCountsAtOnce(t *testing.T) {
	i := fresh("eni-1", first(), after(-3600))
	v := inventory.New(cluster)
	v.RecordCall(start, attached(i, eni.AttachmentAttaching), whether(func(i eni.Interface) bool { return i.Attachment != nil }))
	want := attached(i, eni.AttachmentAttached)
	if changed := v.ObserveInterfaces(after(1), want); len(changed) != 1 || !same(v, want) {
		t.Error("the reading did not count")
	}
}

func TestALaterCallTakesThePlaceOfAnEarlierOne(t *testing.T) {
	i := fresh("eni-1", first(), after(-3600))
	t.Run("of the same aspect", func(t *testing.T) {
		v := inventory.New(cluster)
		v.RecordCall(start, described(i, "one"), describes("one"))
		v.RecordCall(after(1), described(i, "two"), describes("two"))
		if v.ObserveInterfaces(after(2), described(attached(i, eni.AttachmentAttached), "two")); len(v.InTransition()) > 0 {
			t.Error("the reading did not count")
		}
		if got, _ := v.Interface("eni-1"); got.Attachment == nil {
			t.Error("the reading did not count")
		}
	})
	t.Run("that undoes it", func(t *testing.T) {
		v := inventory.New(cluster)
		more := func(i eni.Interface) bool { return i.Description != "" }
		v.RecordCall(start, described(i, "one"), inventory.Effect{Aspect: "more", IsVisible: more})
		v.RecordCall(after(1), described(i, ""), inventory.Effect{Aspect: "fewer", IsVisible: func(i eni.Interface) bool { return !more(i) }})
		if v.ObserveInterfaces(after(2), attached(i, eni.AttachmentAttached)); !same(v, attached(i, eni.AttachmentAttached)) {
			t.Error("the reading did not count")
		}
	})
}

// TestMissing checks, for a history of reads, whether the inventory has an interface that was created an hour ago, and
// whether it is missing.
func TestMissing(t *testing.T) {
	i := fresh("eni-1", first(), after(-3600))
	type state struct{ Known, Missing bool }
	histories := map[string]struct {
		do   func(*inventory.Inventory)
		want state
	}{
		"missed once": {func(v *inventory.Inventory) { v.ObserveAbsence(after(10), "eni-1") }, state{true, true}},
		"missed twice at once": {func(v *inventory.Inventory) {
			v.ObserveAbsence(after(10), "eni-1")
			v.ObserveAbsence(after(12), "eni-1")
		}, state{true, true}},
		"missed twice in time": {func(v *inventory.Inventory) {
			v.ObserveAbsence(after(10), "eni-1")
			v.ObserveAbsence(after(40), "eni-1")
		}, state{false, false}},
		"missed, seen, missed": {func(v *inventory.Inventory) {
			v.ObserveAbsence(after(10), "eni-1")
			v.ObserveInterfaces(after(20), i)
			v.ObserveAbsence(after(50), "eni-1")
		}, state{true, true}},
		"missed and then seen": {func(v *inventory.Inventory) { v.ObserveAbsence(after(10), "eni-1"); v.ObserveInterfaces(after(20), i) }, state{true, false}},
		"missed before seen":   {func(v *inventory.Inventory) { v.ObserveInterfaces(after(20), i); v.ObserveAbsence(after(10), "eni-1") }, state{true, false}},
		"missed before a call": {func(v *inventory.Inventory) { v.RecordCall(after(20), i, always); v.ObserveAbsence(after(10), "eni-1") }, state{true, false}},
		"missed by a listing":  {func(v *inventory.Inventory) { v.ObserveList(after(10), nil) }, state{true, true}},
		"missed by two looks":  {func(v *inventory.Inventory) { v.ObserveInstance(lookAt(10)); v.ObserveInstance(lookAt(40)) }, state{false, false}},
		"shown by a look":      {func(v *inventory.Inventory) { v.ObserveInstance(lookAt(10, i)) }, state{true, false}},
		"missed by a slow list": {func(v *inventory.Inventory) {
			v.ObserveInstance(lookAt(40, i))
			v.ObserveList(start, nil)
			v.ObserveAbsence(after(41), "eni-1")
		}, state{true, true}},
		"called for after that": {func(v *inventory.Inventory) { v.ObserveAbsence(after(10), "eni-1"); v.RecordCall(after(20), i, always) }, state{true, false}},
	}
	for name, tc := range histories {
		t.Run(name, func(t *testing.T) {
			v := inventory.New(cluster)
			v.ObserveInterfaces(start, i)
			tc.do(v)
			var got state
			for _, r := range v.Of(instance) {
				got = state{true, r.Missing}
			}
			if got != tc.want {
				t.Errorf("is %+v, want %+v", got, tc.want)
			}
			if polled := len(v.InTransition()) > 0; polled != got.Missing {
				t.Errorf("polled: %t; what is missing must be looked for", polled)
			}
		})
	}
}

func lookAt(second int, interfaces ...eni.Interface) eni.InstanceSnapshot {
	return eni.InstanceSnapshot{At: after(second), Instance: eni.Instance{ID: instance}, Interfaces: interfaces}
}

func TestANewbornIsNotMissed(t *testing.T) {
	unreadable := func(i eni.Interface, tag string) eni.Interface {
		i = i.Clone()
		i.Tags[identity.TagCreatedAt] = tag
		return i
	}
	i := fresh("eni-1", first(), start)
	cases := map[string]struct {
		learn  func(*inventory.Inventory)
		missed int
		want   bool
	}{
		"made by us, a minute ago":               {func(v *inventory.Inventory) { v.RecordCall(start, i, always) }, 60, false},
		"made by us, two minutes ago":            {func(v *inventory.Inventory) { v.RecordCall(start, i, always) }, 120, true},
		"made by a former self, a minute ago":    {func(v *inventory.Inventory) { v.ObserveInterfaces(after(10), i) }, 60, false},
		"made by a former self, two minutes ago": {func(v *inventory.Inventory) { v.ObserveInterfaces(after(10), i) }, 120, true},
		"made by us late, with an old tag": {
			func(v *inventory.Inventory) { v.RecordCall(start, unreadable(i, "1"), always) }, 60, false,
		},
		"made in the future, says the tag": {
			func(v *inventory.Inventory) {
				v.ObserveInterfaces(start, unreadable(i, strconv.FormatInt(start.Unix()+86400, 10)))
			}, 120, true,
		},
		"nobody knows when": {func(v *inventory.Inventory) { v.ObserveInterfaces(start, unreadable(i, "yesterday")) }, 10, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := inventory.New(cluster)
			tc.learn(v)
			v.ObserveAbsence(after(tc.missed), "eni-1")
			if got := v.Of(instance)[0].Missing; got != tc.want {
				t.Errorf("missing: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestWhatWeDeletedDoesNotComeBack(t *testing.T) {
	i := fresh("eni-1", first(), after(-3600))
	v := inventory.New(cluster)
	v.ObserveInterfaces(start, i)
	v.Deleted(after(10), "eni-1")
	v.ObserveInterfaces(after(11), i)
	v.ObserveList(after(100), []eni.Interface{i})
	v.ObserveInstance(lookAt(110, i))
	if v.Len() > 0 || v.HasAny(instance) {
		t.Error("a stale reading brought it back")
	}
}

func TestDetachingSince(t *testing.T) {
	i := fresh("eni-1", first(), after(-3600))
	since := func(v *inventory.Inventory) time.Time { return v.Of(instance)[0].DetachingSince }
	v := inventory.New(cluster)
	v.ObserveInterfaces(start, attached(i, eni.AttachmentDetaching))
	v.ObserveInterfaces(after(30), attached(i, eni.AttachmentDetaching))
	if got := since(v); !got.Equal(start) {
		t.Errorf("since %s, want the first reading", got)
	}
	v.RecordCall(after(600), attached(i, eni.AttachmentDetaching), always)
	if got := since(v); !got.Equal(after(600)) {
		t.Errorf("since %s, want the last request", got)
	}
	v.ObserveInterfaces(after(610), i)
	if got := since(v); !got.IsZero() {
		t.Errorf("since %s, though it is not detaching", got)
	}
}

func TestShown(t *testing.T) {
	i := fresh("eni-1", first(), start)
	shown := func(v *inventory.Inventory) time.Time { return v.Of(instance)[0].LastRead }
	v := inventory.New(cluster)
	v.RecordCall(start, attached(i, eni.AttachmentAttaching), inventory.Effect{
		Aspect: "attachment", IsVisible: func(i eni.Interface) bool { return i.Attachment != nil },
	})
	if got := shown(v); !got.IsZero() {
		t.Errorf("shown at %s, by nothing but a call of ours", got)
	}
	v.ObserveInterfaces(after(20), i)
	if got := shown(v); !got.IsZero() {
		t.Errorf("shown at %s, by a reading that contradicts our call", got)
	}
	v.ObserveInterfaces(after(30), attached(i, eni.AttachmentAttaching))
	if got := shown(v); !got.Equal(after(30)) {
		t.Errorf("shown at %s, want the time of the reading", got)
	}
}

// TestEC2sAnswerToATokenNamesTheInterface: it counts for the object of the call, regardless of its tags.
func TestEC2sAnswerToATokenNamesTheInterface(t *testing.T) {
	edited := fresh("eni-1", of("a", 3), after(-3600))
	requested := eni.Addresses{IPv4Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.16/28")}}
	v := inventory.New(cluster)
	v.ObserveInterfaces(start, edited)
	if got := v.Of(instance)[0].CreatedFor; got != "" {
		t.Errorf("a reading is taken for an answer to %s", got)
	}
	v.RecordCreated(after(1), first(), edited, requested)
	v.ObserveInterfaces(after(2), edited)
	got := v.Of(instance)[0]
	if got.CreatedFor != first().UID || got.Tagged != of("a", 3) || len(got.Requested.IPv4Prefixes) != 1 {
		t.Errorf("it is %+v", got)
	}
}

// TestRequestedAddressesAreThoseOfAnswers: a reading that omits one ends the record of it, unless the reading is stale.
func TestRequestedAddressesAreThoseOfAnswers(t *testing.T) {
	address := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, last}) }
	has := func(last ...byte) eni.Addresses {
		var a eni.Addresses
		for _, l := range last {
			a.SecondaryIPv4 = append(a.SecondaryIPv4, address(l))
		}
		return a
	}
	i := fresh("eni-1", first(), after(-3600))
	v := inventory.New(cluster)
	v.ObserveInterfaces(start, i)
	for n, step := range []struct {
		do   func()
		want eni.Addresses
	}{
		{func() { v.RecordRequested(after(1), "eni-1", has(1, 2, 3), eni.Addresses{}) }, has(1, 2, 3)},
		{func() { v.RecordRequested(after(2), "eni-1", eni.Addresses{}, has(2)) }, has(1, 3)},
		{func() { v.ObserveInterfaces(after(30), i) }, has(1, 3)},
		{func() { i.Addresses = has(3, 4); v.ObserveInterfaces(after(62), i) }, has(3)},
	} {
		step.do()
		got := v.Of(instance)[0].Requested
		if diff := cmp.Diff(step.want.SecondaryIPv4, got.SecondaryIPv4, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", n, diff)
		}
	}
}

func TestOnlyOursIsTakenIn(t *testing.T) {
	other := first()
	other.Cluster = "cluster-2"
	damaged := fresh("eni-damaged", first(), start)
	delete(damaged.Tags, identity.TagUID)
	requested := fresh("eni-requested", first(), start)
	requested.RequesterManaged = true
	primary := attached(fresh("eni-primary", first(), start), eni.AttachmentAttached)
	primary.Attachment.Slot = eni.Primary

	v := inventory.New(cluster)
	for _, i := range []eni.Interface{fresh("eni-other", other, start), damaged, requested, primary, {ID: "eni-bare"}} {
		v.ObserveInterfaces(start, i)
		v.RecordCall(start, i, always)
		v.ObserveList(after(1), []eni.Interface{i})
	}
	if v.Len() > 0 {
		t.Errorf("%d strangers were taken in", v.Len())
	}
}

func TestARetaggedInterfaceMovesToItsNewPlace(t *testing.T) {
	v := inventory.New(cluster)
	v.ObserveInterfaces(start, fresh("eni-1", first(), after(-3600)))
	moved := of("b", 3)
	moved.Node, moved.InstanceID = "node-2", "i-00000000000000002"
	moved.Name = identity.ObjectName("b", moved.InstanceID, 3)
	v.ObserveInterfaces(after(1), fresh("eni-1", moved, after(-3600)))
	if len(v.Of(instance)) > 0 || v.HasAny(instance) {
		t.Error("its old place still has it")
	}
	if len(v.Of(moved.InstanceID)) != 1 || !slices.Equal(v.Instances(), []string{moved.InstanceID}) || v.Len() != 1 {
		t.Error("its new place does not have it")
	}
}

// TestADetachedInterfaceOfDamagedTagsIsNotMissing has an interface whose tags name another instance and do not fit: it
// belongs to the instance that it was attached to. After its detachment no read of that instance shows it.
func TestADetachedInterfaceOfDamagedTagsIsNotMissing(t *testing.T) {
	detached := fresh("eni-1", first(), after(-3600))
	detached.Tags[identity.TagInstanceID] = "i-00000000000000002"
	look := func(seconds int, shown ...eni.Interface) eni.InstanceSnapshot {
		return eni.InstanceSnapshot{At: after(seconds), Instance: eni.Instance{ID: instance, State: eni.InstanceRunning}, Interfaces: shown}
	}
	v := inventory.New(cluster)
	v.ObserveInstance(look(1, attached(detached, eni.AttachmentAttached)))
	v.ObserveInstance(look(2)) // it may have been detached, or deleted
	v.ObserveInterfaces(after(3), detached)
	for n := range 3 {
		if changed := v.ObserveInstance(look(4 + n)); len(changed) > 0 || v.Of(instance)[0].Missing {
			t.Errorf("a read of the instance changes %v, and the interface is missing: %t", changed, v.Of(instance)[0].Missing)
		}
	}
}

// TestDamagedTagsHideNoInterfaceFromItsInstance: an object of the instance may record its ID.
func TestDamagedTagsHideNoInterfaceFromItsInstance(t *testing.T) {
	for tag, known := range map[string]bool{identity.TagUID: true, identity.TagNode: true, identity.TagInstanceID: true, identity.TagCluster: false} {
		t.Run(tag, func(t *testing.T) {
			v, i := inventory.New(cluster), attached(fresh("eni-1", first(), after(-3600)), eni.AttachmentAttached)
			delete(i.Tags, tag)
			v.ObserveInterfaces(start, i)
			if got := v.Of(instance); (len(got) == 1) != known || v.Len() != 0 || len(v.All()) != 0 {
				t.Errorf("the instance has %d, the cluster %d", len(got), v.Len())
			}
		})
	}
}

// TestAKnownInterfaceKeepsItsPlaceUnlessItsTagsNameAnother: the ID is the identity, as long as the tag of the cluster
// allows calls for it.
func TestAKnownInterfaceKeepsItsPlaceUnlessItsTagsNameAnother(t *testing.T) {
	for tag, known := range map[string]bool{
		identity.TagUID: true, identity.TagInterface: true, identity.TagInstanceID: true, identity.TagCluster: false,
	} {
		t.Run(tag, func(t *testing.T) {
			v, i := inventory.New(cluster), fresh("eni-1", first(), after(-3600))
			v.ObserveInterfaces(start, i)
			i = i.Clone()
			delete(i.Tags, tag)
			v.ObserveInterfaces(after(1), i)
			if got := v.Of(instance); (len(got) == 1) != known || known && (got[0].Tagged != first() || got[0].Tags[tag] != "") {
				t.Errorf("it is %+v", got)
			}
		})
	}
}

// TestBothInstancesHearOfAnInterfaceWhoseTagsNameAnother has a user change the tags of an interface.
func TestBothInstancesHearOfAnInterfaceWhoseTagsNameAnother(t *testing.T) {
	v := inventory.New(cluster)
	was, is := first(), first()
	is.InstanceID = "i-00000000000000002"
	is.Name = identity.ObjectName("a", is.InstanceID, 0)
	v.ObserveList(after(0), []eni.Interface{fresh("eni-1", was, after(-3600))})
	changed := v.ObserveList(after(60), []eni.Interface{fresh("eni-1", is, after(-3600))})
	if diff := cmp.Diff([]identity.Interface{is, was}, changed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnattachedCountsOnlyWhatCounts(t *testing.T) {
	v := inventory.New(cluster)
	for n, nodeENI := range []string{"alive", "dead", "dead"} {
		v.ObserveInterfaces(start, fresh("eni-"+strconv.Itoa(n), of(nodeENI, n), start))
	}
	if n := v.Unattached(func(r inventory.Record) bool { return r.Tagged.NodeENI == "alive" }); n != 1 {
		t.Errorf("%d count, want only the one whose NodeENI is alive", n)
	}
}

// TestAttemptsToAttachAreCounted follows an interface through attachments that fail.
func TestAttemptsToAttachAreCounted(t *testing.T) {
	i := fresh("eni-1", first(), start)
	at := func(id string, status eni.AttachmentStatus) eni.Interface {
		i := i.Clone()
		i.Attachment = &eni.Attachment{ID: id, InstanceID: instance, Slot: eni.Slot{Device: 1}, Status: status}
		return i
	}
	histories := map[string]struct {
		seen []eni.Interface
		want int
	}{
		"still attaching":             {[]eni.Interface{at("a", eni.AttachmentAttaching)}, 0},
		"attached":                    {[]eni.Interface{at("a", eni.AttachmentAttaching), at("a", eni.AttachmentAttached)}, 0},
		"attached and detached again": {[]eni.Interface{at("a", eni.AttachmentAttaching), at("a", eni.AttachmentAttached), at("a", eni.AttachmentDetaching), i}, 0},
		"undone":                      {[]eni.Interface{at("a", eni.AttachmentAttaching), at("a", eni.AttachmentDetaching), i}, 1},
		"undone between two readings": {[]eni.Interface{at("a", eni.AttachmentAttaching), i}, 1},
		"undone and begun again":      {[]eni.Interface{at("a", eni.AttachmentAttaching), at("b", eni.AttachmentAttaching)}, 1},
		"undone twice":                {[]eni.Interface{at("a", eni.AttachmentAttaching), i, at("b", eni.AttachmentAttaching), i}, 2},
		"attached at last":            {[]eni.Interface{at("a", eni.AttachmentAttaching), i, at("b", eni.AttachmentAttaching), at("b", eni.AttachmentAttached)}, 0},
	}
	for name, tc := range histories {
		t.Run(name, func(t *testing.T) {
			v := inventory.New(cluster)
			for n, seen := range tc.seen {
				v.ObserveInterfaces(after(n), seen)
			}
			got := v.Of(instance)[0]
			if got.FailedAttaches != tc.want || got.LastFailedAttach.IsZero() != (tc.want == 0) {
				t.Errorf("%d attempts were undone, the last at %s; want %d", got.FailedAttaches, got.LastFailedAttach, tc.want)
			}
		})
	}
}
