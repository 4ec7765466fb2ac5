// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	// removable is the last time, with the version of the API server, at which there was a reason to delete an object.
	removable map[types.UID]reason
	// counts has, by cluster and NodeENI name, the largest numbers of addresses that a user ever declared.
	counts map[string]eni.AddressCounts
	// refused counts how many times in a row EC2 refused a member's client token.
	refused map[string]int
	// identity holds the tags of interfaces before another program spoilt them; copies are interfaces with copied tags;
	// elsewhere are those that another program attached to another instance.
	identity map[string]map[string]string
	// spread are the identities in tags that a person wrote on an interface.
	copies, elsewhere, spread map[string]bool
	// The foreign interfaces by ID, which others created, tagged and attached; hosts are the instances without a Node,
	// by zone.
	strangers map[string]*foreignInterface
	hosts     map[string]string
	// meddled is when another program last changed an interface, or another one of its claim.
	meddled map[string]time.Time
	// mutations and writes count calls since the quiet period began.
	mutations, writes int
	reconciles        map[string]int
	// quietUntil is the end of the quiet period; zero before it.
	quietUntil time.Time
	// probes counts the calls that EC2 refused because there was no free slot or address, per NodeENI and instance.
	probes map[string]int
	// ruined are the slots that EC2 reports as taken although no interface holds them, as after a forced detach, per
	// instance.
	ruined map[string]map[eni.Slot]bool
	spent  budget
	// shaped is the last change of an interface, and of each aspect of it.
	shaped map[string]shaping
	// final is when the object of an interface was seen as final last, and torn when an interface lost its object other
	// than by the controller's order: its finalizer was stripped, etcd was restored, or the controller let it go.
	final, torn map[string]time.Time
	// endedAt is when an object ended, by its UID.
	endedAt map[types.UID]time.Time
	// existed are the UIDs of all objects that ever existed, with their clusters. mismatched are those whose client token
	// EC2 refused for other parameters.
	existed    map[types.UID]string
	mismatched map[types.UID]bool
	// returned is when a restored etcd brought objects back.
	returned map[types.UID]time.Time
	// twins are the interfaces that EC2 created for a client token that it forgot, and that of the first request.
	twins map[string]bool
	// seated are the interfaces that have been attached at some time.
	seated map[string]bool
	// moving is since when attachments are in each state of transition.
	moving map[string]time.Time
	// replaced are the interfaces that were detached to be created again.
	replaced map[string]replacement
	// rolled are the objects that a process deleted to replace their interfaces.
	rolled map[types.UID]replacement
	// turned is the maxUnavailable with which an object got its turn, by its UID.
	turned map[string]int
	// paused is, for each Node or NodeENI that is paused now, the version of the API server at which it was.
	paused map[string]int
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

func newWatch() invariantState {
	return invariantState{
		removable: map[types.UID]reason{}, counts: map[string]eni.AddressCounts{},
		ruined: map[string]map[eni.Slot]bool{}, refused: map[string]int{}, identity: map[string]map[string]string{},
		copies: map[string]bool{}, elsewhere: map[string]bool{}, strangers: map[string]*foreignInterface{},
		hosts: map[string]string{}, meddled: map[string]time.Time{},
		reconciles: map[string]int{}, probes: map[string]int{},
		told: map[string]time.Time{}, made: map[string]time.Time{}, shaped: map[string]shaping{},
		moving: map[string]time.Time{}, seated: map[string]bool{}, twins: map[string]bool{},
		used: map[block]time.Time{}, final: map[string]time.Time{}, torn: map[string]time.Time{},
		endedAt: map[types.UID]time.Time{}, existed: map[types.UID]string{}, mismatched: map[types.UID]bool{},
		returned: map[types.UID]time.Time{}, spread: map[string]bool{}, replaced: map[string]replacement{},
		rolled: map[types.UID]replacement{}, turned: map[string]int{}, paused: map[string]int{},
		lost: map[string]int{}, maker: map[string]string{},
	}
}

func (w *invariantState) handled(r *run, i eni.Interface) {
	w.meddled[i.ID], w.meddled[r.spotOf(i).String()] = r.now, r.now
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
	case k == netInterfaces:
		r.noteObject(c, change)
	case k == floatingAddresses && change.after == nil:
		delete(r.followers.arrived, c.name+" "+change.name()) // agents that restart do not know the order any more
		r.noteEndOf(change.before.(*v1alpha1.FloatingAddress))
		return
	case k != nodeENIs || change.before == nil:
	case change.after == nil:
		r.watch.lost[c.name+string(change.before.GetUID())] = change.version
		c.lostAt[change.before.GetName()] = r.now
		r.finalized(c, change.before)
	default:
		r.edited(c, change.before.(*v1alpha1.NodeENI), change.after.(*v1alpha1.NodeENI))
	}
	if k != netInterfaces {
		r.noteAdoptable()
	}
	r.noteReasons(c)
}

