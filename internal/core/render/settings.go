// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Settings returns the desired interface of a spec for package plan. Its counts include the minimum of prefixes for
// pods.
func (s Spec) Settings() eni.Settings {
	settings := eni.Settings{Slot: s.Slot, ExactSlot: s.ExactSlot, Spec: s.EC2}
	for _, subnet := range s.Subnets {
		settings.Subnets = append(settings.Subnets, subnet.ID)
	}
	if pods := s.Pods; pods != nil {
		settings.IPv6Prefixes = max(settings.IPv6Prefixes, pods.IPv6Prefixes)
		if pods.IPv4 != nil {
			settings.IPv4Prefixes = max(settings.IPv4Prefixes, pods.IPv4.Min)
		}
	}
	return settings
}

// Key returns the identity of the interface of an object.
func (o Object) Key(cluster string) identity.Interface {
	return identity.Interface{Cluster: cluster, UID: identity.UID(o.UID), Name: o.Name, NodeENI: o.Spec.NodeENI.Name,
		Node: o.Spec.NodeName, InstanceID: o.Spec.InstanceID, Ordinal: o.Spec.Ordinal}
}
