// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// maxRefusals is how many client tokens in a row EC2 may refuse.
const maxRefusals = 3

// invariantState is what the invariants remember.
type invariantState struct {
	// removable is the last time, with the version of the API server, at which there was a reason to remove an
	// interface.
	removable map[string]reason
	// counts has, by cluster and NodeENI name, the largest numbers of addresses that a user ever declared.
	counts map[string]eni.AddressCounts
	// gone is the same for interfaces that do not exist yet: since or until when a site had a reason to have none.
	gone map[site]reason
	// refused counts how many times in a row EC2 refused a member's client token.
	refused map[string]int
	// identity holds the tags of interfaces before another program spoilt them; copies are interfaces with copied tags,
	// copied those that had the tags; elsewhere are those that another program attached to another instance.
	identity map[string]map[string]string
	// spread are the identities in tags that a person wrote on an interface.
	copies, copied, elsewhere, spread map[string]bool
	// The foreign interfaces by ID, which others created, tagged and attached; hosts are the instances without a Node,
	// by zone.
	strangers map[string]*foreignInterface
	hosts     map[string]string
	// lossSince is since when so many interfaces in use of a cluster have no NodeENI that it counts as a mass loss.
	lossSince map[string]time.Time
	// meddled is when another program last changed an interface, or another one of its claim.
	meddled map[string]time.Time
	// mutations and writes count calls since the quiet period began.
	mutations, writes int
	reconciles        map[string]int
	// probes counts the calls that EC2 refused because there was no free slot or address, per NodeENI and instance.
	probes map[string]int
	// ruined are the slots that EC2 reports as taken although no interface holds them, as after a forced detach, per
	// instance.
	ruined map[string]map[eni.Slot]bool
	spent  budget
	// shaped is the last change of an interface, and of each aspect of it.
	shaped map[string]shaping
	// orphaned is when the NodeENI of an interface ended that was left alone, since only its tags said that it is ours.
	orphaned map[string]time.Time
	// twins are the interfaces that EC2 created for a client token that it forgot, and that of the first request.
	twins map[string]bool
	// seated are the interfaces that have been attached at some time.
	seated map[string]bool
	// moving is since when attachments are in each state of transition.
	moving map[string]time.Time
	// replaced are the interfaces that were detached to be created again.
	replaced map[string]replacement
	// paused is, for each Node or NodeENI that is paused now, the version of the API server at which it was.
	paused map[string]int
	// held are the devices that programs drive, by cluster and interface.
	held map[string]hold
	// used is when blocks of addresses were last used or requested.
	used map[block]time.Time
	// lost is the version of the API server at which a NodeENI disappeared.
	lost map[string]int
	// maker is the process that created an interface, unless the answer was lost.
	maker map[string]string
	// made is when interfaces were created.
	made map[string]time.Time
	// told is when EC2 answered a process' delete call with the error that the interface does not exist.
	told map[string]time.Time
}

// staleness is how long a change by hand can be unknown to a process: reads lag up to a minute, and expectations of the
// process' own calls outlive stale reads.
const staleness = 3 * time.Minute

// reason is when there last was a reason to remove an interface. While it holds, version and at are those of the last
// check.
type reason struct {
	version int
	at      time.Time
	holds   bool
}

// site is a subnet in which a NodeENI may want an interface on an instance.
type site struct {
	desiredSlot
	subnetID string
}

func newWatch() invariantState {
	return invariantState{
		removable: map[string]reason{}, counts: map[string]eni.AddressCounts{}, gone: map[site]reason{},
		ruined: map[string]map[eni.Slot]bool{}, refused: map[string]int{}, identity: map[string]map[string]string{},
		copies: map[string]bool{}, elsewhere: map[string]bool{}, strangers: map[string]*foreignInterface{},
		hosts: map[string]string{}, lossSince: map[string]time.Time{}, meddled: map[string]time.Time{},
		reconciles: map[string]int{}, probes: map[string]int{},
		told: map[string]time.Time{}, made: map[string]time.Time{}, shaped: map[string]shaping{},
		moving: map[string]time.Time{}, seated: map[string]bool{}, twins: map[string]bool{}, copied: map[string]bool{},
		held: map[string]hold{}, used: map[block]time.Time{}, orphaned: map[string]time.Time{},
		spread: map[string]bool{}, replaced: map[string]replacement{}, paused: map[string]int{},
		lost: map[string]int{}, maker: map[string]string{},
	}
}

