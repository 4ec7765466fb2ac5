// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/text"
)

// podStatusDelay is the time between two writes of a NodeENI's status that differ only in the use of addresses: pods
// start and stop all the time.
const podStatusDelay = 15 * time.Second

// attachments is the state of the NetworkAttachmentDefinitions of a NodeENI, unknown before the controller read them.
type attachments struct {
	controller.AttachmentResult
	known bool
}

// podNetwork is the pod network of one interface as its node's agent reports it.
type podNetwork struct {
	v1alpha1.PodNetworkState
	node string
	// limit says that the interface takes fewer prefixes or addresses than pods need, or that pods on two nodes have one
	// address; "" for neither.
	limit string
}

// podNetworks returns the pod networks of the NodeENI, in the order of nodes. If an instance's Node got another name,
// two states can have reports: the one of the state that lists the interface counts. The argument floating has, by
// interface ID, why an address of a pod is not where its pod is.
func podNetworks(interfaces []located, states []v1alpha1.NodeENIState, floating map[string]string) []podNetwork {
	type report struct{ node, eni string }
	reports := map[report]podNetwork{}
	for _, s := range states {
		for _, network := range s.Status.PodNetworks {
			reports[report{s.Name, network.ENIID}] = podNetwork{PodNetworkState: network, node: s.Name}
		}
	}
	var all []podNetwork
	for _, i := range interfaces {
		if network, reported := reports[report{i.node, i.ENIID}]; reported && i.ENIID != "" {
			network.limit = floating[i.ENIID]
			if plan.Reason(i.Reason) == plan.PrefixesLimited {
				network.limit = i.Message
			}
			all = append(all, network)
		}
	}
	return all
}

// countPods adds up the networks; nil for a NodeENI without pods.
func countPods(nodeENI *v1alpha1.NodeENI, networks []podNetwork) *v1alpha1.PodNetworkCounts {
	if nodeENI.Spec.Pods == nil {
		return nil
	}
	counts := &v1alpha1.PodNetworkCounts{Networks: int32(len(networks))}
	counts.Ready = int32(ready(networks))
	for _, n := range networks {
		counts.Used, counts.Free, counts.Prefixes = counts.Used+n.Used, counts.Free+n.Free,
			counts.Prefixes+int32(len(n.Prefixes))
		for _, prefix := range n.Prefixes {
			if prefix.Phase != v1alpha1.PodPrefixActive {
				counts.Draining++
			}
		}
	}
	return counts
}

// podCondition returns the condition PodNetworkReady; none for a NodeENI that has no pods and no definitions.
func podCondition(nodeENI *v1alpha1.NodeENI, f facts, attached int32, interfaces []located,
	networks []podNetwork) []metav1.Condition {
	if nodeENI.Spec.Pods == nil {
		before := meta.FindStatusCondition(nodeENI.Status.Conditions, v1alpha1.ConditionPodNetworkReady)
		if before == nil || f.attachments.known && f.attachments.Reason == "" {
			return nil
		}
		return []metav1.Condition{*before} // the condition marks NodeENIs with definitions to delete
	}
	c := metav1.Condition{Type: v1alpha1.ConditionPodNetworkReady, Status: metav1.ConditionFalse}
	c.Reason, c.Message = podProblem(f.attachments, attached, interfaces, networks)
	if !nodeENI.DeletionTimestamp.IsZero() && !isUnknown(c.Reason) {
		c.Reason = v1alpha1.ReasonNetworkDraining
		c.Message = "no further pod can attach, because the NodeENI is being deleted"
	}
	if c.Reason == "" {
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonNetworkReady
		c.Message = fmt.Sprintf("pods can attach to %s; %s", text.Count(ready(networks), "interface"),
			text.Count(f.attachments.Definitions, "NetworkAttachmentDefinition"))
		if at := slices.IndexFunc(networks, func(n podNetwork) bool { return n.limit != "" }); at >= 0 {
			c.Message += fmt.Sprintf("; node %s: %s", networks[at].node, networks[at].limit)
		}
	}
	return []metav1.Condition{c}
}