// noteReasons records the objects that there is a reason to delete.
func (r *run) noteReasons(c *cluster) {
	for _, n := range c.api.interfaces() {
		switch last := r.watch.removable[n.UID]; {
		case c.removable(n):
			r.watch.removable[n.UID] = reason{version: c.api.version, at: r.now, holds: true}
		case last.holds:
			r.watch.removable[n.UID] = reason{version: c.api.version - 1, at: r.now}
		}
	}
}

// calling checks a mutating call just before EC2 sees it.
func (r *run) calling(p *process, q request) {
	r.watch.mutations++
	i, exists := r.truth().interfaces[q.target]
	if exists && i.Tags[identity.TagCluster] != p.cluster.name && r.now.Sub(r.watch.meddled[i.ID]) > staleness {
		r.violate("I1", "%s %s %s, which is not of its cluster: %s", p.name, q.action, q.target, r.describe(i))
	}
	r.holdingStill(p, q)
	r.assigning(p, q)
	r.unassigning(p, q)
	r.unassigningPrefixes(p, q)
	r.moving(p, q)
	if exists {
		r.touching(p, q, i)
		r.keepingLaunched(p, q, i)
		r.keepingGranted(p, q, i)
	}
	switch {
	case q.create != nil:
		r.creating(p, *q.create)
	case q.action == "AttachNetworkInterface":
		r.judged("I2")
		if exists && r.spotOf(i).instanceID != q.instance && r.watch.identity[i.ID] == nil {
			r.violate("I1", "%s attaches %s to %s: %s", p.name, q.target, q.instance, r.describe(i))
		}
		if q.slot == eni.Primary {
			r.violate("I2", "%s attaches %s as primary interface", p.name, q.target)
		}
	case strings.HasPrefix(q.action, "Detach"), q.action == "DeleteNetworkInterface":
		if exists {
			r.removing(p, q, i)
		} else {
			r.checkDeleteRetries(p, q)
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
	if r.watch.existed[types.UID(c.Token)] == "" || string(m.UID) != c.Token {
		r.violate("I12", "%s creates an interface with the client token %q for the object %s (%s)", p.name, c.Token, m.Name,
			m.UID)
	}
	r.duplicating(p, m, c.SubnetID)
	r.passingOver(p, m, c.SubnetID)
	r.reaching(p, c)
	r.checkUnattachedLimit(p, m)
	nodeENI := p.cluster.nodeENINamed(m.NodeENI)
	if nodeENI != nil && !ptr.Deref(nodeENI.Spec.SourceDestCheck, true) {
		r.watch.spent.needed++ // it can only be switched off after the create
	}
	r.creatingForNothing(p, m)
}

// creatingForNothing checks I7 before a create: its object exists, or the process may not know that it does not.
func (r *run) creatingForNothing(p *process, m identity.Interface) {
	n := p.cluster.api.interfaceWith(types.UID(m.UID))
	if n != nil || p.expired {
		return
	}
	r.judged("I7")
	if gone := p.cluster.goneAt(types.UID(m.UID)); gone > 0 && gone <= p.views[len(p.views)-1] {
		r.violate("I7", "%s creates an interface for object %s (%s), which is gone", p.name, m.Name, m.UID)
	}
}

// goneAt returns the version at which an object ended last, since a restored etcd can bring one back; 0 if none did.
func (c *cluster) goneAt(uid types.UID) (version int) {
	for _, change := range c.api.log[netInterfaces] {
		if change.after == nil && change.before.GetUID() == uid {
			version = change.version
		}
	}
	return version
}

// duplicating checks I3 before the call: no interface is created next to one with the name of the object in its tag,
// which the object must take over, once reads show it. An interface that another object records is that object's.
func (r *run) duplicating(p *process, m identity.Interface, subnetID string) {
	if p.cluster.repeats(m) { // EC2 makes no further one
		return
	}
	for _, i := range r.truth().owned[p.cluster.name] {
		r.judged("I3")
		_, recorded := r.objectOf(i)
		aged := r.now.Sub(r.watch.made[i.ID]) > staleness // its tag has the time of the decision
		switch {
		case i.Tags[identity.TagInterface] != m.Name, i.SubnetID != subnetID, recorded != nil, p.expired:
		case i.Tags[identity.TagUID] == string(m.UID): // EC2 answers the token with this one
		case !i.AttachedTo(m.InstanceID):
		case r.watch.tampered(i.ID), r.now.Sub(r.watch.meddled[r.spotOf(i).String()]) < 10*time.Minute:
		case r.now.Sub(r.watch.torn[i.ID]) <= staleness,
			i.Attachment != nil && i.Attachment.Status == eni.AttachmentDetaching:
		case aged, r.watch.maker[i.ID] == p.name:
			r.violate("I3", "%s makes another interface for %s in %s next to %s: %s", p.name, m.Name, subnetID, i.ID,
				r.describe(i))
		}
	}
}

// checkDeleteRetries checks I8 for deletions: a process does not delete an interface again after EC2 answered that it
// does not exist, unless it may be too young to be visible.
func (r *run) checkDeleteRetries(p *process, q request) {
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

// spent checks I12: an object does not retry again and again with a client token that EC2 refuses.
func (r *run) spent(p *process, c executor.CreateRequest, err error) {
	key := p.name + "/" + c.Token
	if refused := (*ec2.Error)(nil); !errors.As(err, &refused) || refused.Code != "IdempotentParameterMismatch" {
		delete(r.watch.refused, key)
		return
	}
	r.watch.mismatched[types.UID(c.Token)] = true
	if r.watch.refused[key]++; r.watch.refused[key] > maxRefusals {
		r.violate("I12", "%s has used a client token that EC2 refuses %d times in a row for %s", p.name, r.watch.refused[key],
			c.Tags[identity.TagInterface])
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
		r.watch.probes[desiredSlot{m.NodeENI, m.InstanceID}.String()]++
	case q.action == "AssignPrivateIpAddresses" && (plan.IsFull(class) || isHeldElsewhere(refused)):
		r.watch.probes[r.spotOf(r.truth().interfaces[q.target]).String()]++
	case q.action == "AttachNetworkInterface" && class == eni.SlotTaken && r.truth().holder(q.instance, q.slot) == "":
		if r.watch.ruined[q.instance] == nil {
			r.watch.ruined[q.instance] = map[eni.Slot]bool{}
		}
		r.watch.ruined[q.instance][q.slot] = true
		r.watch.probes[r.spotOf(r.truth().interfaces[q.target]).String()]++
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
		c.checkInterfaces(t.owned[c.name])
		c.checkObjects()
	}
	r.noteMoves()
	r.noteSuccessors()
	r.noteBelief()
}

// checkInterfaces checks I3, I2 and I23 for the interfaces of a cluster: one for each UID, at the instance of its
// object, and none without an object but those that lost it.
func (c *cluster) checkInterfaces(owned []eni.Interface) {
	r, once := c.run, map[string]string{}
	for _, i := range owned {
		if r.watch.made[i.ID].IsZero() {
			r.watch.made[i.ID] = r.now
		}
		moved := r.watch.elsewhere[i.ID] && r.faults.has(forgottenTokens)
		if r.watch.tampered(i.ID) && !moved {
			continue
		}
		uid := i.Tags[identity.TagUID]
		if first, twice := once[uid]; twice {
			if !r.faults.has(forgottenTokens) {
				r.violate("I3", "%s and %s are of one object: %s", first, i.ID, r.describe(i))
			}
			r.watch.twins[first], r.watch.twins[i.ID] = true, true
		}
		once[uid] = i.ID
		if moved {
			continue
		}
		if s := r.spotOf(i); i.Attachment != nil && i.Attachment.InstanceID != s.instanceID {
			r.violate("I2", "%s is at the wrong instance: %s", i.ID, r.describe(i))
		}
		c.checkOwner(i)
	}
}

func (r *run) describe(i eni.Interface) string {
	at := "attached to nothing"
	if i.Attachment != nil {
		at = fmt.Sprintf("%s at %s %s, delete on termination %t", i.Attachment.Status, i.Attachment.InstanceID,
			i.Attachment.Slot, i.Attachment.DeleteOnTermination)
	}
	of := "no object records it"
	if _, n := r.objectOf(i); n != nil {
		of = "recorded by " + objectDigest(n)
	}
	return fmt.Sprintf("%s (%s) of node %s in %s, %s, %s, %s", i.Tags[identity.TagInterface], i.Tags[identity.TagUID],
		i.Tags[identity.TagNode], i.SubnetID, i.Status, at, of)
}

// objectDigest summarizes an object for messages.
func objectDigest(n *v1alpha1.NetworkInterface) string {
	words := fmt.Appendf(nil, "%s (%s) of NodeENI %s %s", n.Name, n.UID, n.Spec.NodeENI.Name, interfaceDigest(n))
	if !n.DeletionTimestamp.IsZero() {
		words = fmt.Appendf(words, ", being deleted")
	}
	switch {
	case n.Status.Node == nil:
		words = fmt.Appendf(words, ", no agent answered")
	case n.Status.Node.Open:
		words = fmt.Appendf(words, ", open")
	}
	return string(words)
}

func detail(q request) string {
	switch {
	case q.create != nil:
		return fmt.Sprintf("in %s for %s (%s)", q.create.SubnetID, q.create.Tags[identity.TagInterface], q.create.Token)
	case q.instance != "":
		return fmt.Sprintf("to %s %s", q.instance, q.slot)
	case len(q.unassigns.IPv4Prefixes) > 0:
		return fmt.Sprint(q.unassigns.IPv4Prefixes)
	default:
		return q.attachment
	}
}