func (w *invariantState) handled(r *run, i eni.Interface) {
	w.meddled[i.ID], w.meddled[spotOf(i).String()] = r.now, r.now
}

// remember keeps the tags of an interface, for the person who restores them in the end.
func (w *invariantState) remember(i eni.Interface) {
	if w.identity[i.ID] == nil {
		w.identity[i.ID] = i.Tags
	}
}

// tampered reports whether other programs changed an interface's tags or attachment, or created it as a copy.
func (w *invariantState) tampered(id string) bool {
	return w.identity[id] != nil || w.copies[id] || w.elsewhere[id] || w.strangers[id] != nil
}

// changed runs at every change in an API server.
func (r *run) changed(c *cluster, k kind, change change) {
	r.notePauses(c, k, change)
	if k == nodeENIs && change.after != nil {
		r.noteCounts(c, change.after.(*v1alpha1.NodeENI))
		r.noteEviction(c, change.after.(*v1alpha1.NodeENI))
	}
	if k == floatingAddresses && change.before != nil && change.after != nil {
		r.succeeding(change.before.(*v1alpha1.FloatingAddress), change.after.(*v1alpha1.FloatingAddress))
	}
	switch {
	case k == states:
		r.noteHolds(c, change)
		return
	case k == floatingAddresses && change.after == nil:
		r.noteEndOf(change.before.(*v1alpha1.FloatingAddress))
		return
	case k != nodeENIs || change.before == nil:
	case change.after == nil:
		r.watch.lost[c.name+string(change.before.GetUID())] = change.version
		r.finalized(c, change.before)
	default:
		r.edited(c, change.before.(*v1alpha1.NodeENI), change.after.(*v1alpha1.NodeENI))
	}
	r.noteAdoptable()
	r.noteReasons(c)
}

// noteReasons records the interfaces that there is a reason to remove.
func (r *run) noteReasons(c *cluster) {
	for _, i := range r.truth().owned[c.name] {
		switch last := r.watch.removable[i.ID]; {
		case c.removable(i):
			r.watch.removable[i.ID] = reason{version: c.api.version, at: r.now, holds: true}
		case last.holds:
			r.watch.removable[i.ID] = reason{version: c.api.version - 1, at: r.now}
		}
	}
	for site, wanted := range c.sites() {
		switch last := r.watch.gone[site]; {
		case !wanted:
			r.watch.gone[site] = reason{version: c.api.version, at: r.now, holds: true}
		case last.holds:
			r.watch.gone[site] = reason{version: c.api.version - 1, at: r.now}
		}
	}
}

// calling checks a mutating call just before EC2 sees it.
func (r *run) calling(p *process, q request) {
	r.watch.mutations++
	i, exists := r.truth().interfaces[q.target]
	if exists && i.Tags[identity.TagCluster] != p.cluster.name && r.now.Sub(r.watch.meddled[i.ID]) > staleness {
		r.violate("I1", "%s %s %s, which is not of its cluster: %s", p.name, q.action, q.target, describe(i))
	}
	r.holdingStill(p, q)
	r.assigning(p, q)
	r.unassigning(p, q)
	r.unassigningPrefixes(p, q)
	r.moving(p, q)
	if exists {
		r.touching(p, q, i)
		r.keepingLaunched(p, q, i)
	}
	switch {
	case q.create != nil:
		r.creating(p, *q.create)
	case q.action == "AttachNetworkInterface":
		r.judged("I2")
		if exists && i.Tags[identity.TagInstanceID] != q.instance && r.watch.identity[i.ID] == nil {
			r.violate("I1", "%s attaches %s to %s: %s", p.name, q.target, q.instance, describe(i))
		}
		if q.slot == eni.Primary {
			r.violate("I2", "%s attaches %s as primary interface", p.name, q.target)
		}
	case strings.HasPrefix(q.action, "Detach"), q.action == "DeleteNetworkInterface":
		if exists {
			r.removing(p, q, i)
		} else {
			r.checkTokenRetries(p, q)
		}
	}
}

