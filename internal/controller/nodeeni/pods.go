// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/text"
)

// attachments is the state of the NetworkAttachmentDefinitions of a NodeENI, unknown before the controller read them.
type attachments struct {
	controller.AttachmentResult
	known bool
}

// podNetwork is the pod network of one interface as its node's agent reports it.
type podNetwork struct {
	*v1alpha1.PodsReport
	located
	// limit says that the interface takes fewer prefixes or addresses than pods need, or that pods on two nodes have one
	// address; "" for neither.
	limit string
}

// podNetworks returns the pod networks of the NodeENI, in the order of nodes. The argument floating has, by interface
// ID, why an address of a pod is not where its pod is.
func podNetworks(interfaces []located, floating map[string]string) []podNetwork {
	var all []podNetwork
	for _, i := range interfaces {
		if i.Status.Node == nil || i.Status.Node.Pods == nil {
			continue
		}
		network := podNetwork{PodsReport: i.Status.Node.Pods, located: i, limit: floating[i.Status.ENIID]}
		if plan.Reason(i.reason) == plan.PrefixesLimited {
			network.limit = i.message
		}
		all = append(all, network)
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
	open := 0
	for _, n := range networks {
		counts.Used, counts.Free = counts.Used+n.PodsReport.Used, counts.Free+n.PodsReport.Free
		if granted := n.located.Status.Pods; granted != nil {
			counts.Prefixes += int32(len(granted.Prefixes) + len(granted.Returning))
			if !closing(n.located.NetworkInterface) {
				open += len(n.located.UsablePrefixes())
			}
		}
	}
	counts.Draining = counts.Prefixes - int32(open)
	return counts
}

// closing reports whether an interface takes no further pods, because it will be removed.
func closing(o *v1alpha1.NetworkInterface) bool {
	return !o.DeletionTimestamp.IsZero() || o.Spec.Pods != nil && o.Spec.Pods.Closed
}

// endsWithPods reports whether an interface goes once the pods are gone that the agent of its node names.
func endsWithPods(o *v1alpha1.NetworkInterface) bool {
	return closing(o) && o.Held() && o.Status.Node != nil && o.Status.Node.Pods != nil && len(o.Status.Node.Pods.Pods) > 0
}

// maxPodNames is how much of a message the names of pods take, so that the API server accepts the message.
const maxPodNames = 600

// inUse says which pods use an interface that goes, and what ends that.
func (f facts) inUse(o *v1alpha1.NetworkInterface) string {
	var names []string
	for _, pod := range o.Status.Node.Pods.Pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	pods := clip(strings.Join(names, ", "), maxPodNames)
	if more := int(o.Status.Node.Pods.Used) - len(names); more > 0 {
		pods += fmt.Sprintf(" and %d more", more)
	}
	message := fmt.Sprintf("%s will be removed, and is not detached while pods have addresses of it: %s",
		o.Status.ENIID, pods)
	isEvicted := slices.ContainsFunc(f.outcome.Evict, func(e fleet.Object) bool { return e.Name == o.Name })
	switch {
	case isEvicted:
		return message + "; multieni evicts them"
	case o.Spec.Pods != nil && o.Spec.Pods.OnRemoval == v1alpha1.PodsEvict:
		return message + fmt.Sprintf("; multieni evicts pods on no more than %s at a time (maxUnavailable)",
			text.Count(max(1, f.nodeENI.MaxUnavailable), "node"))
	default:
		return message + "; delete or move the pods, or set pods.onRemoval: Evict"
	}
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
			c.Message += fmt.Sprintf("; node %s: %s", networks[at].node(), networks[at].limit)
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
		if i.Spec.Pods != nil && i.Held() && (i.Status.Node == nil || i.Status.Node.Pods == nil) {
			return v1alpha1.ReasonNetworkReportMissing, fmt.Sprintf("node %s: pods may use %s, and the agent of the node does "+
				"not report its network; the interface stays until an agent does: install the chart with pods.enabled=true",
				i.node(), i.Status.ENIID)
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

func (n podNetwork) explain() string { return fmt.Sprintf("node %s: %s", n.node(), n.Message) }

// ready returns the number of networks to which pods can attach.
func ready(networks []podNetwork) (count int) {
	for _, n := range networks {
		if n.Ready {
			count++
		}
	}
	return count
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
