// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// noticed is how long a process can take to notice that NodeENIs were lost: two resyncs and the staleness of reads.
const noticed = 2*resyncPeriod + staleness

// How long interfaces in use stay attached after their NodeENI was lost: if it was lost alone, and in a mass loss.
const liveLeakGrace, lossGrace = 30 * time.Minute, 24 * time.Hour

// losing checks that no interface is detached from a live instance too early because its NodeENI does not exist: not
// before people could notice, and in a mass loss not for a day.
func (r *run) losing(p *process, q request, i eni.Interface) {
	s := spotOf(i)
	if i.Attachment == nil || !i.AttachedTo(s.instanceID) || r.truth().ended(s.instanceID) ||
		p.cluster.nodeENIOf(s.uid) != nil || !p.cluster.isStripped(s.uid) || r.watch.tampered(i.ID) {
		return
	}
	grace := liveLeakGrace
	if since := r.watch.lossSince[p.cluster.name]; !since.IsZero() && r.now.Sub(since) > noticed {
		grace = lossGrace
	}
	// The detach may have begun before the NodeENI was lost.
	if gone := r.now.Sub(p.cluster.stripped[s.uid]); i.Attachment.Status == eni.AttachmentAttached && gone > staleness &&
		gone < grace {
		r.violate("I1", "%s %s %s on a live instance, %s after its NodeENI was lost: %s", p.name, q.action, q.target,
			seconds(gone), describe(i))
	}
}

// noteLoss records since when a cluster has a mass loss.
func (r *run) noteLoss(c *cluster, owned []eni.Interface) {
	attached, orphans := 0, 0
	for _, i := range owned {
		if i.Attachment != nil && r.watch.tampered(i.ID) {
			attached++ // its tags can say that it is of the cluster, and then the share of the others is smaller
		} else if i.Attachment != nil && !c.leftAlone(i) {
			attached++
			if nodeENI := c.nodeENIOf(spotOf(i).uid); !isJoined(i) && (nodeENI == nil || r.restored(i, nodeENI)) {
				orphans++
			}
		}
	}
	switch lost := orphans >= 2 && 2*orphans >= attached; { // clusters are small here
	case !lost:
		delete(r.watch.lossSince, c.name)
	case r.watch.lossSince[c.name].IsZero():
		r.watch.lossSince[c.name] = r.now
	}
}

// restored reports whether an interface existed long before its NodeENI was created, at most 22 hours ago.
func (r *run) restored(i eni.Interface, nodeENI *v1alpha1.NodeENI) bool {
	made, known := identity.CreatedAt(i.Tags)
	since := nodeENI.CreationTimestamp.Time
	return known && since.Sub(made) > staleness && r.now.Sub(since) < lossGrace-2*time.Hour && !r.watch.tampered(i.ID)
}

// finalized checks I7: a NodeENI disappears only when EC2 has none of its interfaces, except those that EC2 will delete
// by itself.
func (r *run) finalized(c *cluster, nodeENI client.Object) {
	t := r.truth()
	if c.isStripped(string(nodeENI.GetUID())) {
		return
	}
	r.judged("I7")
	for _, i := range t.owned[c.name] {
		doomed := i.Attachment != nil && t.ended(i.Attachment.InstanceID) && i.Attachment.DeleteOnTermination
		switch {
		case spotOf(i).uid != string(nodeENI.GetUID()):
		case c.leftAlone(i):
			r.watch.orphaned[i.ID] = r.now
		case !doomed && !r.watch.tampered(i.ID):
			r.violate("I7", "NodeENI %s is gone, and %s of it is left: %s", nodeENI.GetName(), i.ID, describe(i))
		}
	}
}