// creating checks that an interface is created with its whole identity, for a NodeENI that exists.
func (r *run) creating(p *process, c executor.CreateRequest) {
	r.judged("I12")
	m, verdict := identity.Read(p.cluster.name, c.Tags)
	if verdict != identity.Owned {
		r.violate("I1", "%s creates an interface without its identity: %v", p.name, c.Tags)
	}
	if c.Tags[identity.TagNoManage] != "true" {
		r.violate("I1", "%s creates an interface that the VPC CNI may take: %v", p.name, c.Tags)
	}
	if c.Token == "" || len(c.Token) > 64 {
		r.violate("I12", "%s creates an interface with the client token %q", p.name, c.Token)
	}
	r.duplicating(p, m, c.SubnetID)
	r.passingOver(p, m, c.SubnetID)
	r.reaching(p, c)
	r.checkUnattachedLimit(p, m)
	if nodeENI := p.cluster.nodeENIOf(string(m.Owner)); nodeENI != nil && !ptr.Deref(nodeENI.Spec.SourceDestCheck, true) {
		r.watch.spent.needed++ // it can only be switched off after the create
	}
	if version, gone := r.watch.lost[p.cluster.name+string(m.Owner)]; gone && version <= p.views[len(p.views)-1] &&
		!p.expired && !p.cluster.isStripped(string(m.Owner)) {
		r.violate("I7", "%s creates an interface for NodeENI %s (%s), which is gone", p.name, m.NodeENI, m.Owner)
	}
}

// duplicating checks I3 before the call: no second interface is created for a member whose interface has existed for
// long, or was created by the same process. One that the product reports as left alone serves no member.
func (r *run) duplicating(p *process, m identity.Member, subnetID string) {
	for _, i := range r.truth().owned[p.cluster.name] {
		s := spotOf(i)
		aged := r.now.Sub(r.watch.made[i.ID]) > staleness // its tag has the time of the decision
		r.judged("I3")
		switch {
		case r.checkDuplicates(p, m, i) && i.SubnetID == subnetID && aged && r.now.Sub(r.watch.meddled[i.ID]) > staleness:
			r.violate("I3", "%s makes another interface for %s[%d] in %s next to %s, which was made for an earlier NodeENI of "+
				"that name: %s", p.name, m.NodeENI, m.Ordinal, subnetID, i.ID, describe(i))
		case s != (desiredSlot{string(m.Owner), m.InstanceID}), i.SubnetID != subnetID, p.cluster.removable(i), p.expired,
			p.cluster.leftAlone(i):
		case i.Tags[identity.TagGeneration] == fmt.Sprint(m.Generation), r.watch.tampered(i.ID),
			r.now.Sub(r.watch.meddled[s.String()]) < 10*time.Minute:
		case aged, r.watch.maker[i.ID] == p.name:
			r.violate("I3", "%s makes another interface for %s[%d] in %s next to %s: %s", p.name, m.NodeENI, m.Ordinal, subnetID,
				i.ID, describe(i))
		}
	}
}

// checkDuplicates reports whether an interface is in use at the member's place, under the name of the member's NodeENI,
// and was created for a NodeENI that was lost.
func (r *run) checkDuplicates(p *process, m identity.Member, i eni.Interface) bool {
	return i.Ready() && i.AttachedTo(m.InstanceID) && i.Tags[identity.TagInstanceID] == m.InstanceID &&
		i.Tags[identity.TagNodeENI] == m.NodeENI &&
		p.cluster.isStripped(spotOf(i).uid) && !r.watch.tampered(i.ID) && !p.expired
}

// removing checks that an interface is only removed for a reason that the process can know.
func (r *run) removing(p *process, q request, i eni.Interface) {
	r.judged("I1")
	c, s := p.cluster, spotOf(i)
	if _, known := identity.CreatedAt(i.Tags); !known && !p.knew(s.uid) && !r.truth().ended(s.instanceID) &&
		c.isStripped(s.uid) && r.now.Sub(r.watch.meddled[i.ID]) > staleness {
		r.violate("I1", "%s %s %s as a leak, although its age is not known: %s", p.name, q.action, q.target, describe(i))
	}
	r.losing(p, q, i)
	r.pulling(p, q, i)
	r.interrupting(p, q, i)
	r.replacing(p, q, i)
	if !r.isWanted(p, q, i) {
		return
	}
	r.violate("I1", "%s %s %s, which is wanted: %s (last removable at version %d, the process has seen all of %d)",
		p.name, q.action, q.target, describe(i), r.watch.removable[i.ID].version, p.views[len(p.views)-1])
}

