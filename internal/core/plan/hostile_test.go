// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// mostCalls is more mutating calls than any story needs.
const mostCalls = 2000

// hostile is an EC2 with one instance that makes as much trouble as EC2: each of its reads lags by another time,
// requests and answers get lost, attaching and detaching take time, and it refuses the same calls as EC2.
type hostile struct {
	rt    *rapid.T
	clock time.Time
	// maxLag is the longest lag of a read, in seconds; faulty makes requests and answers get lost.
	maxLag int
	faulty bool

	instance eni.Instance
	limits   eni.Limits
	serial   int
	history  map[string][]version
	due      map[string]time.Time
	tokens   map[string]made
	// foreign has, by interface, the addresses that another program assigned.
	foreign map[string]eni.Addresses
	// judge is called before every call for an interface, and ends the test if the call is wrong.
	judge func(operation string, target eni.Interface)
	calls int
	// sent has the first request with each token; reused counts later requests that differ.
	sent   map[string]string
	reused int
	// unusable are slots that EC2 refuses although they have no interface, as after a forced detach.
	unusable map[eni.Slot]bool
	// late are the effects of requests that EC2 has received and not carried out yet.
	late []effect
	// refused counts the late requests that EC2 refused.
	refused int
}

// effect is the effect of a request at a time.
type effect struct {
	at time.Time
	do func() error
}

// version is the state of an interface from some time on; nil after its deletion.
type version struct {
	from time.Time
	i    *eni.Interface
}

// made is the interface that a request with a client token created.
type made struct{ request, id string }

func newHostile(rt *rapid.T, limits eni.Limits) *hostile {
	h := &hostile{
		rt: rt, clock: start, limits: limits,
		instance: eni.Instance{ID: instance, Type: "m5.xlarge", VPCID: "vpc-1", State: eni.InstanceRunning},
		history:  map[string][]version{}, due: map[string]time.Time{}, tokens: map[string]made{}, sent: map[string]string{},
		foreign: map[string]eni.Addresses{},
		judge:   func(string, eni.Interface) {},
	}
	h.occupy(eni.Primary)
	return h
}

func (h *hostile) id(prefix string) string {
	h.serial++
	return fmt.Sprintf("%s-%04d", prefix, h.serial)
}

// occupy attaches a foreign interface.
func (h *hostile) occupy(slot eni.Slot) {
	h.set(eni.Interface{
		ID: h.id("eni"), Type: eni.Standard, Status: eni.InUse, SubnetID: "subnet-node", VPCID: "vpc-1", SourceDestCheck: true,
		Attachment: &eni.Attachment{ID: h.id("attach"), InstanceID: instance, Slot: slot, Status: eni.AttachmentAttached},
	})
}

func (h *hostile) set(i eni.Interface) {
	i = i.Clone()
	h.history[i.ID] = append(h.history[i.ID], version{h.clock, &i})
}

func (h *hostile) drop(id string) {
	h.history[id] = append(h.history[id], version{h.clock, nil})
	delete(h.due, id)
}

// now completes due transitions and returns the true state of all interfaces, ordered by ID.
func (h *hostile) now() []eni.Interface {
	clock, late := h.clock, h.late
	slices.SortStableFunc(late, func(a, b effect) int { return a.at.Compare(b.at) })
	h.late = nil
	for _, one := range late {
		if one.at.After(clock) {
			h.late = append(h.late, one)
			continue
		}
		h.clock = one.at
		if err := one.do(); err != nil { // no answer reaches the controller
			h.refused++
		}
	}
	h.clock = clock
	for id, due := range h.due {
		if due.After(h.clock) {
			continue
		}
		delete(h.due, id)
		versions := h.history[id]
		i := versions[len(versions)-1].i.Clone()
		if i.Attachment.Status == eni.AttachmentAttaching {
			i.Attachment.Status = eni.AttachmentAttached
		} else {
			i.Attachment, i.Status = nil, eni.Available
		}
		h.history[id] = append(versions, version{due, &i})
	}
	return h.asOf(h.clock)
}

func (h *hostile) asOf(t time.Time) []eni.Interface {
	var all []eni.Interface
	for _, id := range slices.Sorted(maps.Keys(h.history)) {
		for _, v := range slices.Backward(h.history[id]) {
			if v.from.After(t) {
				continue
			}
			if v.i != nil {
				all = append(all, v.i.Clone())
			}
			break
		}
	}
	return all
}

// ours returns the true state of the cluster's interfaces.
func (h *hostile) ours() []eni.Interface {
	return slices.DeleteFunc(h.now(), func(i eni.Interface) bool { return i.Tags[identity.TagCluster] != cluster })
}

