// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1ac "github.com/multieni/multieni/api/applyconfiguration/api/v1alpha1"
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/test/bench/scenario"
)

const (
	// reportInterval is the time between two reports of an agent about pods, and podsPerReport how many start meanwhile.
	// Twice as many are more than the spare addresses and the rest of a prefix: if a prefix comes one report late, pods
	// find no address.
	reportInterval, podsPerReport = 5 * time.Second, 8
	// looksPerPod is how often the bench looks for new prefixes between two pods.
	looksPerPod = 5
	// mostPrefixes is the limit of the instance type.
	mostPrefixes = 14
)

// podsInPreparedPrefixes starts pods on nodes that already have prefixes for all of them and for the spare addresses.
func podsInPreparedPrefixes(s *stage) { startPods(s, scenario.PrefixesPerNode) }

// podsInGrowingPrefixes starts pods on nodes that have one prefix at first.
func podsInGrowingPrefixes(s *stage) {
	slowest := startPods(s, 1)
	s.measured[scenario.SlowestPrefix] = slowest.Seconds()
}

// startPods starts pods on each node, in the pod network of NodeENI data with a minimum number of prefixes. It returns
// the longest time from a report with too few free addresses to the next prefix.
func startPods(s *stage, prefixes int32) (slowest time.Duration) {
	s.Helper()
	s.open()
	s.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) {
		n.Spec.Pods = &v1alpha1.NodeENIPods{
			Attachment: v1alpha1.PodAttachmentIPVLAN,
			IPv4: &v1alpha1.PodIPv4{
				Prefixes: v1alpha1.PodIPv4Prefixes{Min: prefixes, Max: mostPrefixes}, Spare: ptr.To[int32](scenario.SparePerNode),
			},
		}
	})
	s.arrive(s.Nodes)
	s.enter("set-up", s.readyPart)
	s.awaitReady(s.Nodes)
	var hosts []*podHost
	for _, node := range s.nodes() {
		hosts = append(hosts, &podHost{stage: s, name: node.Name})
	}
	report(hosts)
	time.Sleep(settle)
	s.EC2.ResetCalls()

	begun, waited := time.Now(), 0
	s.enter("pods start", func() float64 {
		return 0.9 * min(1, time.Since(begun).Seconds()/(scenario.PodsPerNode*reportInterval.Seconds()/podsPerReport))
	})
	for n := 1; n <= scenario.PodsPerNode; n++ {
		for _, host := range hosts {
			if !host.start("pod-" + strconv.Itoa(n)) {
				waited++
			}
		}
		for range looksPerPod {
			time.Sleep(reportInterval / podsPerReport / looksPerPod)
			for _, host := range hosts {
				slowest = max(slowest, host.waited())
			}
		}
		if n%podsPerReport == 0 || n == scenario.PodsPerNode {
			report(hosts)
		}
	}
	time.Sleep(settle)
	calls := s.EC2.Calls()
	s.measured[scenario.Mutating] = float64(calls.Mutating.Count)
	s.measured[scenario.PodsWaiting] = float64(waited)
	s.measured[scenario.MostPrefixes] = 0
	for _, host := range hosts {
		have := len(host.network().IPv4.Prefixes)
		s.measured[scenario.MostPrefixes] = max(s.measured[scenario.MostPrefixes], float64(have))
	}
	s.compare(scenario.Strays)
	return slowest
}

func report(hosts []*podHost) {
	for _, host := range hosts {
		host.report()
	}
}

// podHost is a node that gives pods addresses by the same decisions as its agent and multieni-ipam, without files and
// links.
type podHost struct {
	*stage
	name   string
	leases []podnet.Lease
	// lacking is since when the node waits for its next prefix, after how many: the time of the first report with too few
	// free addresses. It is zero if the node does not wait.
	lacking time.Time
	had     int
}

// waited returns how long the node waits, or waited, for a prefix.
func (h *podHost) waited() time.Duration {
	if h.lacking.IsZero() {
		return 0
	}
	waited := time.Since(h.lacking)
	if len(h.network().IPv4.Prefixes) > h.had {
		h.lacking = time.Time{}
	}
	return waited
}

// object returns the interface with the pod network of the node.
func (h *podHost) object() *v1alpha1.NetworkInterface {
	h.Helper()
	interfaces := h.Interfaces(h.name)
	n := slices.IndexFunc(interfaces, func(n v1alpha1.NetworkInterface) bool { return n.Spec.Pods != nil })
	if n < 0 {
		h.Fatalf("node %s has no pod network", h.name)
	}
	return &interfaces[n]
}

// network returns the pod network of the node.
func (h *podHost) network() podnet.Network {
	h.Helper()
	network, _ := agent.Network(h.object(), h.name, 9001)
	network.Phase = podnet.Open // no agent runs that opens it
	return network
}

// start gives a pod an address, if one is free.
func (h *podHost) start(pod string) bool {
	h.Helper()
	mine, err := h.network().Allocate(h.leases, nil,
		podnet.Holder{ContainerID: pod, Interface: "net1", PodNamespace: "default", Pod: pod}, podnet.Request{}, time.Now())
	h.leases = append(h.leases, mine...)
	return err == nil
}

// report writes the report of the agent.
func (h *podHost) report() {
	h.Helper()
	n := h.object()
	network, _ := agent.Network(n, h.name, 9001)
	use := network.Usage(h.leases, time.Now())
	declared := n.Spec.Pods.IPv4
	demand := podnet.Demand{Min: int(declared.Min), Max: int(declared.Max), Spare: int(declared.Spare)}
	if use.IPv4.Free < scenario.SparePerNode && h.lacking.IsZero() {
		h.lacking, h.had = time.Now(), len(network.IPv4.Prefixes)
	}
	report := networkingv1alpha1ac.NodeReport().WithOpen(true).WithObservedGeneration(n.Generation).
		WithAgent(networkingv1alpha1ac.AgentProcess().WithBootID("boot").WithProcessID(h.name)).
		WithPods(networkingv1alpha1ac.PodsReport().WithReady(true).WithReason(v1alpha1.ReasonNetworkReady).
			WithWanted(int32(network.Wanted(h.leases, demand, time.Now()))).WithCapacity(int32(use.Capacity)).
			WithUsed(int32(use.IPv4.Used)).WithFree(int32(use.IPv4.Free)))
	apply := networkingv1alpha1ac.NetworkInterface(n.Name).
		WithStatus(networkingv1alpha1ac.NetworkInterfaceStatus().WithNode(report))
	h.Must(h.User.Status().Apply(h.Context(), apply, client.FieldOwner(v1alpha1.FieldOwnerAgent), client.ForceOwnership))
}