// isWanted reports whether the process can know no reason to remove an interface.
func (r *run) isWanted(p *process, q request, i eni.Interface) bool {
	s := spotOf(i)
	if r.mayGo(p.cluster, q, i) || p.ignores(s) {
		return false
	}
	last, ever := r.watch.removable[i.ID]
	if before, known := r.watch.gone[site{s, i.SubnetID}]; known && before.version > last.version {
		last, ever = before, true // the process may have learned of it only after it created the interface
	}
	seen := p.views[len(p.views)-1]
	return !ever || last.version < seen && r.now.Sub(last.at) >= 2*time.Minute
}

// mayGo reports whether an interface may be removed regardless of what the process knows about it.
func (r *run) mayGo(c *cluster, q request, i eni.Interface) bool {
	return strings.HasPrefix(q.action, "Detach") && r.isStuck(q, i) || c.removable(i) || r.watch.copies[i.ID] ||
		r.now.Sub(r.watch.meddled[spotOf(i).String()]) < 10*time.Minute
}

// knew reports whether the process had not received the end of a NodeENI when it began its work, with a read of all
// NodeENIs: it does not regard the interfaces as leaks. The end can arrive before the last call of that work.
func (p *process) knew(nodeENIUID string) bool {
	received := p.cluster.api.log[nodeENIs][:p.starts[len(p.starts)-1]]
	return !slices.ContainsFunc(received, func(c change) bool {
		return c.after == nil && string(c.before.GetUID()) == nodeENIUID
	})
}

// checkTokenRetries checks I8 for deletions: a process does not delete an interface again after EC2 answered that it
// does not exist, unless it may be too young to be visible.
func (r *run) checkTokenRetries(p *process, q request) {
	if told, ever := r.watch.told[p.name+q.target]; ever && q.action == "DeleteNetworkInterface" &&
		r.now.Sub(told) < staleness {
		r.violate("I8", "%s %s %s again, %s after EC2 said that it does not exist", p.name, q.action, q.target,
			seconds(r.now.Sub(told)))
	}
}

// answered runs at every answer to a mutating call that reached its process.
func (r *run) answered(p *process, q request, err error) {
	r.moved(p, q, err)
	if q.create != nil {
		r.spent(p, *q.create, err)
	}
	refused := (*ec2.Error)(nil)
	if q.action != "DeleteNetworkInterface" || !errors.As(err, &refused) || !strings.HasSuffix(refused.Code, ".NotFound") {
		return
	}
	if _, exists := r.truth().interfaces[q.target]; !exists && !p.observer.RecentlyCreated(p.now(), q.target) {
		r.watch.told[p.name+q.target] = r.now
	}
}

// called runs at every call that reached EC2.
func (r *run) called(p *process, q request, err error) {
	r.covers.Calls[q.action]++
	if !q.mutates {
		if err != nil {
			r.note(p, "%s: %v", q.action, err)
		}
		return
	}
	r.note(p, "%s %s %s: %v", q.action, q.target, detail(q), err)
	r.watch.spent.spend(q, err)
	r.probed(p, q, err)
	if q.create != nil && err == nil {
		r.noteReasons(p.cluster) // there may have been one before the interface was created
		if !r.faults.off && r.chance(0.1) {
			p.resyncAt = r.now // a resync right after a create is the most likely to be stale
		}
	}
	r.check()
}

// spent checks I12: a member does not retry again and again with a client token that EC2 refuses.
func (r *run) spent(p *process, c executor.CreateRequest, err error) {
	m, _ := identity.Read(p.cluster.name, c.Tags)
	key := fmt.Sprintf("%s/%s/%s/%d", p.name, m.Owner, m.InstanceID, m.Ordinal)
	if refused := (*ec2.Error)(nil); !errors.As(err, &refused) || refused.Code != "IdempotentParameterMismatch" {
		delete(r.watch.refused, key)
		return
	}
	if r.watch.refused[key]++; r.watch.refused[key] > maxRefusals {
		r.violate("I12", "%s has used client tokens that EC2 refuses %d times in a row for %s[%d] on %s", p.name,
			r.watch.refused[key], m.NodeENI, m.Ordinal, m.InstanceID)
	}
}

// isHeldElsewhere reports whether EC2 refuses an address because a prefix of another interface has it. A controller
// whose pod brought the address up asks again with backoff, because the other interface may return it.
func isHeldElsewhere(refused *ec2.Error) bool {
	return strings.Contains(refused.Message, "move is not allowed")
}