// read returns an earlier state of the interfaces that pass.
func (h *hostile) read(pass func(eni.Interface) bool) []eni.Interface {
	h.now()
	lag := 0
	if h.maxLag > 0 {
		lag = rapid.IntRange(0, h.maxLag).Draw(h.rt, "lag")
	}
	shown := h.asOf(h.clock.Add(-time.Duration(lag) * time.Second))
	return slices.DeleteFunc(shown, func(i eni.Interface) bool { return !pass(i) })
}

// list lists the cluster's interfaces.
func (h *hostile) list() []eni.Interface {
	return h.read(func(i eni.Interface) bool { return i.Tags[identity.TagCluster] == cluster })
}

// describe reads interfaces by ID.
func (h *hostile) describe(ids []string) []eni.Interface {
	return h.read(func(i eni.Interface) bool { return slices.Contains(ids, i.ID) })
}

// look reads the instance with two calls, each with its own lag.
func (h *hostile) look() eni.InstanceSnapshot {
	attached := h.read(func(i eni.Interface) bool { return i.AttachedTo(instance) })
	tagged := h.read(func(i eni.Interface) bool { return i.Tags[identity.TagInstanceID] == instance })
	both := append(attached, tagged...)
	slices.SortStableFunc(both, eni.CompareInterfaces)
	both = slices.CompactFunc(both, func(a, b eni.Interface) bool { return a.ID == b.ID })
	return eni.InstanceSnapshot{At: h.clock, Instance: h.instance, Interfaces: both}
}

func (h *hostile) get(id string) (eni.Interface, error) {
	for _, i := range h.now() {
		if i.ID == id {
			return i, nil
		}
	}
	return eni.Interface{}, refusal(eni.NotFound)
}

func refusal(class eni.Class) error {
	return &eni.APIError{Class: class, Operation: "op", Code: string(class)}
}

// call makes a mutating call unless its request is lost, and sometimes loses the answer.
func (h *hostile) call(do func() error) error {
	if h.calls++; h.calls > mostCalls {
		h.rt.Fatalf("more than %d calls: the controller runs in circles", mostCalls)
	}
	fate := "arrives"
	if h.faulty {
		fate = rapid.SampledFrom([]string{"arrives", "arrives", "arrives", "request lost", "reply lost", "late", "throttled"}).Draw(h.rt, "fate")
	}
	switch fate {
	case "request lost":
		return refusal(eni.Transient)
	case "throttled":
		return refusal(eni.Throttled)
	case "late": // within the window in which a call takes effect or never does
		seconds := rapid.IntRange(0, int(inventory.StaleReadWindow/time.Second)-h.maxLag-1).Draw(h.rt, "delay")
		h.late = append(h.late, effect{h.clock.Add(time.Duration(seconds) * time.Second), do})
		return refusal(eni.Transient)
	}
	err := do()
	if fate == "reply lost" {
		return refusal(eni.Transient)
	}
	return err
}

// mutate makes a call for one existing interface.
func (h *hostile) mutate(operation, id string, effect func(eni.Interface) (eni.Interface, error)) error {
	return h.call(func() error {
		i, err := h.get(id)
		if err != nil {
			return err
		}
		h.judge(operation, i)
		if i, err = effect(i); err != nil {
			return err
		}
		h.set(i)
		return nil
	})
}

func (h *hostile) CreateInterface(_ context.Context, r executor.CreateRequest) (eni.Interface, error) {
	var answer eni.Interface
	request := fmt.Sprintf("%v", r)
	if first, known := h.sent[r.Token]; known && first != request {
		h.reused++
	}
	h.sent[r.Token] = request
	err := h.call(func() error {
		if before, known := h.tokens[r.Token]; known {
			if before.request != request {
				return refusal(eni.IdempotencyMismatch)
			}
			i, err := h.get(before.id)
			if err != nil {
				return refusal(eni.IdempotencyMismatch)
			}
			answer = i
			return nil
		}
		answer = eni.Interface{
			ID: h.id("eni"), Type: eni.Standard, Status: eni.Available, SubnetID: r.SubnetID, VPCID: "vpc-1",
			Description: r.Description, Groups: r.Groups, SourceDestCheck: true, Tags: maps.Clone(r.Tags),
			ConnectionTracking: r.ConnectionTracking,
		}
		answer.Addresses = h.more(h.more(answer, 4, r.Counts.SecondaryIPv4, r.Counts.IPv4Prefixes), 6, r.Counts.IPv6, r.Counts.IPv6Prefixes).Addresses
		h.tokens[r.Token] = made{request, answer.ID}
		h.set(answer)
		return nil
	})
	if err != nil {
		return eni.Interface{}, err
	}
	answer = answer.Clone()
	if answer.Attachment == nil {
		answer.Status = eni.Pending
	}
	return answer, nil
}

