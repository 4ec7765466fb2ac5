// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/podhost"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// fixedRanges are the ranges of the fixed addresses, one in each data subnet.
var fixedRanges = []string{"10.0.95.128/25", "10.0.127.128/25"}

// fixedPods starts the pods of a StatefulSet with fixed addresses, several on each node. Agents run, with the API
// server's latency.
func fixedPods(s *stage) {
	s.Helper()
	hosts := s.grant()
	s.EC2.ResetCalls()

	s.enter("pods start", func() float64 { return 0.5 })
	began, waiting := time.Now(), 0
	for n := range scenario.FixedPodsPerNode {
		for at, host := range hosts {
			ordinal := at*scenario.FixedPodsPerNode + n
			if err := host.StartPodThatAsks("data", fmt.Sprintf("upf-%d", ordinal), fixed()); err != nil {
				s.Logf("pod upf-%d of node %s: %v", ordinal, host.Node, err)
				waiting++
			}
		}
		time.Sleep(scenario.FixedPodsApart)
	}
	time.Sleep(settle)
	calls := s.EC2.Calls()
	s.measured[scenario.Mutating] = float64(calls.Mutating.Count)
	slowest := time.Duration(0)
	for _, change := range s.controller.Changes(began) {
		slowest = max(slowest, change.At.Sub(began))
	}
	s.measured[scenario.SlowestAddress] = slowest.Seconds()
	for _, host := range hosts {
		for _, pod := range host.Pods() {
			if !slices.Equal(podhost.HoldersOf(s.EC2.State(), pod.Address), []string{pod.ENI}) {
				waiting++
			}
		}
	}
	s.measured[scenario.PodsWaiting] = float64(waiting)
	s.compare(scenario.Strays)
}

// grant reserves the ranges, grants them to the pods of NodeENI data, and starts the nodes with their agents.
func (s *stage) grant() (hosts []*podhost.Host) {
	s.Helper()
	s.open()
	for z, block := range fixedRanges {
		s.Must(s.User.Create(s.Context(), &v1alpha1.SubnetReservation{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fixed-%d", z)},
			Spec: v1alpha1.SubnetReservationSpec{SubnetIDs: bubble.SubnetIDs("data")[z : z+1],
				Type: v1alpha1.SubnetReservationExplicit, CIDRs: []string{block}, DeletionPolicy: v1alpha1.DeletionPolicyDelete},
		}))
	}
	s.await(time.Minute, "the reserved ranges", func() bool {
		return len(s.EC2.State().SubnetCIDRReservations) == len(fixedRanges)
	})
	s.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) {
		n.Spec.Pods = &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, Floating: fixedRanges,
			IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1, Max: mostPrefixes}, Spare: ptr.To[int32](1)}}
	})
	s.arrive(s.Nodes)
	s.enter("set-up", s.readyPart)
	s.awaitReady(s.Nodes)
	for _, node := range s.nodes() {
		hosts = append(hosts, podhost.Start(s.T, podhost.Options{Node: node.Name, InstanceID: bubble.InstanceOf(&node),
			API: s.Agent(), EC2: s.EC2.State}))
	}
	time.Sleep(settle)
	return hosts
}

// fixed is the request of each pod.
func fixed() podnet.Request {
	var r podnet.Request
	for _, block := range fixedRanges {
		r.Fixed = append(r.Fixed, netip.MustParsePrefix(block))
	}
	return r
}
