// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/identity"
)

// pause lets a user pause a Node or a NodeENI, or lift such a pause.
func (c *cluster) pause() {
	k := []kind{nodes, nodeENIs}[c.run.pick(2)]
	if object := c.any(k); object != nil {
		c.setPaused(k, object, !isPaused(object))
	}
}

// unpause lets users lift every pause.
func (c *cluster) unpause() {
	for _, k := range []kind{nodes, nodeENIs} {
		for _, object := range c.api.all(k) {
			if isPaused(object) {
				c.setPaused(k, object, false)
			}
		}
	}
}

func (c *cluster) setPaused(k kind, object client.Object, paused bool) {
	c.run.note(nil, "%s: a user sets the pause of %s %s to %t", c.name, k, object.GetName(), paused)
	_, _ = c.api.update(k, object.GetName(), "", func(o client.Object) (client.Object, error) {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		if delete(annotations, v1alpha1.PausedAnnotation); paused {
			annotations[v1alpha1.PausedAnnotation] = "by a user"
		}
		o.SetAnnotations(annotations)
		return o, nil
	})
}

func isPaused(object client.Object) bool {
	_, paused := object.GetAnnotations()[v1alpha1.PausedAnnotation]
	return paused
}

// notePauses records the version of the API server at which objects were paused.
func (r *run) notePauses(c *cluster, k kind, change change) {
	if k == netInterfaces || change.after == nil {
		return
	}
	if key := c.name + string(change.after.GetUID()); !isPaused(change.after) {
		delete(r.watch.paused, key)
	} else if _, already := r.watch.paused[key]; !already {
		r.watch.paused[key] = change.version
	}
}

// holdingStill checks that nothing is changed for a NodeENI or on a Node that the process knows to be paused.
func (r *run) holdingStill(p *process, q request) {
	s := r.spotOf(r.truth().interfaces[q.target])
	if q.create != nil {
		s = desiredSlot{q.create.Tags[identity.TagNodeENI], q.create.Tags[identity.TagInstanceID]}
	}
	if i := r.truth().interfaces[q.target]; isLaunched(i) && i.Attachment != nil {
		s.instanceID = i.Attachment.InstanceID
	}
	if s.instanceID == "" || r.watch.tampered(q.target) || r.truth().ended(s.instanceID) || p.expired ||
		r.now.Sub(r.watch.torn[q.target]) <= staleness { // the tags may name another NodeENI than its object
		return
	}
	var concerned []client.Object
	if nodeENI := p.cluster.nodeENINamed(s.nodeENI); nodeENI != nil {
		concerned = append(concerned, nodeENI)
	}
	concerned = append(concerned, p.knownNodes(s.instanceID)...)
	for _, object := range concerned {
		r.judged("I1")
		if since, paused := r.watch.paused[p.cluster.name+string(object.GetUID())]; paused &&
			since <= p.views[len(p.views)-1] {
			r.violate("I1", "%s %s %s although %s is paused since version %d, and the process has seen all of %d: %s",
				p.name, q.action, q.target, object.GetName(), since, p.views[len(p.views)-1], detail(q))
		}
	}
}

// knownNodes returns the Nodes of an instance that the process knew when it began its work. It does not know that of a
// Node whose providerID is missing for a moment.
func (p *process) knownNodes(instanceID string) (known []client.Object) {
	for _, node := range nodesIn(p.informers.known(nodes), instanceID) {
		version, err := strconv.Atoi(node.ResourceVersion)
		if err != nil {
			panic(err)
		}
		if _, exists := p.cluster.api.get(nodes, node.Name).(*corev1.Node); exists && version <= p.views[len(p.views)-1] {
			known = append(known, node)
		}
	}
	return known
}