func (h *hostile) more(i eni.Interface, family, addresses, prefixes int) eni.Interface {
	for range addresses {
		h.serial++
		if family == 4 {
			i.SecondaryIPv4 = append(i.SecondaryIPv4, netip.AddrFrom4([4]byte{10, 0, byte(h.serial >> 8), byte(h.serial)}))
		} else {
			i.IPv6 = append(i.IPv6, netip.AddrFrom16([16]byte{0x20, 1, 14: byte(h.serial >> 8), 15: byte(h.serial)}))
		}
	}
	for range prefixes {
		h.serial++
		if family == 4 {
			i.IPv4Prefixes = append(i.IPv4Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(h.serial >> 8), byte(h.serial), 0}), 28))
		} else {
			i.IPv6Prefixes = append(i.IPv6Prefixes, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 2, 8: byte(h.serial >> 8), 9: byte(h.serial)}), 80))
		}
	}
	return i
}

func (h *hostile) AttachInterface(_ context.Context, id, instanceID string, slot eni.Slot) (eni.Attachment, error) {
	var attachment eni.Attachment
	err := h.mutate("attach", id, func(i eni.Interface) (eni.Interface, error) {
		if i.Attachment != nil {
			return i, refusal(eni.Busy)
		}
		if !h.instance.State.Attachable() {
			return i, refusal(eni.WrongState)
		}
		if err := h.checkSlot(slot); err != nil {
			return i, err
		}
		attachment = eni.Attachment{ID: h.id("attach"), InstanceID: instanceID, Slot: slot, Status: eni.AttachmentAttaching}
		taken := attachment
		i.Status, i.Attachment = eni.InUse, &taken
		h.due[i.ID] = h.clock.Add(3 * time.Second)
		return i, nil
	})
	return attachment, err
}

// AttachInterfaceWith attaches without ENA Express, which no NodeENI here declares.
func (h *hostile) AttachInterfaceWith(ctx context.Context, _ eni.ENAExpress, id, instanceID string, slot eni.Slot) (eni.Attachment, error) {
	return h.AttachInterface(ctx, id, instanceID, slot)
}

func (h *hostile) SetConnectionTracking(context.Context, string, eni.ConnectionTracking) error {
	panic("not declared")
}

func (h *hostile) SetENAExpress(context.Context, string, eni.ENAExpress) error { panic("not declared") }

// checkSlot refuses a slot that is taken, or that the instance type does not have.
func (h *hostile) checkSlot(slot eni.Slot) error {
	if h.unusable[slot] {
		return refusal(eni.SlotTaken)
	}
	total, onCard := 0, 0
	for _, i := range h.now() {
		if !i.AttachedTo(instance) {
			continue
		}
		if i.Attachment.Slot == slot {
			return refusal(eni.SlotTaken)
		}
		total++
		if i.Attachment.Slot.Card == slot.Card {
			onCard++
		}
	}
	if total >= h.limits.Interfaces || onCard >= h.limits.MaxOnCard(slot.Card) {
		return refusal(eni.LimitExceeded)
	}
	if slot.Device >= h.limits.MaxOnCard(slot.Card) {
		return refusal(eni.Invalid)
	}
	return nil
}

func (h *hostile) DetachInterface(_ context.Context, attachmentID string, _ bool) error {
	for _, i := range h.now() {
		if i.Attachment != nil && i.Attachment.ID == attachmentID {
			return h.mutate("detach", i.ID, func(i eni.Interface) (eni.Interface, error) {
				if i.Attachment == nil || i.Attachment.ID != attachmentID {
					return i, refusal(eni.NotFound)
				}
				i.Attachment.Status = eni.AttachmentDetaching
				h.due[i.ID] = h.clock.Add(4 * time.Second)
				return i, nil
			})
		}
	}
	return nil
}

func (h *hostile) DeleteInterface(_ context.Context, id string) error {
	err := h.call(func() error {
		i, err := h.get(id)
		if err != nil {
			return err
		}
		h.judge("delete", i)
		if i.Attachment != nil {
			return refusal(eni.Busy)
		}
		h.drop(id)
		return nil
	})
	return err
}

