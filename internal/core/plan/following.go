// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/text"
)

// MoveInterval is the least time between two moves of one address, and between two changes of the addresses on one
// instance that follow pods. Without it, pods that compete for an address, or a pod that takes one new address after
// another, would use up EC2's request rate: each change needs a read of the instance.
const MoveInterval = 2 * time.Second

// MaxContenders is the largest number of pods that a message lists in addition to the holder of an address.
const MaxContenders = 3

// AddressClaim is an address that a pod brought up itself on a link of an interface, as the agent of the node reports
// it.
type AddressClaim struct {
	Address     netip.Addr
	InterfaceID string
	Node        string
	// Sequence is larger than that of every earlier claim of the node.
	Sequence int64
	// Since is the time of the claim on the node's clock.
	Since time.Time
	// Released is set if the pod no longer has the address.
	Released bool
	// Pod names the pod: NAMESPACE/NAME, or its IP address; empty if neither is known.
	Pod string
}

// String names the claim for messages.
func (c AddressClaim) String() string {
	return fmt.Sprintf("%s on node %s", cmp.Or(c.Pod, "a pod"), c.Node)
}

// Following is what the addresses of one interface follow: the claims of pods.
type Following struct {
	// Ranges are the ranges in which addresses follow pods.
	Ranges []netip.Prefix
	// Held are the addresses that the interface must have.
	Held []HeldAddress
	// Contended are the addresses that pods on several interfaces have at the same time.
	Contended []ContendedAddress
	// RequeueAt is the time at which a recently moved address may move again; zero if no address waits.
	RequeueAt time.Time
}

// HeldAddress is an address that an interface must have.
type HeldAddress struct {
	Address netip.Addr
	// Sequence is that of the claim. A later claim on the same address is another change.
	Sequence int64
	// Others are the interfaces with other claims on the address. EC2 moves the address from the one that has it.
	Others []string
}

// ContendedAddress is an address with several claims at the same time.
type ContendedAddress struct {
	Address netip.Addr
	Holder  AddressClaim
	Others  []AddressClaim
}

// follows reports whether an address of the interface follows pods, now or because of an earlier claim.
func (d addressDemand) follows(address netip.Addr) bool {
	return d.isClaimed(address) || slices.ContainsFunc(d.following.Ranges, func(r netip.Prefix) bool {
		return r.Contains(address)
	})
}

// isClaimed reports whether a pod of the node has the address, or had it shortly before.
func (d addressDemand) isClaimed(address netip.Addr) bool {
	return d.network != nil && slices.ContainsFunc(d.network.Claims, func(c AddressClaim) bool {
		return c.Address == address
	})
}

// abandoned returns the addresses that follow pods and that no pod of the node has any more. Without a complete report
// it returns none.
func (d addressDemand) abandoned(ours []netip.Addr) []netip.Addr {
	if d.network != nil && (d.network.Unreported || d.network.ClaimsOmitted > 0) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ours), func(a netip.Addr) bool { return !d.follows(a) || d.isClaimed(a) })
}

// moves returns the changes that assign the held addresses that the interface lacks, as many as its limit allows. The
// oldest claims come first, so that a new one takes nothing from the pods of the same node. One call assigns all,
// unless EC2 refused one before: it refuses all addresses of a call because of a single one.
func (d addressDemand) moves(have eni.Addresses) []Attribute {
	if !d.movesFrom.IsZero() {
		return nil
	}
	held, room, requested := d.missing(have), d.room(have), have.Common(d.requested)
	held = held[:min(len(held), room)]
	if !d.separately {
		return []Attribute{ReassignAddresses{Held: held, Requested: requested}}
	}
	var each []Attribute
	for _, one := range held {
		each = append(each, ReassignAddresses{Held: []HeldAddress{one}, Requested: requested})
	}
	return each
}

// fieldOfMoves is the field of a change that assigns several addresses of pods; see [FieldOf].
const fieldOfMoves = "addresses of pods"

