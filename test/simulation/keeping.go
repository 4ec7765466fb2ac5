// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// keepersAct is how often, in draws of one in this many, a user changes whether an ENI stays.
const keepersAct = 60

// keepers draws which users let ENIs stay when their objects are deleted, by users or by the controller. It has a
// random stream of its own, so that it shifts no other draw.
type keepers struct {
	random *rand.Rand
	acts   bool
	// kept are the ENIs that must stay, and byUID those of objects that did not record their ENI yet.
	kept  map[string]keeping
	byUID map[types.UID]keeping
}

// keeping is an order of a user to let an ENI stay.
type keeping struct {
	// version is the version of the API server at which the order stood on an object that was being deleted. early is set
	// if it stood before the deletion: no process can know the deletion alone.
	version int
	early   bool
}

func newKeepers(seed uint64) *keepers {
	k := &keepers{random: rand.New(rand.NewPCG(seed, 0x6e)), kept: map[string]keeping{}, byUID: map[types.UID]keeping{}}
	k.acts = k.random.IntN(3) == 0
	return k
}

// moveKeepers at times lets a user annotate an object so that its ENI stays when the object is deleted, or take that
// back. At times the user deletes the object then; at others it is deleted later, or never.
func (r *run) moveKeepers() {
	k := r.keepers
	if !k.acts || r.faults.off || k.random.IntN(keepersAct) > 0 {
		return
	}
	c := r.clusters[k.random.IntN(len(r.clusters))]
	all := c.api.interfaces()
	if len(all) == 0 {
		return
	}
	n := all[k.random.IntN(len(all))]
	if keepsENI(n) {
		r.covers.Actors[releasesKept]++
		r.note(nil, "%s: a user takes back that the ENI of NetworkInterface %s stays", c.name, n.Name)
		_, _ = c.api.update(netInterfaces, n.Name, "", func(o client.Object) (client.Object, error) {
			o.SetAnnotations(nil)
			return o, nil
		})
		return
	}
	c.keepInterface(n.Name)
	if k.random.IntN(2) == 0 {
		r.note(nil, "%s: a user deletes NetworkInterface %s", c.name, n.Name)
		_ = c.api.delete(netInterfaces, n.Name, "")
	}
}

func keepsENI(n *v1alpha1.NetworkInterface) bool {
	return n.Annotations[v1alpha1.OnDeleteAnnotation] == v1alpha1.OnDeleteKeep
}

// noteKeeping records the ENIs that must stay: until another object records them, or the annotation is gone.
func (r *run) noteKeeping(change change) {
	n, is := change.after.(*v1alpha1.NetworkInterface)
	if !is {
		if was := change.before.(*v1alpha1.NetworkInterface); keepsENI(was) {
			r.judged("I26")
			r.covers.Actors[endsKept]++
		}
		return
	}
	k, id := r.keepers, n.Status.ENIID
	if n.DeletionTimestamp.IsZero() || !keepsENI(n) {
		delete(k.kept, id)
		delete(k.byUID, n.UID)
		return
	}
	one, known := k.byUID[n.UID]
	if !known {
		was, existed := change.before.(*v1alpha1.NetworkInterface)
		one = keeping{version: change.version, early: existed && was.DeletionTimestamp.IsZero() && keepsENI(was)}
		k.byUID[n.UID] = one
	}
	if id != "" {
		k.kept[id] = one
	}
}

// keeping checks I26 before a call that detaches or deletes an interface: no user lets it stay, as far as the process
// can know. An unattached interface without an object is a leak also if it was kept.
func (r *run) keeping(p *process, q request, i eni.Interface, n *v1alpha1.NetworkInterface) {
	k, is := r.keepers.kept[i.ID]
	if !is && (n == nil || n.Status.ENIID == "") {
		k, is = r.keepers.byUID[types.UID(i.Tags[identity.TagUID])]
	}
	if !is || p.expired || n == nil && i.Attachment == nil {
		return
	}
	r.judged("I26")
	if seen := p.views[len(p.views)-1]; !k.early && seen < k.version || r.isStuck(q, i) && seen < k.version {
		return
	}
	r.violate("I26", "%s %s %s, which a user lets stay: %s", p.name, q.action, q.target, r.describe(i))
}

// knowsKept reports whether a process may know an object as one whose ENI stays, which a user took back a moment ago.
func (p *process) knowsKept(n *v1alpha1.NetworkInterface) bool {
	return slices.ContainsFunc(p.mayKnow(netInterfaces), func(o client.Object) bool {
		was := o.(*v1alpha1.NetworkInterface)
		return was.UID == n.UID && !was.DeletionTimestamp.IsZero() && keepsENI(was)
	})
}
