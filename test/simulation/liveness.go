// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// part is what of a world stays broken.
type part int

const (
	_ part = iota // whole worlds have no broken part
	// brokenInstance refuses every change of an instance's interfaces.
	brokenInstance
	// brokenSubnet never has a free address.
	brokenSubnet
	// brokenGroup may not be used by the controller.
	brokenGroup
	parts
)

// breakage is one broken part of the world.
type breakage struct {
	part part
	id   string
	// salt distinguishes runs of one seed that must differ in their schedules only.
	salt uint64
}

// is reports whether the part of that kind and ID is the broken one.
func (b breakage) is(p part, id string) bool { return b.part == p && b.id == id }

// moment is how much longer the rest may take by its schedule alone: one stale read.
const moment = staleness

// RunPartialFailure judges I14: that the healthy part of a fleet converges in at most twice the time it would need if
// nothing were broken. It makes the run of a seed several times: chaos, healing of everything but one part, and new
// work for all. The time without the broken part is the longer one of two schedules.
func RunPartialFailure(o Options) Result {
	broken := part(1 + o.Seed%uint64(parts-1))
	longest, result := time.Duration(0), Result{}
	for salt := range uint64(2) {
		took, r := o.bear(breakage{salt: salt}, broken)
		if result = r; r.Violation != nil {
			return r
		}
		longest = max(longest, took)
	}
	took, r := o.bear(breakage{part: broken}, broken)
	r.Steps += 2 * result.Steps
	if r.Violation == nil && took > 2*longest+moment {
		r.Violation = &Violation{"I14", "the rest took " + seconds(took) + " with a broken " + broken.String() + ", and " +
			seconds(longest) + " without"}
	}
	return r
}

// String implements [fmt.Stringer].
func (p part) String() string {
	return [parts]string{"nothing", "instance", "subnet", "security group"}[p]
}

// bear makes one run, and returns how long the rest, which the part does not concern, took from the healing until it
// was as desired.
func (o Options) bear(b breakage, concerned part) (took time.Duration, result Result) {
	result = o.play((*run).populate, func(r *run) {
		for r.steps < o.Steps {
			r.faults.bursts()
			r.step()
		}
		r.heal()
		// A process that crashes at a forced detach waits for it again, and the number of crashes is chance, no
		// property of the product.
		r.faults.rate[crashes] = 0
		for _, c := range r.clusters {
			for range 2 {
				c.join()
				c.declare()
				c.relabel()
				c.editNodeENI()
			}
		}
		b.id = r.victim(concerned)
		r.broken = b
		r.random = rand.New(rand.NewPCG(o.Seed, 0x53+b.salt))
		took = r.convergeWithFault(concerned)
	})
	return took, result
}

// convergeWithFault runs until everything that the part does not concern is as desired, and returns how long that took.
func (r *run) convergeWithFault(concerned part) time.Duration {
	begun, within := r.now, settleWithin+r.ahead()+r.longer()
	for n := 0; r.now.Sub(begun) <= within; n++ {
		if n%4 == 0 && r.unconcerned(concerned) == nil {
			return r.now.Sub(begun)
		}
		r.step()
	}
	r.dump()
	r.violate("I14", "%s after all but a %s has been well: %s", seconds(within), r.broken.part,
		r.unconcerned(concerned).Message)
	return 0
}

// victim chooses the part that breaks among those that concern some of the desired interfaces, and not all.
func (r *run) victim(p part) string {
	var candidates []string
	c := r.clusters[0]
	claims := c.claims()
	for _, s := range slices.SortedFunc(maps.Keys(claims), desiredSlot.compare) {
		switch p {
		case brokenInstance:
			candidates = append(candidates, s.instanceID)
		case brokenSubnet:
			candidates = append(candidates, claims[s].subnets...)
		case brokenGroup:
			candidates = append(candidates, claims[s].nodeENI.Spec.SecurityGroupIDs...)
		}
	}
	candidates = slices.DeleteFunc(candidates, func(id string) bool {
		r.broken.id = id
		for s, wanted := range claims {
			if !r.concerns(p, s, wanted) {
				return false
			}
		}
		return true
	})
	if len(candidates) == 0 {
		return ""
	}
	return candidates[r.options.Seed%uint64(len(candidates))]
}

// unconcerned returns the first difference from the desired state that the part does not concern, or nil.
func (r *run) unconcerned(p part) *Violation {
	for _, c := range r.clusters {
		claims := c.claims()
		for _, s := range slices.SortedFunc(maps.Keys(claims), desiredSlot.compare) {
			if r.concerns(p, s, claims[s]) {
				continue
			}
			r.judged("I14")
			if v := c.settledSpot(s, claims[s], c.serving(s)); v != nil {
				return v
			}
		}
	}
	return nil
}

// concerns reports whether the desired interfaces of a claim depend on the broken part.
func (r *run) concerns(p part, s desiredSlot, wanted expectedClaim) bool {
	switch p {
	case brokenInstance:
		return s.instanceID == r.broken.id
	case brokenSubnet:
		return slices.Contains(wanted.subnets, r.broken.id)
	default:
		return slices.Contains(wanted.nodeENI.Spec.SecurityGroupIDs, r.broken.id)
	}
}

// refuses returns the error with which the broken part answers a call, or nil for a call that does not concern it.
func (b breakage) refuses(r *run, q request) error {
	refuse := func(class eni.Class, code string) error {
		return &eni.APIError{Class: class, Operation: q.action, Code: code, Message: "it is broken", Err: errNoAnswer}
	}
	switch {
	case !q.mutates, b.id == "":
		return nil
	case b.part == brokenInstance && (q.create != nil && q.create.Tags[identity.TagInstanceID] == b.id ||
		r.truth().interfaces[q.target].Tags[identity.TagInstanceID] == b.id):
		return refuse(eni.Transient, "InternalError")
	case b.part == brokenSubnet && q.create != nil && q.create.SubnetID == b.id:
		return refuse(eni.NoAddresses, "InsufficientFreeAddressesInSubnet")
	case b.part == brokenGroup && q.create != nil && slices.Contains(q.create.Groups, b.id):
		return refuse(eni.Unauthorized, "UnauthorizedOperation")
	}
	return nil
}
