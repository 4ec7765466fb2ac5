// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/podhost"
)

// virtual is an address that pods of zone 0 bring up, and virtualRange the range around it in the blue subnet.
var (
	virtual      = netip.MustParseAddr("10.0.63.130")
	virtualRange = "10.0.63.128/28"
)

// network is the name of the pod network, after its NodeENI.
const network = "pods"

// forPods asks for a blue interface whose prefixes give pods their addresses, and lets virtual addresses follow pods.
func forPods() *v1alpha1.NodeENI {
	nodeENI := both()
	nodeENI.Name = network
	nodeENI.Spec.SubnetIDs = []string{subnet(0, 1), subnet(1, 1)}
	nodeENI.Spec.Pods = &v1alpha1.NodeENIPods{
		Attachment: v1alpha1.PodAttachmentIPVLAN, Floating: []string{virtualRange},
		IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1, Max: 3}, Spare: ptr.To[int32](8)},
	}
	return nodeENI
}

// reserving declares a block of the blue subnets for prefixes, and the range of virtual addresses.
func reserving() []*v1alpha1.SubnetReservation {
	return []*v1alpha1.SubnetReservation{
		{ObjectMeta: metav1.ObjectMeta{Name: "prefixes"}, Spec: v1alpha1.SubnetReservationSpec{
			SubnetIDs: []string{subnet(0, 1), subnet(1, 1)}, Type: v1alpha1.SubnetReservationPrefix, PrefixLength: ptr.To[int32](24),
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "virtual"}, Spec: v1alpha1.SubnetReservationSpec{
			SubnetIDs: []string{subnet(0, 1)}, Type: v1alpha1.SubnetReservationExplicit, CIDRs: []string{virtualRange},
		}},
	}
}

// declared are the reservations of both, as EC2 must have them: the highest free /24 is that below the virtual range.
func declared() []string {
	return []string{
		subnet(0, 1) + " explicit " + virtualRange + " for virtual",
		subnet(0, 1) + " prefix 10.0.62.0/24 for prefixes",
		subnet(1, 1) + " prefix 10.0.159.0/24 for prefixes",
	}
}

// podStage is a stage on which nodes have pods.
type podStage struct {
	*stage
	hosts []*podhost.Host
}

// setPodStage starts the agents of some nodes.
func setPodStage(t *testing.T, nodes int) *podStage {
	t.Helper()
	s := &podStage{stage: setStage(t, simulate(t, fleet("node"), speed, nil), speed)}
	s.join(0)
	for n := range nodes {
		s.hosts = append(s.hosts, podhost.Start(t, podhost.Options{
			Node: nodeName("node", n), InstanceID: instanceID(0, n), API: s.Config, EC2: s.cloud.State,
		}))
	}
	return s
}

// until waits for a condition, while no pod may be harmed.
func (s *podStage) until(what string, condition func() (instead string)) {
	s.Helper()
	s.eventually(afterwards, what, func() string {
		if harm := podhost.Harm(s.cloud.State(), s.hosts...); harm != "" {
			s.Fatalf("before %s: %s", what, harm)
		}
		return condition()
	})
}

// start starts pods of a node, and waits for free addresses.
func (s *podStage) start(node, from, to int) {
	s.Helper()
	s.until(fmt.Sprintf("pods %d to %d of node %d run", from, to-1, node), func() string {
		for ; from < to; from++ {
			if err := s.hosts[node].StartPod(network, podName(node, from)); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}

func (s *podStage) end(node, from, to int) {
	s.Helper()
	for n := from; n < to; n++ {
		s.hosts[node].EndPod(podName(node, n))
	}
}

func podName(node, n int) string { return fmt.Sprintf("pod-%d-%d", node, n) }

// prefixesOf waits until the interface of a node has a number of prefixes.
func (s *podStage) prefixesOf(node, want int) {
	s.Helper()
	s.until(fmt.Sprintf("node %d has %d prefixes", node, want), func() string {
		for _, i := range s.cloud.State().NetworkInterfaces {
			if i.Tags[identity.TagNode] == nodeName("node", node) && len(i.IPv4Prefixes) == want {
				return ""
			}
		}
		return "it has another number"
	})
}

// deliversTo waits until EC2 delivers the virtual address to one interface alone, that of a node; -1 for none.
func (s *podStage) deliversTo(node int) {
	s.Helper()
	var want []string
	for _, i := range s.cloud.State().NetworkInterfaces {
		if node >= 0 && i.Tags[identity.TagNode] == nodeName("node", node) {
			want = append(want, i.NetworkInterfaceID)
		}
	}
	s.until(fmt.Sprintf("the virtual address is on %v", want), func() string {
		return cmp.Diff(want, podhost.HoldersOf(s.cloud.State(), virtual))
	})
	s.until("its FloatingAddress says the same", func() string {
		var object v1alpha1.FloatingAddress
		err := s.kube.Get(s.Context(), client.ObjectKey{Name: v1alpha1.FloatingAddressName(subnet(0, 1), virtual.String())}, &object)
		a := object.Status.Assignment
		switch {
		case node < 0 && apierrors.IsNotFound(err), node >= 0 && err == nil && a != nil && a.ENIID == want[0] && a.Sequence == object.Status.Sequence:
			return ""
		default:
			return fmt.Sprintf("%v: %+v", err, object.Status)
		}
	})
}

// reserves waits until EC2 has exactly these reservations, each once.
func (s *podStage) reserves(want []string) {
	s.Helper()
	s.until(fmt.Sprintf("EC2 has %d reservations", len(want)), func() string {
		return cmp.Diff(append([]string{}, want...), reserved(s.cloud.State()))
	})
}

func reserved(state ec2.State) []string {
	lines := []string{}
	for _, r := range state.SubnetCIDRReservations {
		lines = append(lines, fmt.Sprintf("%s %s %s for %s", r.SubnetID, r.ReservationType, r.CIDR, r.Tags[identity.TagSubnetReservation]))
	}
	slices.Sort(lines)
	return lines
}

// unreserve deletes a SubnetReservation.
func (s *podStage) unreserve(name string) {
	s.Helper()
	s.must(s.kube.Delete(s.Context(), &v1alpha1.SubnetReservation{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// reservationsGone waits until no SubnetReservation of the names is left.
func (s *podStage) reservationsGone(names ...string) {
	s.Helper()
	s.until(strings.Join(names, " and ")+" are gone", func() string {
		for _, name := range names {
			var object v1alpha1.SubnetReservation
			if err := s.kube.Get(s.Context(), client.ObjectKey{Name: name}, &object); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s is there: %v %+v", name, err, object.Status)
			}
		}
		return ""
	})
}

// wantedFor lists the interfaces of nodes with pods.
func wantedFor(nodes ...int) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, nodeName("node", n))
	}
	return wanted(all, forPods())
}

// closes waits until the pod network of a node takes no further pods: the agent knows that it is closed.
func (s *podStage) closes(node int) {
	s.Helper()
	s.until(fmt.Sprintf("the pod network of node %d closes", node), func() string {
		for _, n := range s.objects(nodeName("node", node)) {
			closed := n.DeletionTimestamp != nil || n.Spec.Pods != nil && n.Spec.Pods.Closed
			if closed && n.Status.Node != nil && n.Status.Node.ObservedGeneration == n.Generation {
				return ""
			}
		}
		return fmt.Sprintf("%+v", s.objects(nodeName("node", node)))
	})
}
