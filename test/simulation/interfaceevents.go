// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// deleteInterfaces lets a user delete a NetworkInterface, or all of them. At times the ENI must stay.
func (c *cluster) deleteInterfaces() {
	r, one := c.run, c.any(netInterfaces)
	if one == nil {
		return
	}
	chosen := []client.Object{one}
	if r.chance(0.2) {
		r.note(nil, "%s: a user deletes all NetworkInterfaces", c.name)
		chosen = c.api.all(netInterfaces)
	}
	r.covers.Actors[deletesInterface]++
	r.noteSuccessors() // time may have passed since the last event
	keep := r.chance(0.15)
	for _, object := range chosen {
		if keep {
			c.keepInterface(object.GetName())
		}
		r.note(nil, "%s: a user deletes NetworkInterface %s", c.name, object.GetName())
		_ = c.api.delete(netInterfaces, object.GetName(), "")
	}
}

// keepInterface lets a user annotate an object so that its ENI stays when the object is deleted.
func (c *cluster) keepInterface(name string) {
	c.run.covers.Actors[keepsInterface]++
	c.run.note(nil, "%s: a user lets the ENI of NetworkInterface %s stay", c.name, name)
	_, _ = c.api.update(netInterfaces, name, "", func(o client.Object) (client.Object, error) {
		o.SetAnnotations(map[string]string{v1alpha1.OnDeleteAnnotation: v1alpha1.OnDeleteKeep})
		return o, nil
	})
}

// stripInterface lets an impatient user strip an object that is being deleted of its finalizer.
func (c *cluster) stripInterface() {
	all := c.api.interfaces()
	deleting := slices.DeleteFunc(all, func(n *v1alpha1.NetworkInterface) bool { return n.DeletionTimestamp.IsZero() })
	if len(deleting) == 0 {
		return
	}
	n := deleting[c.run.pick(len(deleting))]
	c.run.covers.Actors[stripsInterface]++
	c.run.note(nil, "%s: a user strips NetworkInterface %s of its finalizer", c.name, n.Name)
	_, _ = c.api.update(netInterfaces, n.Name, "", func(o client.Object) (client.Object, error) {
		o.SetFinalizers(nil)
		return o, nil
	})
}

// deleteKind lets a user delete the definition of NetworkInterface, or create it again.
func (c *cluster) deleteKind() {
	switch {
	case c.api.interfaceKind == missing:
		c.run.note(nil, "%s: a user creates the definition of NetworkInterface again", c.name)
		c.api.restoreKind()
	case c.api.interfaceKind == established && c.run.chance(0.3):
		c.run.note(nil, "%s: a user deletes the definition of NetworkInterface", c.name)
		c.run.covers.Actors[deletesKind]++
		c.api.deleteKind()
	}
}

// releaseKind lets a user end the holds for which a definition waits that is being deleted, as docs/troubleshooting.md
// says: the Nodes of their instances are gone, and so are the agents. The user takes these hosts out of service first.
func (c *cluster) releaseKind() {
	if c.api.interfaceKind != terminating {
		return
	}
	for _, n := range c.api.interfaces() {
		if !n.Held() || c.hasAgent(n) || c.run.truth().ended(n.Spec.InstanceID) {
			continue
		}
		c.run.note(nil, "%s: a user releases NetworkInterface %s", c.name, n.Name)
		c.run.covers.Actors[releasesInterface]++
		if h := c.run.pods.hosts[n.Spec.InstanceID]; h != nil && h.c == c {
			delete(c.run.pods.hosts, n.Spec.InstanceID)
		}
		_, _ = c.api.update(netInterfaces, n.Name, "", func(o client.Object) (client.Object, error) {
			n := o.(*v1alpha1.NetworkInterface)
			if n.Status.Node == nil {
				n.Status.Node = &v1alpha1.NodeReport{}
			}
			n.Status.Node.Open = false
			return n, nil
		})
	}
}

// returnInterface brings an object back that was deleted since etcd was saved, if its name is free and no other object
// took over its interface: no etcd ever had both.
func (c *cluster) returnInterface() {
	if c.api.interfaceKind != established || c.run.chance(0.5) {
		return
	}
	for _, change := range slices.Backward(c.api.log[netInterfaces]) {
		if change.after != nil || c.api.get(netInterfaces, change.name()) != nil {
			continue
		}
		n := change.before.DeepCopyObject().(*v1alpha1.NetworkInterface)
		if n.Status.ENIID != "" && c.api.interfaceOf(n.Status.ENIID) != nil {
			continue
		}
		n.DeletionTimestamp, n.DeletionGracePeriodSeconds = nil, nil
		n.Finalizers = []string{v1alpha1.InterfaceFinalizer}
		c.run.note(nil, "%s: NetworkInterface %s (%s) is back", c.name, n.Name, n.UID)
		c.run.covers.Actors[returnsInterface]++
		if n.Status.ENIID != "" {
			c.run.watch.torn[n.Status.ENIID] = c.run.now
		}
		c.run.watch.returned[n.UID] = c.run.now
		c.api.owned[n.UID] = maps.Clone(change.owned)
		c.api.put(netInterfaces, n.Name, n)
		return
	}
}