// podProblem says why pods cannot attach everywhere; empty if they can.
func podProblem(definitions attachments, attached int32, interfaces []located,
	networks []podNetwork) (reason, message string) {
	switch {
	case !definitions.known:
		return v1alpha1.ReasonAttachmentDefinitionsPending,
			"the controller has not yet read the NetworkAttachmentDefinitions"
	case definitions.Reason != "":
		return definitions.Reason, definitions.Message
	case attached == 0:
		return v1alpha1.ReasonNoInterfaces, "no interface is attached yet"
	}
	for _, n := range networks {
		if !n.Ready && n.Reason != v1alpha1.ReasonNetworkDraining {
			return n.Reason, n.explain()
		}
	}
	for _, i := range interfaces {
		reported := slices.ContainsFunc(networks, func(n podNetwork) bool { return n.ENIID == i.ENIID })
		if i.Pods != nil && i.Pods.Opened && !reported {
			return v1alpha1.ReasonNetworkReportMissing, fmt.Sprintf("node %s: pods may use %s, and the agent of the node no "+
				"longer reports its network; the interface stays until an agent does: install the chart with pods.enabled=true",
				i.node, i.ENIID)
		}
	}
	if missing := int(attached) - len(networks); missing > 0 {
		return v1alpha1.ReasonNetworkPending,
			fmt.Sprintf("%s without a report of its node's agent; agents report pod networks with pods.enabled=true of the "+
				"chart",
				text.Count(missing, "attached interface"))
	}
	return limitation(networks)
}

// limitation says why pods that can attach do not have all that the NodeENI declares; empty if they do. While some
// networks drain, pods attach to the others.
func limitation(networks []podNetwork) (reason, message string) {
	if ready(networks) == 0 {
		return v1alpha1.ReasonNetworkDraining, fmt.Sprintf("no further pod can attach, because all interfaces will be "+
			"removed: %s", text.Count(len(networks), "interface"))
	}
	for _, n := range networks {
		switch n.Reason {
		case v1alpha1.ReasonPodsWithoutLink, v1alpha1.ReasonAddressesNotObserved:
			return n.Reason, n.explain()
		}
	}
	return "", ""
}

func (n podNetwork) explain() string { return fmt.Sprintf("node %s: %s", n.node, n.Message) }

// ready returns the number of networks to which pods can attach.
func ready(networks []podNetwork) (count int) {
	for _, n := range networks {
		if n.Ready {
			count++
		}
	}
	return count
}

// onlyUse reports whether two statuses differ only in the use of addresses.
func onlyUse(before, after v1alpha1.NodeENIStatus) bool {
	if before.PodNetworks == nil || after.PodNetworks == nil || equality.Semantic.DeepEqual(before, after) {
		return false
	}
	before.PodNetworks, after.PodNetworks = nil, nil
	return equality.Semantic.DeepEqual(before, after)
}

// podsDue returns the time until the next write of a status that differs from the stored one only in the use of
// addresses; zero for any other status.
func (r *Reconciler) podsDue(nodeENI *v1alpha1.NodeENI, after v1alpha1.NodeENIStatus) time.Duration {
	if !onlyUse(nodeENI.Status, after) {
		return 0
	}
	return r.bursts.since(nodeENI.Name, podStatusDelay, r.Now())
}

// announcePods emits an Event when pods need a person: they have lost their link, or the agent of a node begins to run
// without pod networks although pods may use an interface, so that neither they nor a removal can proceed.
func (r *Reconciler) announcePods(nodeENI *v1alpha1.NodeENI, before v1alpha1.NodeENIStatus) {
	now := meta.FindStatusCondition(nodeENI.Status.Conditions, v1alpha1.ConditionPodNetworkReady)
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionPodNetworkReady)
	announced := now != nil && (isUnknown(now.Reason) || now.Reason == v1alpha1.ReasonPodsWithoutLink)
	if r.Events == nil || !announced || was != nil && was.Reason == now.Reason {
		return
	}
	r.Events.Eventf(nodeENI, nil, corev1.EventTypeWarning, now.Reason, "Report", "%s", now.Message)
}

// isUnknown reports whether a reason says that the pods of an interface are not known, so that its removal waits.
func isUnknown(reason string) bool {
	return reason == v1alpha1.ReasonPodNetworksDisabled || reason == v1alpha1.ReasonNetworkReportMissing
}