// missing returns the held addresses that an interface lacks, the oldest claims first. EC2 delivers the addresses of a
// prefix already, and refuses to assign one of them.
func (d addressDemand) missing(have eni.Addresses) []HeldAddress {
	held := slices.DeleteFunc(slices.Clone(d.following.Held), func(h HeldAddress) bool {
		return slices.ContainsFunc(have.Prefixes(), func(p netip.Prefix) bool { return p.Contains(h.Address) })
	})
	slices.SortFunc(held, func(a, b HeldAddress) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return held
}

// room returns how many further IPv4 addresses the instance type allows on the interface.
func (d addressDemand) room(have eni.Addresses) int {
	if d.addressLimit == 0 {
		return len(d.following.Held)
	}
	return max(0, d.addressLimit-1-len(have.SecondaryIPv4)-len(have.IPv4Prefixes))
}

// explainFollowing says which addresses of pods the interface cannot get, or loses to other interfaces.
func (s step) explainFollowing(d addressDemand) step {
	if !d.following.RequeueAt.IsZero() {
		s = s.requeue(d.following.RequeueAt)
	}
	if s.Interface == nil || s.Phase != Attached {
		return s
	}
	if have := s.Interface.Addresses; !d.movesFrom.IsZero() &&
		len(d.missing(have))+len(d.abandoned(have.Common(d.requested).SecondaryIPv4)) > 0 {
		s = s.requeue(d.movesFrom)
	}
	if s.Why.Reason != "" {
		return s
	}
	if missing, room := d.missing(s.Interface.Addresses), d.room(s.Interface.Addresses); len(missing) > room {
		s.Why = Problem{AddressesLimited, fmt.Sprintf(
			"pods brought up %d addresses that %s lacks, but its instance type %s allows only %d more; it does not get %s: "+
				"move pods to other nodes, or use a larger instance type",
			len(missing), s.Interface.ID, d.instanceType, room, missing[len(missing)-1].Address)}
		return s
	}
	if len(d.following.Contended) > 0 {
		s.Why = Problem{Contended, d.following.Contended[0].message()}
	}
	return s
}

func isMove(a Attribute) bool {
	_, is := a.(ReassignAddresses)
	return is
}

// explainRefusedMove says which pod brought up the addresses that EC2 refuses to assign, unless the interface has
// another problem.
func (p *planner) explainRefusedMove(s step, i eni.Interface, refused ReassignAddresses) step {
	if s.Why.Reason != "" {
		return s
	}
	by := "a pod"
	if network := p.podNetwork(i.ID); network != nil {
		at := slices.IndexFunc(network.Claims, func(c AddressClaim) bool {
			return slices.Contains(refused.Addresses(), c.Address)
		})
		if at >= 0 {
			claim := network.Claims[at]
			if claim.Pod != "" {
				claim.Pod = "the pod with IP address " + claim.Pod
			}
			by = claim.String()
		}
	}
	failure := p.Backoffs[s.m.Key].Updates[FieldOf(refused)]
	s.Why = Problem{AddressRefused, fmt.Sprintf(
		"EC2 does not assign %s to %s, and %s brought up such an address: %s; remove the address from the pod, or correct "+
			"pods.floating; it is tried again at least every %s", refused, i.ID, by, failure.Message,
		minutes(backoffDelays[failure.Class].last))}
	return s
}

func (c ContendedAddress) message() string {
	var others []string
	for _, other := range c.Others[:min(len(c.Others), MaxContenders)] {
		others = append(others, other.String())
	}
	if more := len(c.Others) - len(others); more > 0 {
		others = append(others, text.Count(more, "further pod"))
	}
	return fmt.Sprintf("%s has address %s, and so has %s; the interface of node %s has it, and it moves at most every "+
		"%s; remove the address from all pods but one", c.Holder, c.Address, strings.Join(others, ", and "),
		c.Holder.Node, MoveInterval)
}

// MovesAddresses reports whether one of the actions moves or unassigns addresses that can follow pods.
func MovesAddresses(actions []Action) bool {
	return slices.ContainsFunc(actions, func(action Action) bool {
		change, is := action.(Change)
		if !is {
			return false
		}
		switch to := change.To.(type) {
		case ReassignAddresses:
			return true
		case UnassignAddresses:
			return len(to.Surplus.SecondaryIPv4) > 0
		default:
			return false
		}
	})
}

// ReassignAddresses assigns named addresses to an interface. EC2 moves them from the interfaces that have them.
type ReassignAddresses struct {
	Held []HeldAddress
	// Requested are the addresses of the interface that multieni requested before.
	Requested eni.Addresses
}

// Addresses returns the addresses.
func (r ReassignAddresses) Addresses() []netip.Addr {
	addresses := make([]netip.Addr, len(r.Held))
	for n, held := range r.Held {
		addresses[n] = held.Address
	}
	return addresses
}

// Apply implements [Attribute].
func (r ReassignAddresses) Apply(i eni.Interface) eni.Interface {
	for _, address := range r.Addresses() {
		if !slices.Contains(i.SecondaryIPv4, address) {
			i.SecondaryIPv4 = append(slices.Clone(i.SecondaryIPv4), address)
		}
	}
	return i
}

// IsSatisfiedBy implements [Attribute].
func (r ReassignAddresses) IsSatisfiedBy(i eni.Interface) bool {
	return !slices.ContainsFunc(r.Addresses(), func(a netip.Addr) bool { return !slices.Contains(i.SecondaryIPv4, a) })
}

func (r ReassignAddresses) String() string {
	texts := make([]string, len(r.Held))
	for n, held := range r.Held {
		texts[n] = held.Address.String()
	}
	return "addresses of pods " + strings.Join(texts, ",")
}

// isRepeatedBy reports whether another change moves the same addresses for the same claims.
func (r ReassignAddresses) isRepeatedBy(other Attribute) bool {
	again, is := other.(ReassignAddresses)
	return is && slices.EqualFunc(r.Held, again.Held, func(a, b HeldAddress) bool {
		return a.Address == b.Address && a.Sequence == b.Sequence
	})
}
