// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
)

// preserves reports whether the agent leaves the link of an undesired MAC address as it is. A missing record of an
// interface is no reason to restore its link. The agent leaves it as it is until the controller has reported on the
// node, and while the controller looks for an interface of the same NodeENI, which may be this one.
func (s *snapshot) preserves(mac string) bool {
	if s.state == nil || s.state.Status.ObservedGeneration == 0 {
		return true
	}
	link := linkState(s.state, mac)
	return link != nil && !slices.ContainsFunc(s.state.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
		return i.MACAddress == mac
	}) && slices.ContainsFunc(s.state.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
		return i.MACAddress == "" && i.NodeENI == link.NodeENI
	})
}

// preserved returns the last report about the links that the agent preserves.
func (s *snapshot) preserved() []v1alpha1.LinkState {
	if s.state == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.state.Status.Links), func(l v1alpha1.LinkState) bool {
		return s.wants(l.MACAddress) || !s.preserves(l.MACAddress)
	})
}

// isConfirmed reports whether the agent has nothing to preserve.
func (s *snapshot) isConfirmed() bool { return !s.preserves("") && len(s.preserved()) == 0 }

// changesPreserved reports whether an operation would change something that the agent preserves.
func (s *snapshot) changesPreserved(o hostnet.Operation) bool {
	switch o.(type) {
	case hostnet.AddRule: // of a desired link
		return false
	case hostnet.RemoveRule: // its owner is unknown
		return !s.isConfirmed()
	}
	n := slices.IndexFunc(s.facts.Links, func(l hostnet.LinkFacts) bool { return l.Index == o.LinkIndex() })
	return n < 0 || !s.wants(s.facts.Links[n].MAC) && s.preserves(s.facts.Links[n].MAC)
}

// wants reports whether the MAC address is that of a desired link or device of the node.
func (s *snapshot) wants(mac string) bool {
	for _, link := range s.links {
		if link.MAC == mac {
			return true
		}
	}
	for _, device := range s.devices {
		if device.Link.MAC == mac {
			return true
		}
	}
	return false
}
