// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// follow makes the NodeENI follow addresses of pods, and the agent of the node report none yet.
func (s *stage) follow(pods *v1alpha1.NodeENIPods) {
	s.Helper()
	s.both(func(c client.Client) {
		s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods })
		var nodeENI v1alpha1.NodeENI
		s.must(c.Get(s.Context(), client.ObjectKey{Name: "data"}, &nodeENI))
		nodeENI.Status.Subnets = []v1alpha1.ResolvedSubnet{{ID: data, Zone: zone, CIDR: "10.0.1.0/24"}}
		s.must(c.Status().Update(s.Context(), &nodeENI))
	})
	s.must(s.play(2 * time.Minute))
}

// TestAnInterfaceKeepsTheRangesOfASubnetThatItsNodeENINoLongerSelects changes the subnet of a NodeENI whose interface
// stays, and deletes the state that contained the ranges: the agent still reads them.
func TestAnInterfaceKeepsTheRangesOfASubnetThatItsNodeENINoLongerSelects(t *testing.T) {
	onStage(t, func(s *stage) {
		s.follow(&v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved, Floating: []string{"10.0.1.192/26"}})
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{hosts} })
			s.resolved(c, v1alpha1.ResolvedSubnet{ID: hosts, Zone: zone, CIDR: "10.0.0.0/24"})
		})
		for _, act := range []func(){
			func() {},
			func() { s.must(s.cache.Delete(s.Context(), &v1alpha1.NodeENIState{ObjectMeta: objectMeta(nodeName)})) },
		} {
			act()
			s.must(s.play(2 * time.Minute))
			if got := s.served(); got.SubnetID != data || got.SubnetCIDR != "10.0.1.0/24" ||
				!slices.Equal(got.Pods.Floating, []string{"10.0.1.192/26"}) {
				s.Errorf("the interface in %s has range %q, and addresses of %q follow pods", got.SubnetID, got.SubnetCIDR,
					got.Pods.Floating)
			}
		}
	})
}

// Without pods.floating the addresses follow pods within the blocks that are reserved for explicitly requested
// addresses.
func TestExplicitReservationsAreRangesOfPods(t *testing.T) {
	onStage(t, func(s *stage) {
		s.both(func(c client.Client) {
			for name, kind := range map[string]v1alpha1.SubnetReservationType{"vips": v1alpha1.SubnetReservationExplicit, "prefixes": v1alpha1.SubnetReservationPrefix} {
				r := &v1alpha1.SubnetReservation{ObjectMeta: objectMeta(name), Spec: v1alpha1.SubnetReservationSpec{Type: kind}}
				r.Status.Reservations = []v1alpha1.ReservedBlock{
					{SubnetID: data, CIDR: "10.0.1.192/27", ID: "scr-1"}, {SubnetID: hosts, CIDR: "10.0.0.192/27", ID: "scr-2"}, {SubnetID: data, CIDR: "10.0.1.224/27"},
					{SubnetID: data, CIDR: "10.0.1.160/27", ID: "scr-3", Reason: "Releasing"},
				}
				s.must(c.Create(s.Context(), r))
			}
		})
		s.follow(&v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved})
		if got := s.served().Pods.Floating; !slices.Equal(got, []string{"10.0.1.192/27"}) {
			t.Errorf("the agent has the ranges %v", got)
		}
	})
}

// One NodeENI has interfaces in several subnets. The agent gets the ranges within the subnet of its interface, 10.0.1.0/24.
func TestTheAgentGetsTheRangesOfTheSubnet(t *testing.T) {
	for name, c := range map[string]struct{ declared, want []string }{
		"a range in each subnet":              {[]string{"10.0.0.192/26", "10.0.1.192/26"}, []string{"10.0.1.192/26"}},
		"a range around all subnets":          {[]string{"10.0.0.0/16"}, []string{"10.0.1.0/24"}},
		"two ranges around it, and one in it": {[]string{"10.0.0.0/16", "10.0.0.0/20", "10.0.1.192/26"}, []string{"10.0.1.0/24", "10.0.1.192/26"}},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.follow(&v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved, Floating: c.declared})
				if got := s.served().Pods.Floating; !slices.Equal(got, c.want) {
					t.Errorf("the agent has the ranges %v, want %v", got, c.want)
				}
			})
		})
	}
}
