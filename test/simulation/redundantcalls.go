// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// budget counts the changes of interfaces that a run may cost.
type budget struct {
	// calls are the changing calls that reached EC2, without those that only test for free capacity; made and removed
	// are the interfaces that these calls created and deleted.
	calls, made, removed int
	// adjusting are the calls that change attributes of an interface; needed is how many of these are explained by
	// users and creations.
	adjusting, needed int
	// editedAt is when a user last edited the NodeENI of a name, by cluster.
	editedAt map[string]time.Time
}

// shaping is when an attribute last changed in EC2, and the process that changed it and got the answer. The name is
// empty if another program changed it, or if the answer was lost.
type shaping struct {
	by string
	at time.Time
}

// adjusts reports whether a call changes attributes of an interface.
func (q request) adjusts() bool {
	return strings.HasPrefix(q.action, "Modify") || q.action == "CreateTags"
}

// aspect names the attribute of an interface that an action changes. Deletion on termination belongs to the attachment,
// so a new one has its own.
func aspect(id, action string) string {
	if action == "AttachNetworkInterface" {
		action = "ModifyDeleteOnTermination"
	}
	return id + " " + action
}

// shaped checks I8 for attributes after a call has reached EC2: no call leaves its interface as it was, unless the
// process cannot know that.
func (r *run) shaped(p *process, q request, before eni.Interface, err error) {
	after := r.truth().interfaces[q.target]
	if q.create != nil && err == nil {
		r.watch.maker[q.made.ID] = p.name
		r.createdAfterEdit(q)
	}
	switch changed := !reflect.DeepEqual(attributesOf(before), attributesOf(after)); {
	case err != nil || !q.adjusts() && q.action != "AttachNetworkInterface":
	case changed:
		r.watch.shaped[aspect(q.target, q.action)] = shaping{at: r.now}
		if q.adjusts() {
			r.watch.spent.adjusting++
		} else {
			r.watch.spent.needed++ // deletion on termination can only be set after the attach
		}
	default:
		r.checkRedundantCalls(p, q, after)
	}
}

func (r *run) checkRedundantCalls(p *process, q request, i eni.Interface) {
	last, known := r.watch.shaped[aspect(q.target, q.action)]
	if !known {
		if last, known = r.watch.shaped[q.target]; !known {
			last.at = r.watch.made[q.target]
		}
	}
	r.judged("I8")
	// The end of an instance undoes the effects of calls, so a process that reads it drops the expectations of its own
	// calls.
	excused := p.earlier || r.truth().ended(r.spotOf(i).instanceID) || r.watch.tampered(i.ID) ||
		r.now.Sub(r.watch.meddled[i.ID]) <= staleness
	if since := r.now.Sub(last.at); !excused && (last.by == p.name || since > staleness) {
		r.violate("I8", "%s %s %s, which has been as that asks for %s: %s", p.name, q.action, q.target,
			seconds(since), r.describe(i))
	}
}

// learned records that a process knows the result of its call.
func (r *run) learned(p *process, q request, at time.Time, err error) {
	if err != nil {
		return
	}
	if q.create != nil {
		r.watch.shaped[q.made.ID] = shaping{p.name, r.now}
		return
	}
	if last, known := r.watch.shaped[aspect(q.target, q.action)]; known && last.at.Equal(at) {
		r.watch.shaped[aspect(q.target, q.action)] = shaping{p.name, last.at}
	}
}

// attributesOf is an interface without its state, which EC2 changes by itself.
func attributesOf(i eni.Interface) eni.Interface {
	i.Status = ""
	if i.Attachment != nil {
		a := *i.Attachment
		a.Status = ""
		i.Attachment = &a
	}
	return i
}

// edited counts the calls that an edit of a NodeENI explains: for each of its interfaces one for each attribute, and
// one more where addresses are unassigned before others are assigned.
func (r *run) edited(c *cluster, before, after *v1alpha1.NodeENI) {
	if reflect.DeepEqual(before.Spec, after.Spec) {
		return
	}
	if r.watch.spent.editedAt == nil {
		r.watch.spent.editedAt = map[string]time.Time{}
	}
	r.watch.spent.editedAt[c.name+"/"+after.Name] = r.now
	for _, i := range r.truth().owned[c.name] {
		if r.spotOf(i).nodeENI == after.Name {
			r.watch.spent.needed += 2
		}
	}
}

// createdAfterEdit counts the calls that an edit explains for an interface that did not exist at its time: a plan that
// was made before creates it by the earlier spec.
func (r *run) createdAfterEdit(q request) {
	nodeENI := q.create.Tags[identity.TagCluster] + "/" + q.create.Tags[identity.TagNodeENI]
	if at, is := r.watch.spent.editedAt[nodeENI]; is && r.now.Sub(at) <= staleness {
		r.watch.spent.needed += 2
	}
}

// The calls for an interface from its create to its attach, for its removal, and for a fault.
const callsPerInterface, callsPerRemoval, callsPerFault = 3, 2, 4

// spend counts a changing call that reached EC2. It does not count an attach that EC2 refuses because the instance
// still starts: no other call shows when EC2 accepts it.
func (b *budget) spend(q request, err error) {
	refused := (*ec2.Error)(nil)
	if q.action == "AttachNetworkInterface" && errors.As(err, &refused) && refused.Code == "IncorrectState" {
		return
	}
	if strings.HasSuffix(q.action, "SubnetCidrReservation") {
		return // it changes no interface, and I17 judges it
	}
	b.calls++
	switch {
	case err != nil:
	case q.create != nil:
		b.made++
	case q.action == "DeleteNetworkInterface":
		b.removed++
	}
}

// checkQuiet checks the call budget of a run: as a sum, and without faults also for attributes alone. Then calls change
// attributes only where a user requested that, and deletion on termination and the source/destination check once for
// each interface.
func (r *run) checkQuiet() {
	spent := r.watch.spent
	if r.options.Calm && spent.adjusting > spent.needed {
		r.violate("I8", "%d calls changed attributes, and what users did explains %d", spent.adjusting, spent.needed)
	}
	faults := -r.faults.struck[userEdits]
	for _, n := range r.faults.struck {
		faults += n
	}
	most := callsPerInterface*spent.made + callsPerRemoval*spent.removed + spent.needed + callsPerFault*faults
	if spent.calls > most {
		r.violate("I8", "%d changing calls: %d interfaces made, %d removed, changes that users asked for (%d) and %d faults "+
			"explain %d",
			spent.calls, spent.made, spent.removed, spent.needed, faults, most)
	}
}
