// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/executor"
)

// virtual is an address in the NodeENI's subnet that pods bring up.
const virtual = "10.0.1.200"

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

// claim has the agent report that a pod has the address.
func (s *stage) claim(sequence int64) {
	s.Helper()
	s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Used: 1, Claims: []v1alpha1.PodAddressClaim{{
		Address: virtual, Sequence: sequence, Since: metav1.NowMicro(), PodIP: "10.1.0.1",
	}}})
	s.must(s.play(time.Minute))
}

// claimElsewhere has another node report that a pod there has the address, and returns how to end that.
func (s *stage) claimElsewhere() (end func()) {
	s.Helper()
	other := s.served()
	other.ENIID = "eni-00000000000000abc"
	state := &v1alpha1.NodeENIState{
		ObjectMeta: objectMeta("node-9"), Spec: v1alpha1.NodeENIStateSpec{InstanceID: nextInstanceID},
		Status: v1alpha1.NodeENIStateStatus{
			Interfaces: []v1alpha1.InterfaceState{other},
			PodNetworks: []v1alpha1.PodNetworkState{{
				Network: "data", NodeENI: "data", ENIID: other.ENIID,
				Claims: []v1alpha1.PodAddressClaim{{Address: virtual, Sequence: 1, Since: metav1.NowMicro(), PodIP: "10.1.9.1"}},
			}},
		},
	}
	status := state.Status
	s.must(s.cache.Create(s.Context(), state))
	state.Status = status
	s.must(s.cache.Status().Update(s.Context(), state))
	s.must(s.play(time.Minute))
	return func() { s.must(s.cache.Delete(s.Context(), state)) }
}

// hasVirtual reports whether EC2 has the address on the interface of the node.
func (s *stage) hasVirtual() bool {
	s.Helper()
	return slices.ContainsFunc(s.networkInterface(s.attached()[0]).PrivateIPAddresses, func(a ec2.PrivateIPAddress) bool {
		return a.PrivateIPAddress.String() == virtual
	})
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

func TestAnAddressFollowsThePod(t *testing.T) {
	onStage(t, func(s *stage) {
		s.follow(&v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved, Floating: []string{"10.0.1.192/26"}})
		if got := s.served().Pods.Floating; !slices.Equal(got, []string{"10.0.1.192/26"}) {
			t.Errorf("the agent has the ranges %v", got)
		}
		s.claim(1)
		if !s.hasVirtual() {
			t.Fatal("the interface does not have the address of the pod")
		}
		s.restart()
		s.must(s.play(10 * time.Minute))
		if !s.hasVirtual() {
			t.Fatal("the interface lost the address of the pod with a restart")
		}
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods.Floating = []string{"10.0.1.64/26"} })
		})
		s.must(s.play(10 * time.Minute))
		if !s.hasVirtual() {
			t.Fatal("the interface lost the address of the pod with an edit of the ranges")
		}
		s.reportNetwork(v1alpha1.PodNetworkState{Ready: true})
		s.must(s.play(10 * time.Minute))
		if s.hasVirtual() {
			t.Error("the interface keeps the address of a pod that is gone")
		}
	})
}

func TestAnAddressOutsideTheRangesIsNotMoved(t *testing.T) {
	onStage(t, func(s *stage) {
		s.follow(&v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved, Floating: []string{"10.0.1.64/26"}})
		s.claim(1)
		if s.hasVirtual() {
			t.Error("the address of the pod was moved")
		}
	})
}

func TestTwoPodsWithOneAddress(t *testing.T) {
	onStage(t, func(s *stage) {
		s.follow(&v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved, Floating: []string{"10.0.1.192/26"}})
		s.claim(1)
		end := s.claimElsewhere()
		i := s.served()
		if i.Reason != string(plan.Contended) || !strings.Contains(i.Message, "10.1.0.1") || !strings.Contains(i.Message, "10.1.9.1") {
			t.Errorf("the interface says %s: %s", i.Reason, i.Message)
		}
		s.takeVirtual()
		s.must(s.play(10 * time.Minute))
		if s.hasVirtual() {
			t.Error("the interface takes the address back from the newer claim")
		}
		end()
		s.must(s.play(10 * time.Minute))
		if i := s.served(); !s.hasVirtual() || i.Reason != "" {
			t.Errorf("after the other pod the interface says %s: %s", i.Reason, i.Message)
		}
	})
}

// takeVirtual has another interface take the address.
func (s *stage) takeVirtual() {
	s.Helper()
	other, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{SubnetID: data, Groups: []string{group}, Token: "other"})
	s.must(err)
	s.must(s.cloud.ReassignIPv4(s.Context(), other.ID, []netip.Addr{netip.MustParseAddr(virtual)}))
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
		s.claim(1)
		if !s.hasVirtual() {
			t.Error("the interface does not have the address of the pod")
		}
	})
}

// TestAPodThatTakesOneAddressAfterAnother has a pod take another address every 100 ms. The reads of the instance and
// the moves are two seconds apart, and the address that the pod keeps is assigned at the end of the wait.
func TestAPodThatTakesOneAddressAfterAnother(t *testing.T) {
	onStage(t, func(s *stage) {
		s.follow(&v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved, Floating: []string{"10.0.1.128/25"}})
		const lasting, tick = time.Minute, 100 * time.Millisecond
		reconcile := func() time.Duration {
			result, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
			s.must(err)
			s.drainChanged()
			return result.RequeueAfter
		}
		take := func(n int) string {
			address := fmt.Sprintf("10.0.1.%d", 128+n%100)
			s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Used: 1, Claims: []v1alpha1.PodAddressClaim{{
				Address: address, Sequence: int64(n + 1), Since: metav1.NowMicro(), PodIP: "10.1.0.1",
			}}})
			return address
		}
		s.ec2.ResetCalls()
		n := 0
		for begin := time.Now(); time.Since(begin) < lasting; time.Sleep(tick) {
			take(n)
			reconcile()
			n++
		}
		calls, most := s.ec2.Calls().Actions, int(lasting/plan.MoveInterval)+1
		t.Logf("%d addresses: %+v", n, calls)
		if got := calls["DescribeInstances"].Count; got > most || got < most/2 {
			t.Errorf("%d reads of the instance, want at most %d", got, most)
		}
		if got := calls["DescribeNetworkInterfaces"].Count; got > 3*most {
			t.Errorf("%d reads of interfaces, want at most %d", got, 3*most)
		}
		if got := calls["AssignPrivateIpAddresses"].Count; got > most {
			t.Errorf("%d moves, want at most %d", got, most)
		}
		last := take(n)
		for range 3 {
			wait := reconcile()
			if wait == 0 || wait > plan.MoveInterval {
				break
			}
			time.Sleep(wait)
		}
		if !slices.ContainsFunc(s.networkInterface(s.attached()[0]).PrivateIPAddresses, func(a ec2.PrivateIPAddress) bool {
			return a.PrivateIPAddress.String() == last
		}) {
			t.Errorf("the interface does not have %s, which the pod kept", last)
		}
	})
}