// probed distinguishes calls that only test for free capacity from those that change something. A few such tests are
// allowed.
func (r *run) probed(p *process, q request, err error) {
	refused := (*ec2.Error)(nil)
	if !errors.As(err, &refused) {
		return
	}
	class := awsec2.Classify(refused.Code, refused.Message, refused.Status)
	switch {
	case q.create != nil && (plan.IsFull(class) || class == eni.LimitExceeded):
		m, _ := identity.Read(p.cluster.name, q.create.Tags)
		r.watch.probes[fmt.Sprintf("%s on %s", m.NodeENI, m.InstanceID)]++
	case q.action == "AssignPrivateIpAddresses" && (plan.IsFull(class) || isHeldElsewhere(refused)):
		m, _ := identity.Read(p.cluster.name, r.truth().interfaces[q.target].Tags)
		r.watch.probes[fmt.Sprintf("%s on %s", m.NodeENI, m.InstanceID)]++
	case q.action == "AttachNetworkInterface" && class == eni.SlotTaken && r.truth().holder(q.instance, q.slot) == "":
		if r.watch.ruined[q.instance] == nil {
			r.watch.ruined[q.instance] = map[eni.Slot]bool{}
		}
		r.watch.ruined[q.instance][q.slot] = true
		m, _ := identity.Read(p.cluster.name, r.truth().interfaces[q.target].Tags)
		r.watch.probes[fmt.Sprintf("%s on %s", m.NodeENI, m.InstanceID)]++
	default:
		return
	}
	r.watch.mutations--
	r.watch.spent.calls--
}

// wrote runs at every write that reached an API server.
func (r *run) wrote(p *process, verb string, k kind, name string, err error) {
	r.watch.writes++
	r.covers.Calls[verb+" "+k.String()]++
	r.note(p, "%s %s %s: %v", verb, k, name, err)
}

// check checks the invariants against the true state of EC2 at this moment.
func (r *run) check() {
	t := r.truth()
	if t.checked {
		return
	}
	t.checked = true
	r.noteLaunches()
	r.noteUse()
	for _, c := range r.clusters {
		r.checkCluster(t.owned[c.name])
		r.noteLoss(c, t.owned[c.name])
	}
	r.noteMoves()
	r.noteSuccessors()
	r.noteBelief()
}

func (r *run) checkCluster(owned []eni.Interface) {
	type generation struct {
		desiredSlot
		member, generation string
	}
	once := map[generation]string{}
	for _, i := range owned {
		if r.watch.made[i.ID].IsZero() {
			r.watch.made[i.ID] = r.now
		}
		if r.watch.tampered(i.ID) {
			continue
		}
		s := spotOf(i)
		g := generation{s, i.Tags[identity.TagMember], i.Tags[identity.TagGeneration]}
		if first, twice := once[g]; twice {
			if !r.faults.has(forgottenTokens) {
				r.violate("I3", "%s and %s are of one generation: %s", first, i.ID, describe(i))
			}
			r.watch.twins[first], r.watch.twins[i.ID] = true, true
		}
		once[g] = i.ID
		if i.Attachment != nil && i.Attachment.InstanceID != s.instanceID {
			r.violate("I2", "%s is at the wrong instance: %s", i.ID, describe(i))
		}
	}
}

func describe(i eni.Interface) string {
	m, _ := identity.Read(i.Tags[identity.TagCluster], i.Tags)
	at := "attached to nothing"
	if i.Attachment != nil {
		at = fmt.Sprintf("%s at %s %s, delete on termination %t", i.Attachment.Status, i.Attachment.InstanceID,
			i.Attachment.Slot, i.Attachment.DeleteOnTermination)
	}
	return fmt.Sprintf("%s[%d] generation %d of node %s %s in %s, %s, %s", m.NodeENI, m.Ordinal, m.Generation, m.Node,
		m.InstanceID, i.SubnetID, i.Status, at)
}

func detail(q request) string {
	switch {
	case q.create != nil:
		m, _ := identity.Read(q.create.Tags[identity.TagCluster], q.create.Tags)
		return fmt.Sprintf("in %s for %s[%d] generation %d on %s", q.create.SubnetID, m.NodeENI, m.Ordinal,
			m.Generation, m.InstanceID)
	case q.instance != "":
		return fmt.Sprintf("to %s %s", q.instance, q.slot)
	case len(q.unassigns.IPv4Prefixes) > 0:
		return fmt.Sprint(q.unassigns.IPv4Prefixes)
	default:
		return q.attachment
	}
}