func (h *hostile) SetDeleteOnTermination(_ context.Context, id, attachmentID string, on bool) error {
	return h.mutate("modify", id, func(i eni.Interface) (eni.Interface, error) {
		if i.Attachment == nil || i.Attachment.ID != attachmentID {
			return i, refusal(eni.NotFound)
		}
		i.Attachment.DeleteOnTermination = on
		return i, nil
	})
}

// modify changes an interface in a way that EC2 never refuses.
func (h *hostile) modify(id string, effect func(*eni.Interface)) error {
	return h.mutate("modify", id, func(i eni.Interface) (eni.Interface, error) { effect(&i); return i, nil })
}

func (h *hostile) SetSourceDestCheck(_ context.Context, id string, on bool) error {
	return h.modify(id, func(i *eni.Interface) { i.SourceDestCheck = on })
}

func (h *hostile) SetGroups(_ context.Context, id string, groups []string) error {
	return h.modify(id, func(i *eni.Interface) { i.Groups = groups })
}

func (h *hostile) SetDescription(_ context.Context, id, description string) error {
	return h.modify(id, func(i *eni.Interface) { i.Description = description })
}

func (h *hostile) PutTags(_ context.Context, id string, tags map[string]string) error {
	return h.modify(id, func(i *eni.Interface) { maps.Copy(i.Tags, tags) })
}

func (h *hostile) AssignIPv4(_ context.Context, id string, addresses, prefixes int) (eni.Addresses, error) {
	return h.assign(id, 4, addresses, prefixes)
}

func (h *hostile) ReassignIPv4(_ context.Context, id string, addresses []netip.Addr) error {
	return h.modify(id, func(i *eni.Interface) {
		i.SecondaryIPv4 = i.With(eni.Addresses{SecondaryIPv4: addresses}).SecondaryIPv4
	})
}

func (h *hostile) AssignIPv6(_ context.Context, id string, addresses, prefixes int) (eni.Addresses, error) {
	return h.assign(id, 6, addresses, prefixes)
}

func (h *hostile) assign(id string, family, addresses, prefixes int) (eni.Addresses, error) {
	var added eni.Addresses
	err := h.mutate("assign", id, func(i eni.Interface) (eni.Interface, error) {
		added = h.more(eni.Interface{}, family, addresses, prefixes).Addresses
		i.SecondaryIPv4 = append(i.SecondaryIPv4, added.SecondaryIPv4...)
		i.IPv4Prefixes = append(i.IPv4Prefixes, added.IPv4Prefixes...)
		i.IPv6 = append(i.IPv6, added.IPv6...)
		i.IPv6Prefixes = append(i.IPv6Prefixes, added.IPv6Prefixes...)
		if c := i.Counts(); 1+c.SecondaryIPv4+c.IPv4Prefixes > h.limits.IPv4 || c.IPv6+c.IPv6Prefixes > h.limits.IPv6 {
			return i, refusal(eni.LimitExceeded)
		}
		return i, nil
	})
	return added, err
}

func (h *hostile) UnassignIPv4(ctx context.Context, id string, surplus eni.Addresses) error {
	return h.UnassignIPv6(ctx, id, surplus)
}

func (h *hostile) UnassignIPv6(_ context.Context, id string, surplus eni.Addresses) error {
	return h.modify(id, func(i *eni.Interface) {
		if theirs := surplus.Common(h.foreign[id]).Prefixes(); len(theirs) > 0 {
			h.rt.Fatalf("unassigned %v of %s, which somebody else assigned", theirs, id)
		}
		i.SecondaryIPv4, i.IPv6 = without(i.SecondaryIPv4, surplus.SecondaryIPv4), without(i.IPv6, surplus.IPv6)
		i.IPv4Prefixes, i.IPv6Prefixes = without(i.IPv4Prefixes, surplus.IPv4Prefixes), without(i.IPv6Prefixes, surplus.IPv6Prefixes)
	})
}

func without[T comparable](all, surplus []T) []T {
	return slices.DeleteFunc(all, func(a T) bool { return slices.Contains(surplus, a) })
}

// describeAll describes all interfaces, for a failing test.
func (h *hostile) describeAll() string {
	text := ""
	for _, i := range h.now() {
		slot, status := "-", string(i.Status)
		if i.Attachment != nil {
			slot, status = i.Attachment.Slot.String(), string(i.Attachment.Status)
		}
		text += fmt.Sprintf("%s %s of %s in %s: %s at %s\n", i.ID, cmp.Or(i.Tags[identity.TagInterface], "foreign"),
			i.Tags[identity.TagUID], i.SubnetID, status, slot)
	}
	return text
}
