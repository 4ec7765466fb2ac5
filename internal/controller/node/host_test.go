// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
)

// TestHostSettingsOutliveTheirNodeENI checks an interface whose NodeENI is not available. The interface is in use, so
// the state keeps the settings for the node's agent.
func TestHostSettingsOutliveTheirNodeENI(t *testing.T) {
	gone := map[string]func(*stage){
		"it was forced out of the API server": func(s *stage) {
			s.both(func(c client.Client) {
				s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Finalizers = nil })
				s.must(c.Delete(s.Context(), &v1alpha1.NodeENI{ObjectMeta: objectMeta("data")}))
			})
		},
		"its finalizer was taken away": func(s *stage) {
			s.both(func(c client.Client) {
				s.nodeENI(c, func(n *v1alpha1.NodeENI) { controllerutil.RemoveFinalizer(n, v1alpha1.Finalizer) })
			})
		},
		"its subnets are not resolved": func(s *stage) {
			s.both(func(c client.Client) { s.resolved(c) })
		},
	}
	for name, change := range gone {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.both(func(c client.Client) {
					s.nodeENI(c, func(n *v1alpha1.NodeENI) {
						n.Spec.MTU, n.Spec.AddressMode, n.Spec.Required = ptr.To[int32](1500), v1alpha1.AddressPrimary, ptr.To(false)
						n.Spec.Sysctls = map[string]v1alpha1.SysctlValue{"ipv4.rp_filter": 0}
						n.Spec.DPDKResourceName = "example.com/fast"
						n.Spec.Pods = &v1alpha1.NodeENIPods{
							Attachment: v1alpha1.PodAttachmentIPVLAN, Routes: []v1alpha1.PodRoute{{To: "10.60.0.0/16"}},
							IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 2, Max: 4}, Spare: ptr.To[int32](8)},
						}
					})
					s.resolved(c, v1alpha1.ResolvedSubnet{ID: data, Zone: zone, CIDR: "10.0.1.0/24"})
				})
				s.must(s.play(time.Minute))
				before := s.settings()
				if before.MTU != 1500 || before.SubnetCIDR == "" {
					t.Fatalf("the agent is told %+v to begin with", before)
				}
				wantPods := &v1alpha1.InterfacePods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4Prefixes: 2, IPv4MaxPrefixes: 4, Spare: 8, Routes: []string{"10.60.0.0/16"}}
				if diff := cmp.Diff(wantPods, before.Pods); diff != "" {
					t.Errorf("what the status tells the agent about pods (-want +got):\n%s", diff)
				}
				change(s)
				s.must(s.play(2 * time.Minute))
				if diff := cmp.Diff(before, s.settings()); diff != "" {
					t.Errorf("(-before +after):\n%s", diff)
				}
			})
		})
	}
}

// resolved sets the resolved subnets in the status of the NodeENI.
func (s *stage) resolved(c client.Client, subnets ...v1alpha1.ResolvedSubnet) {
	s.Helper()
	var n v1alpha1.NodeENI
	s.must(c.Get(s.Context(), client.ObjectKey{Name: "data"}, &n))
	n.Status.Subnets = subnets
	s.must(c.Status().Update(s.Context(), &n))
}

// settings returns the agent's settings of the only interface.
func (s *stage) settings() v1alpha1.InterfaceState {
	s.Helper()
	var state v1alpha1.NodeENIState
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
	if len(state.Status.Interfaces) != 1 {
		s.Fatalf("the state has the interfaces %+v", state.Status.Interfaces)
	}
	i := state.Status.Interfaces[0]
	return v1alpha1.InterfaceState{
		ENIID: i.ENIID, MACAddress: i.MACAddress, MTU: i.MTU, AddressMode: i.AddressMode, Sysctls: i.Sysctls, Required: i.Required,
		SubnetCIDR: i.SubnetCIDR, DPDKDriver: i.DPDKDriver, DPDKResourceName: i.DPDKResourceName, DPDKPCIAddress: i.DPDKPCIAddress,
		Pods: i.Pods,
	}
}
