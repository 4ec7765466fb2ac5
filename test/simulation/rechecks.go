// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
)

// How often an object may be reconciled in the quiet period of half an hour.
const (
	// mostIdle is six an hour (PR12 of the reliability catalogue).
	mostIdle = 3
	// mostRechecks is for a node that waits for a change in EC2 that no event announces: the product reconciles it
	// every five minutes, and sometimes twice within a second.
	mostRechecks = 12
	// mostDeletionChecks is for a NodeENI whose deletion waits for a person: the product reconciles it after a tenth of
	// the time that it has waited, and at least every ten minutes. It has waited for [lastWrites] when the period
	// begins.
	mostDeletionChecks = 12
	// mostEvictionChecks is for a NodeENI whose objects that are being deleted are in use by pods: the product evicts the
	// pods, at least every two minutes.
	mostEvictionChecks = 16
	// mostRolloutChecks is for a node that waits for its turn to replace an interface. The product checks it once a
	// minute without a call to EC2, since no event announces that another node has ended its replacement. The bound is
	// twice that.
	mostRolloutChecks = 70
	// mostBlockChecks is for a SubnetReservation that lacks a block until a person acts: the product reads its subnets
	// once a minute.
	mostBlockChecks = 31
	// mostMoveRetries is for an address that EC2 refuses to move: two retries in the period. Each reads EC2, waits for
	// other addresses of its instance, and then for the interval between their calls.
	mostMoveRetries = 8
)

// mostIdleReconciles returns how often the object of a queue may be reconciled in the quiet period.
func (r *run) mostIdleReconciles(key string) int {
	switch {
	case r.waitsForBlock(key):
		return mostBlockChecks
	case r.waitsForTurn(key):
		return mostRolloutChecks
	case r.blockedObjects(key) > 0:
		return mostIdle + mostRechecks*r.blockedObjects(key)
	case r.isRefused(key):
		return mostMoveRetries
	case r.evictsPods(key):
		return mostEvictionChecks
	case r.waitsForEC2(key):
		return mostRechecks
	case r.waitsForDeletion(key):
		return mostDeletionChecks
	default:
		return mostIdle
	}
}

// isRefused reports whether the key of a reconciliation is that of an address that EC2 refuses to move.
func (r *run) isRefused(key string) bool {
	return slices.ContainsFunc(r.clusters, func(c *cluster) bool {
		name, is := strings.CutPrefix(key, fmt.Sprintf("%s %s ", c.name, addressQueue))
		object, _ := c.api.get(floatingAddresses, name).(*v1alpha1.FloatingAddress)
		return is && saysRefused(object)
	})
}

// concerns reports whether a key of a queue is that of the instance, the Node or the NodeENI of an object.
func (c *cluster) concerns(key string, n *v1alpha1.NetworkInterface) bool {
	return slices.Contains([]string{
		fmt.Sprintf("%s %s %s", c.name, instanceQueue, n.Spec.InstanceID),
		fmt.Sprintf("%s %s %s", c.name, nodeQueue, n.Spec.NodeName),
		fmt.Sprintf("%s %s %s", c.name, nodeENIQueue, n.Spec.NodeENI.Name),
	}, key)
}

// blockedObjects returns how many objects lack an interface on the instance or the Node that a key names, or of the
// NodeENI that it names, and how many are not ready on the instance of the FloatingAddress that it names. Each at times
// makes a call that tests for free capacity, or waits for its turn, and its reason can differ each time.
func (r *run) blockedObjects(key string) (blocked int) {
	for _, c := range r.clusters {
		for _, n := range c.api.interfaces() {
			if c.concerns(key, n) && n.Status.ENIID == "" && !isReady(n) {
				blocked++
			}
			if isReady(n) {
				continue
			}
			for _, name := range c.addressesOf(n.Spec.InstanceID) {
				if key == fmt.Sprintf("%s %s %s", c.name, addressQueue, name) {
					blocked++
				}
			}
		}
	}
	return blocked
}

// addressesOf returns the FloatingAddresses that name an interface of an instance.
func (c *cluster) addressesOf(instanceID string) (names []string) {
	for _, object := range c.api.all(floatingAddresses) {
		on := controller.InterfacesOf(object.(*v1alpha1.FloatingAddress))
		if slices.ContainsFunc(on, func(id string) bool {
			n := c.api.interfaceOf(id)
			return n != nil && n.Spec.InstanceID == instanceID
		}) {
			names = append(names, object.GetName())
		}
	}
	return names
}

// waitsForEC2 reports whether the key of a reconciliation is that of an instance with an interface that waits for a
// person or for EC2, or of one without a Node: its objects stay until EC2 reports that it has ended.
func (r *run) waitsForEC2(key string) bool {
	for _, c := range r.clusters {
		for _, n := range c.api.interfaces() {
			waits := !isReady(n) || !n.DeletionTimestamp.IsZero() || len(c.nodesOf(n.Spec.InstanceID)) == 0
			if waits && c.concerns(key, n) {
				return true
			}
		}
	}
	return false
}

// waitsForDeletion reports whether the key of a reconciliation is that of a NodeENI that is being deleted.
func (r *run) waitsForDeletion(key string) bool {
	for _, c := range r.clusters {
		if name, is := strings.CutPrefix(key, fmt.Sprintf("%s %s ", c.name, nodeENIQueue)); is {
			object := c.api.get(nodeENIs, name)
			return object != nil && !object.GetDeletionTimestamp().IsZero()
		}
	}
	return false
}

// evictsPods reports whether the key of a reconciliation is that of a NodeENI with an object that is being deleted
// while pods use its interface.
func (r *run) evictsPods(key string) bool {
	return slices.ContainsFunc(r.clusters, func(c *cluster) bool {
		name, is := strings.CutPrefix(key, fmt.Sprintf("%s %s ", c.name, nodeENIQueue))
		return is && slices.ContainsFunc(c.api.interfaces(), func(n *v1alpha1.NetworkInterface) bool {
			return n.Spec.NodeENI.Name == name && n.Held() && !n.DeletionTimestamp.IsZero()
		})
	})
}

// waitsForTurn reports whether the key of a reconciliation is that of an object that waits for its turn.
func (r *run) waitsForTurn(key string) bool {
	for _, c := range r.clusters {
		for _, n := range c.api.interfaces() {
			if c.replaces(n) && c.concerns(key, n) {
				return true
			}
		}
	}
	return false
}

// replaces reports whether an object waits to be replaced. It says so, or reports another reason.
func (c *cluster) replaces(n *v1alpha1.NetworkInterface) bool {
	nodeENI := c.nodeENINamed(n.Spec.NodeENI.Name)
	return plan.Reason(reasonOf(n)) == plan.Replacing || plan.Reason(reasonOf(n)) == plan.AwaitsTurn ||
		nodeENI != nil && c.couldReplace(nodeENI, n)
}

// reconciled runs at every reconciliation. The last step of the quiet period can end after it.
func (r *run) reconciled(p *process, q queueName, key string) {
	if ends := r.watch.quietUntil; !ends.IsZero() && r.now.After(ends) {
		return
	}
	r.watch.reconciles[fmt.Sprintf("%s %s %s", p.cluster.name, q, key)]++
}
