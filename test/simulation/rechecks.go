// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
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
	// mostRolloutChecks is for a node that waits for its turn to replace an interface. It is reconciled twice a minute,
	// without a call to EC2: no event announces that another node has ended its replacement.
	mostRolloutChecks = 70
	// mostHeldChecks is for nodes that share names of instances while pods hold an interface: each triggers the other.
	mostHeldChecks = 130
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
	case r.holdsForPods():
		return mostHeldChecks
	case r.waitsForBlock(key):
		return mostBlockChecks
	case r.waitsForTurn(key):
		return mostRolloutChecks
	case r.blockedMembers(key) > 0:
		return mostIdle + mostRechecks*r.blockedMembers(key)
	case r.isRefused(key):
		return mostMoveRetries
	case r.waitsForEC2(key):
		return mostRechecks
	case r.waitsForDeletion(key):
		return mostDeletionChecks
	default:
		return mostIdle
	}
}

// holdsForPods reports whether an interface is held for pods that no agent can report: the Nodes that share a name of
// an instance trigger each other.
func (r *run) holdsForPods() bool {
	for _, c := range r.clusters {
		if slices.ContainsFunc(r.truth().owned[c.name], c.heldForPods) {
			return true
		}
	}
	return false
}

// isRefused reports whether the key of a reconciliation is that of an address that EC2 refuses to move.
func (r *run) isRefused(key string) bool {
	return slices.ContainsFunc(r.clusters, func(c *cluster) bool {
		name, is := strings.CutPrefix(key, fmt.Sprintf("%s %s ", c.name, addressQueue))
		object, _ := c.api.get(floatingAddresses, name).(*v1alpha1.FloatingAddress)
		return is && saysRefused(object)
	})
}

// blockedMembers returns how many members lack an interface on the node that a key names, or on the nodes of the
// NodeENI that it names, and how many have a reason on the node of the FloatingAddress that it names. Each at times
// makes a call that tests for free capacity, or waits for its turn, and its reason can differ each time.
func (r *run) blockedMembers(key string) (blocked int) {
	for _, c := range r.clusters {
		for _, object := range c.api.all(states) {
			state := object.(*v1alpha1.NodeENIState)
			concerned, lacking, hindered := key == fmt.Sprintf("%s %s %s", c.name, nodeQueue, state.Name), 0, 0
			for _, i := range state.Status.Interfaces {
				concerned = concerned || key == fmt.Sprintf("%s %s %s", c.name, nodeENIQueue, i.NodeENI)
				if i.Reason != "" {
					hindered++
				}
				if i.ENIID == "" && i.Reason != "" {
					lacking++
				}
			}
			for _, name := range c.addressesOf(state) {
				if key == fmt.Sprintf("%s %s %s", c.name, addressQueue, name) {
					blocked += hindered
				}
			}
			if concerned {
				blocked += lacking
			}
		}
	}
	return blocked
}

// addressesOf returns the FloatingAddresses that name an interface of a node.
func (c *cluster) addressesOf(state *v1alpha1.NodeENIState) (names []string) {
	for _, object := range c.api.all(floatingAddresses) {
		on := controller.InterfacesOf(object.(*v1alpha1.FloatingAddress))
		if slices.ContainsFunc(state.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
			return slices.Contains(on, i.ENIID)
		}) {
			names = append(names, object.GetName())
		}
	}
	return names
}

// waitsForEC2 reports whether the key of a reconciliation is that of a node with an interface that waits for a person
// or for EC2, or with one on an instance that is not the Node's. The latter stays until EC2 reports that the instance
// has ended.
func (r *run) waitsForEC2(key string) bool {
	for _, c := range r.clusters {
		name, is := strings.CutPrefix(key, fmt.Sprintf("%s %s ", c.name, nodeQueue))
		if !is {
			continue
		}
		hindered := func(i v1alpha1.InterfaceState) bool { return i.Reason != "" }
		if state := c.state(name); state != nil && slices.ContainsFunc(state.Status.Interfaces, hindered) {
			return true
		}
		_, is = c.api.get(nodes, name).(*corev1.Node)
		return !is || c.hasFormerInstance(name)
	}
	return false
}

// hasFormerInstance reports whether an interface exists on an instance that was a Node, by its tags or by the ledger.
func (c *cluster) hasFormerInstance(node string) bool {
	var former []string
	if state, is := c.api.get(states, node).(*v1alpha1.NodeENIState); is {
		former = append(former, state.Spec.InstanceID)
		for _, previous := range state.Spec.PreviousInstances {
			former = append(former, previous.InstanceID)
		}
	}
	return slices.ContainsFunc(c.run.truth().owned[c.name], func(i eni.Interface) bool {
		instanceID := spotOf(i).instanceID
		of := c.nodesOf(instanceID)
		recorded := i.Tags[identity.TagNode] == node || slices.Contains(former, instanceID)
		return recorded && (len(of) == 0 || of[0].Name != node)
	})
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

// waitsForTurn reports whether the key of a reconciliation is that of a node that waits to replace an interface, or of
// one that it triggers.
func (r *run) waitsForTurn(key string) bool {
	for _, c := range r.clusters {
		name, is := strings.CutPrefix(key, fmt.Sprintf("%s %s ", c.name, nodeQueue))
		if is && (c.replaces(name) || slices.ContainsFunc(c.formerNames(name), c.replaces)) {
			return true
		}
	}
	return false
}

// replaces reports whether a node waits to replace an interface. Its state says so, or reports another reason for that
// interface.
func (c *cluster) replaces(node string) bool {
	state := c.state(node)
	return state != nil && slices.ContainsFunc(state.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
		nodeENI := c.nodeENIOf(string(i.NodeENIUID))
		known, exists := c.run.truth().interfaces[i.ENIID]
		return plan.Reason(i.Reason) == plan.Replacing || nodeENI != nil && exists && c.couldReplace(nodeENI, known)
	})
}

// formerNames returns the names in the tags of unattached interfaces of a Node's instance. Their reconciliations
// trigger that of the Node.
func (c *cluster) formerNames(node string) (names []string) {
	for _, i := range c.run.truth().owned[c.name] {
		if of := c.nodesOf(spotOf(i).instanceID); i.Attachment == nil && len(of) > 0 && of[0].Name == node {
			names = append(names, i.Tags[identity.TagNode])
		}
	}
	return names
}

// reconciled runs at every reconciliation.
func (r *run) reconciled(p *process, q queueName, key string) {
	r.watch.reconciles[fmt.Sprintf("%s %s %s", p.cluster.name, q, key)]++
}
