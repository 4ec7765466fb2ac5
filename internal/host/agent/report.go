// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/text"
)

// maxMessage is the largest number of characters of a link's message, as in its schema.
const maxMessage = 1024

// report writes status.links and status.cni of the node's state if they changed. It sends no other field of the object
// except status.podNetworks.
func (a *Agent) report(ctx context.Context, s *snapshot) error {
	if s.state == nil || s.networksUnknown {
		return nil
	}
	links := s.linkStates()
	cni := a.cniState()
	linksReported := equality.Semantic.DeepEqual(links, s.state.Status.Links)
	cniReported := equality.Semantic.DeepEqual(cni, s.state.Status.CNI)
	if linksReported && cniReported && !a.podsDue(s) {
		return nil
	}
	if err := a.API.writeReport(ctx, links, s.networks, cni); err != nil {
		return fmt.Errorf("write the links of NodeENIState %s: %w", a.Node, err)
	}
	a.podsReported = a.Now()
	return nil
}

// writeReport applies the links, the pod networks and the CNI configuration as all fields of the state that the agent
// owns.
func (a *API) writeReport(ctx context.Context, links []v1alpha1.LinkState, networks []v1alpha1.PodNetworkState,
	cni *v1alpha1.CNIState) error {
	applied := map[string]any{}
	if len(links) > 0 {
		applied["links"] = links // without the fields of the controller
	}
	if len(networks) > 0 {
		applied["podNetworks"] = networks
	}
	if cni != nil {
		applied["cni"] = cni
	}
	content, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "NodeENIState",
		"metadata": map[string]any{"name": a.node}, "status": applied,
	})
	if err != nil {
		return err
	}
	return a.states.patch(ctx, a.node, change{
		kind: types.ApplyPatchType, of: []string{"status"}, content: content,
		parameters: map[string]string{"fieldManager": v1alpha1.FieldOwnerAgent, "force": "true"},
	}, &v1alpha1.NodeENIState{})
}

// linkStates returns the state of the links, in the order of their MAC addresses. Links that the agent preserves keep
// their last report, because it may be the only record of a bound device.
func (s *snapshot) linkStates() []v1alpha1.LinkState {
	states := s.preserved()
	for _, o := range s.observed {
		nodeENI, eniID := s.owner(o)
		state := v1alpha1.LinkState{
			MACAddress: o.Link.MAC, NodeENI: nodeENI, ENIID: eniID, AltName: o.AltName, PCIAddress: o.Link.Device,
			State: v1alpha1.LinkPhase(o.State), Reason: o.Reason, Message: text.Clip(o.Message, maxMessage),
		}
		if f := o.Facts; f != nil {
			state.Name, state.MTU, state.Driver, state.PCIAddress = f.Name, int32(f.MTU), f.Driver, f.Device
			for _, address := range f.Addresses {
				if !address.Addr().IsLinkLocalUnicast() {
					state.Addresses = append(state.Addresses, address.String())
				}
			}
		}
		if o.State == hostnet.Moved {
			state.AltName = hostnet.AltName(o.Link.Name)
		}
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b v1alpha1.LinkState) int { return cmp.Compare(a.MACAddress, b.MACAddress) })
	return states
}

// owner returns the NodeENI and the interface of a link: from the status of the controller or, for a link that the
// agent restores, from the last report.
func (s *snapshot) owner(o hostnet.Observation) (nodeENI, eniID string) {
	if i := interfaceOf(s.state, o.Link.MAC); i != nil {
		return i.NodeENI, i.ENIID
	}
	if before := linkState(s.state, o.Link.MAC); before != nil {
		return before.NodeENI, before.ENIID
	}
	return o.Link.Name, ""
}

func interfaceOf(state *v1alpha1.NodeENIState, mac string) *v1alpha1.InterfaceState {
	for n, i := range state.Status.Interfaces {
		if i.MACAddress == mac && !removing(i) {
			return &state.Status.Interfaces[n]
		}
	}
	return nil
}
