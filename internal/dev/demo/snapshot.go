// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
)

// moment is the state at one time, of EC2 and the API server.
type moment struct {
	// ec2 is the true state of the simulator: without lag, cache, or reports of the controller.
	ec2 ec2.State
	// nodeENIs are the objects in the API server.
	nodeENIs         []v1alpha1.NodeENI
	interfaceObjects []v1alpha1.NetworkInterface
	// nodes are the names of nodes by the instance ID of their providerID.
	nodes map[string]string
	// agents are the Nodes with an agent, by name.
	agents map[string]corev1.Node
	// pods are those of the default namespace, by name.
	pods map[string]corev1.Pod
}

// instanceOf returns the instance of a node, running or not; nil if there is none.
func (m moment) instanceOf(node string) *ec2.Instance {
	for _, instance := range m.ec2.Instances {
		if m.nodeName(instance) == node {
			return instance
		}
	}
	return nil
}

// nodeName returns the name of the instance's node or, if the node no longer exists, its former name.
func (m moment) nodeName(instance *ec2.Instance) string {
	return cmp.Or(m.nodes[instance.InstanceID], instance.Tags[identity.TagName], instance.InstanceID)
}

// owned returns the interfaces with our tags, in the order of instance, card and device index.
func (m moment) owned() []*ec2.NetworkInterface {
	owned := slices.DeleteFunc(slices.Clone(m.ec2.NetworkInterfaces), func(i *ec2.NetworkInterface) bool {
		return i.Tags[identity.TagNodeENI] == ""
	})
	slices.SortStableFunc(owned, func(a, b *ec2.NetworkInterface) int {
		return cmp.Or(
			cmp.Compare(a.Tags[identity.TagInstanceID], b.Tags[identity.TagInstanceID]),
			cmp.Compare(device(a), device(b)),
			cmp.Compare(a.NetworkInterfaceID, b.NetworkInterfaceID),
		)
	})
	return owned
}

// device returns the device index of an interface; an unattached one has none and is last.
func device(i *ec2.NetworkInterface) int {
	if i.Attachment == nil {
		return unattached
	}
	return i.Attachment.DeviceIndex
}

const unattached = 1 << 16

// blocked returns the interfaces of a node that the API server reports as blocked.
func (m moment) blocked(node string) []v1alpha1.Attachment {
	var blocked []v1alpha1.Attachment
	for _, nodeENI := range m.nodeENIs {
		for _, a := range nodeENI.Status.Attachments {
			if a.NodeID == node && a.Status == v1alpha1.AttachmentBlocked {
				blocked = append(blocked, a)
			}
		}
	}
	return blocked
}

// owners returns the names of nodes by the IDs of their interfaces.
func (m moment) owners() map[string]string {
	owners := map[string]string{}
	for _, i := range m.owned() {
		owners[i.NetworkInterfaceID] = i.Tags[identity.TagNode]
	}
	return owners
}
