// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/text"
)

// maxAttachments is how many attachments a NodeENI lists, so that no object grows with the fleet. It also lists at most
// maxSubnets subnets and maxGroups security groups; the messages of their conditions count all.
const (
	maxAttachments = 100
	maxSubnets     = 200
	maxGroups      = 64
)

// statusOf computes the status.
func statusOf(nodeENI *v1alpha1.NodeENI, f facts) v1alpha1.NodeENIStatus {
	counts := f.outcome.Status
	st := v1alpha1.NodeENIStatus{
		ObservedGeneration: nodeENI.Generation, Nodes: int32(len(f.nodes)), Desired: int32(counts.Desired),
		Attached: int32(counts.Attached), Ready: int32(counts.Ready), Blocked: int32(counts.Blocked),
		Drifted: int32(counts.Drifted), Turns: turnsOf(f.outcome.Turns),
	}
	interfaces := collect(f)
	listed := existingFirst(interfaces)
	for _, i := range listed {
		st.Attachments = append(st.Attachments, i.attachment())
	}
	st.AttachmentsOmitted = int32(counts.Omitted + len(interfaces) - len(listed))
	st.Subnets, st.SecurityGroups = resolvedSubnets(nodeENI, f), resolvedGroups(nodeENI, f)
	networks := podNetworks(interfaces, f.floating)
	st.PodNetworks = countPods(nodeENI, networks)
	subnets, groups := subnetCondition(f), groupCondition(f, interfaces)
	st.Conditions = status.Summarize(nodeENI.Status.Conditions, nodeENI.Generation,
		outcome(nodeENI, f, st, interfaces, subnets, groups),
		append([]metav1.Condition{subnets, groups},
			podCondition(nodeENI, f, max(st.Attached, int32(len(networks))), interfaces, networks)...)...)
	return st
}

// located is the interface of one object as the status says it.
type located struct {
	*v1alpha1.NetworkInterface
	phase           v1alpha1.Phase
	slot            v1alpha1.InterfaceSlot
	reason, message string
	// leaving is set if the NodeENI no longer declares the interface.
	leaving bool
}

// node returns the name of the node of an interface.
func (i located) node() string { return i.Spec.NodeName }

// collect returns the interfaces of the NodeENI in the order of nodes and slots.
func collect(f facts) []located {
	var all []located
	for n := range f.objects {
		if f.objects[n].Spec.Origin == v1alpha1.OriginDeclared {
			all = append(all, locate(&f.objects[n], f))
		}
	}
	slices.SortFunc(all, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.node(), b.node()), cmp.Compare(a.slot.NetworkCardIndex, b.slot.NetworkCardIndex),
			cmp.Compare(a.slot.DeviceIndex, b.slot.DeviceIndex), cmp.Compare(a.Spec.Ordinal, b.Spec.Ordinal))
	})
	return all
}

// locate returns the interface of an object with the reason why it is not as declared.
func locate(o *v1alpha1.NetworkInterface, f facts) located {
	i := located{
		NetworkInterface: o, phase: object.PhaseOf(o), slot: o.Spec.Slot, leaving: f.outcome.Status.Leaving[o.Name],
	}
	if o.Status.Slot != nil {
		i.slot = *o.Status.Slot
	}
	i.reason, i.message = object.ReasonOf(o)
	drift, drifted := f.outcome.Status.Drift[o.Name]
	switch refusal := f.refusals[o.Name]; {
	case refusal != "":
		i.reason, i.message = string(plan.EvictionRefused), "pods use it, and multieni tries to evict them again at least "+
			"every 2 minutes: "+refusal
	case (i.reason == "" || i.reason == string(plan.InUseByPods)) && endsWithPods(o):
		i.reason, i.message = string(plan.InUseByPods), f.inUse(o)
	case drifted && plan.Reason(i.reason).Transient():
		i.reason, i.message = string(drift.Reason), drift.Message
	case i.reason == "" && (!o.DeletionTimestamp.IsZero() || i.leaving):
		i.reason, i.message = string(plan.Removing), "it is being removed"
	}
	return i
}

// existingFirst returns at most as many interfaces as a NodeENI lists, in the same order. It prefers those that exist
// in EC2.
func existingFirst(interfaces []located) []located {
	room := maxAttachments
	if len(interfaces) <= room {
		return interfaces
	}
	keep := make([]bool, len(interfaces))
	for _, exists := range []bool{true, false} {
		for n, i := range interfaces {
			if room > 0 && exists == (i.Status.ENIID != "") {
				keep[n], room = true, room-1
			}
		}
	}
	var listed []located
	for n, i := range interfaces {
		if keep[n] {
			listed = append(listed, i)
		}
	}
	return listed
}

func (i located) attachment() v1alpha1.Attachment {
	return v1alpha1.Attachment{
		NodeID: i.node(), InstanceID: i.Spec.InstanceID, ENIID: i.Status.ENIID, AttachmentID: i.Status.AttachmentID,
		SubnetID: i.Status.SubnetID, NetworkCardIndex: i.slot.NetworkCardIndex, DeviceIndex: i.slot.DeviceIndex,
		MACAddress: i.Status.MACAddress, PrivateIP: i.Status.Addresses.PrivateIP,
		Status: v1alpha1.AttachmentStatus(strings.ToLower(string(i.phase))), Reason: i.reason, Message: i.message,
	}
}

// outcome returns the state of the fleet in one word and one sentence.
func outcome(
	nodeENI *v1alpha1.NodeENI, f facts, st v1alpha1.NodeENIStatus, all []located, resolutions ...metav1.Condition,
) status.Outcome {
	if !nodeENI.DeletionTimestamp.IsZero() {
		return removing(nodeENI, f, all)
	}
	if hindrance := blockedReason(nodeENI, f, st, resolutions); hindrance != nil {
		return *hindrance
	}
	waiting, blocked := f.waiting(), blockages(all, f)
	switch {
	case st.Nodes == 0 && st.Desired == 0:
		return noNodes(nodeENI, all)
	case len(f.unstored) > 0:
		return unstored(f.unstored)
	case len(blocked) > 0:
		return outcomeOfBlocked(blocked, st.Desired)
	case len(f.owningNodes) > 0:
		return secondNames(f)
	case st.Drifted > 0 && nodeENI.Spec.UpdatePolicy == v1alpha1.UpdateReplace &&
		!slices.ContainsFunc(all, staysDrifted):
		return status.Outcome{State: status.Progressing, Reason: string(plan.Replacing), Message: fmt.Sprintf(
			"%d of %d interfaces must still be replaced, one of a node at a time and with no more than "+
				"%s without one",
			st.Drifted, st.Desired, text.Count(int(max(1, nodeENI.Spec.MaxUnavailable)), "node"))}
	case st.Drifted > 0:
		return drifted(all, st)
	case st.Ready < st.Desired || waiting > 0:
		return status.Outcome{State: status.Progressing, Reason: v1alpha1.ReasonProgressing, Message: fmt.Sprintf(
			"%d of %d interfaces are attached%s", st.Attached, st.Desired, more(waiting))}
	default:
		return status.Outcome{State: status.Ready, Reason: v1alpha1.ReasonAttached, Message: fmt.Sprintf(
			"%s attached on %s%s", text.Count(int(st.Desired), "interface"), text.Count(int(st.Nodes), "node"), f.skipped())}
	}
}

// blockedReason returns the outcome of a NodeENI that is blocked on all nodes, and nil if any node can proceed.
func blockedReason(
	nodeENI *v1alpha1.NodeENI, f facts, st v1alpha1.NodeENIStatus, resolutions []metav1.Condition,
) *status.Outcome {
	if controller.Paused(nodeENI) {
		return &status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonPaused, Message: fmt.Sprintf(
			"nothing is changed for it while it has the annotation %s; %d of %d interfaces are attached",
			v1alpha1.PausedAnnotation, st.Attached, st.Desired)}
	}
	unread := slices.IndexFunc(resolutions, func(c metav1.Condition) bool { return c.Status == metav1.ConditionUnknown })
	unfinished := st.Attached < st.Desired || f.waiting() > 0
	if f.refused != "" && (unfinished || unread >= 0 || f.unlisted) {
		refused := cannotRead(f.refused)
		return &refused
	}
	if unread >= 0 && unfinished {
		return &status.Outcome{State: status.Progressing, Reason: resolutions[unread].Reason, Message: fmt.Sprintf(
			"%d of %d interfaces are attached; %s", st.Attached, st.Desired, resolutions[unread].Message)}
	}
	for _, c := range resolutions {
		if c.Status == metav1.ConditionFalse {
			return &status.Outcome{State: status.Stalled, Reason: c.Reason, Message: c.Message}
		}
	}
	return nil
}

// noNodes is the outcome of a NodeENI that selects no node. The interfaces in former are those of nodes that it
// selected before.
func noNodes(nodeENI *v1alpha1.NodeENI, former []located) status.Outcome {
	message := "no node carries the labels of nodeSelector"
	if len(nodeENI.Spec.NodeSelector) == 0 {
		message = "nodeSelector is empty and selects no node; name at least one label, for example kubernetes.io/os: " +
			"linux for all nodes of Linux"
	}
	if n := len(former); n > 0 {
		message += fmt.Sprintf("; %s not removed yet: node %s: %s", text.Count(n, "interface"), former[0].node(),
			cmp.Or(former[0].message, former[0].reason))
	}
	return status.Outcome{State: status.Ready, Reason: v1alpha1.ReasonNoNodes, Message: message}
}

// unstored is the outcome of a NodeENI with objects that the API server refuses to store.
func unstored(objects map[string]string) status.Outcome {
	first := slices.Sorted(maps.Keys(objects))[0]
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonStateRefused, Message: fmt.Sprintf(
		"the API server refuses to store %s; nothing is changed or reported there: %s: %s",
		text.Count(len(objects), "NetworkInterface"), first, objects[first])}
}

// secondNames is the outcome of a NodeENI with nodes that are second names of their instances.
func secondNames(f facts) status.Outcome {
	names := slices.Sorted(maps.Keys(f.owningNodes))
	message := fmt.Sprintf("node %s gets no interfaces: its instance is node %s already, whose Node is older; "+
		"delete the Node that is outdated", names[0], f.owningNodes[names[0]])
	if len(names) > 1 {
		message += fmt.Sprintf(" (and %s like it)", text.Count(len(names)-1, "node"))
	}
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonInstanceHasAnotherNode, Message: message}
}

// stalled reports whether an interface waits for a user: it does not exist, or cannot be made as declared.
func stalled(i located) bool {
	return i.reason != string(plan.Retained) && !plan.Reason(i.reason).Transient() && !staysDrifted(i)
}

// staysDrifted reports whether an interface keeps its drift.
func staysDrifted(i located) bool { return i.reason == string(plan.Drifted) }

// drifted says how interfaces differ. As an example it quotes the first one with the reason Drifted: others currently
// have another message.
func drifted(interfaces []located, st v1alpha1.NodeENIStatus) status.Outcome {
	message := fmt.Sprintf("%d of %d interfaces are not as declared, and stay in use as they are", st.Drifted, st.Desired)
	if at := slices.IndexFunc(interfaces, staysDrifted); at >= 0 {
		message += fmt.Sprintf(": node %s: %s", interfaces[at].node(), interfaces[at].message)
	}
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonDrifted, Message: message}
}

// blockage is a problem on one node that a user must solve.
type blockage struct {
	node, reason, message string
	count                 int
	// inUse is set for an interface that is attached, and not as declared.
	inUse bool
}

// blockages returns what waits for a user, existing objects first.
func blockages(interfaces []located, f facts) []blockage {
	var all []blockage
	for _, i := range interfaces {
		if stalled(i) && !i.leaving {
			all = append(all, blockage{i.node(), i.reason, i.message, 1, i.phase == v1alpha1.PhaseAttached})
		}
	}
	if omitted := f.outcome.Status.Omitted; omitted > 0 && len(f.nodes) > 0 {
		all = append(all, blockage{f.nodes[0].Name, v1alpha1.ReasonBlocked, fmt.Sprintf(
			"more than %d interfaces are declared for a node, and no instance type has room for them", render.MaxObjects),
			omitted, false})
	}
	return all
}

func outcomeOfBlocked(all []blockage, desired int32) status.Outcome {
	first, sum, others, stand := all[0], 0, "", "blocked"
	if first.inUse {
		stand = "not as declared"
	}
	for _, b := range all {
		sum += b.count
	}
	if sum > 1 {
		others = fmt.Sprintf(" (and %d more; see attachments)", sum-1)
	}
	return status.Outcome{State: status.Stalled, Reason: first.reason, Message: fmt.Sprintf(
		"%d of %d interfaces are %s: node %s: %s%s", sum, desired, stand, first.node, first.message, others)}
}

// skipped says how many selected nodes can get no interfaces, and why one of them cannot.
func (f facts) skipped() string {
	skipped := slices.DeleteFunc(slices.Clone(f.nodes), func(node corev1.Node) bool { return !foreign(node) })
	if len(skipped) == 0 {
		return ""
	}
	// the same one each time, since a status is written when it changes
	first := slices.MinFunc(skipped, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	_, why := eni.ServedInstance(first.Spec.ProviderID, first.Labels)
	return fmt.Sprintf("; skipped: %s, node %s: %v", text.Count(len(skipped), "node"), first.Name, why)
}

// waiting counts the selected nodes whose objects are missing or are not about the present declaration. A Node without
// a providerID is one of them: the cloud provider sets it later, and the interfaces of its instance follow.
func (f facts) waiting() int {
	n := f.outcome.Status.Waiting
	for _, node := range f.nodes {
		if node.Spec.ProviderID == "" {
			n++
		}
	}
	return n
}

// foreign reports whether a Node can get no interfaces. A Node without a providerID may get one.
func foreign(node corev1.Node) bool {
	_, err := eni.ServedInstance(node.Spec.ProviderID, node.Labels)
	return err != nil && node.Spec.ProviderID != ""
}

func more(waiting int) string {
	if waiting == 0 {
		return ""
	}
	return fmt.Sprintf("; %s not yet compared with the current declaration", text.Count(waiting, "node"))
}

func subnetCondition(f facts) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSubnetsResolved, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonResolved}
	problems := f.subnets.Problems()
	switch {
	case f.subnetsErr != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnreadable, f.subnetsErr.Error()
	case len(problems) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(problems[0].Reason), messages(problems)
	default:
		subnets := f.subnets.Subnets()
		zones := map[string]bool{}
		for _, s := range subnets {
			zones[s.Zone] = true
		}
		c.Message = fmt.Sprintf("%s in %s", text.Count(len(subnets), "subnet"), text.Count(len(zones), "zone"))
	}
	return c
}

// groupCondition returns whether the groups exist, in any VPC and in the VPCs of the nodes.
func groupCondition(f facts, interfaces []located) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSecurityGroupsResolved, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonResolved}
	ids, problems := f.groups.ForVPC("")
	switch {
	case f.groupsErr != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnreadable, f.groupsErr.Error()
	case len(problems) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(problems[0].Reason), messages(problems)
	default:
		c.Message = text.Count(len(ids), "security group")
		if n := slices.IndexFunc(interfaces, lacksGroups); n >= 0 {
			i := interfaces[n]
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, i.reason, fmt.Sprintf("node %s: %s", i.node(), i.message)
		}
	}
	return c
}

// lacksGroups reports whether the VPC of an interface lacks its desired groups.
func lacksGroups(i located) bool {
	reason := plan.Reason(i.reason)
	return reason == plan.SecurityGroupNotFound || reason == plan.SecurityGroupAmbiguous
}

func messages(problems []plan.Problem) string {
	words := make([]string, len(problems))
	for n, p := range problems {
		words[n] = p.Message
	}
	return strings.Join(words, "; ")
}

// removing is the outcome of a NodeENI that is being deleted.
func removing(nodeENI *v1alpha1.NodeENI, f facts, interfaces []located) status.Outcome {
	if controller.Paused(nodeENI) && len(interfaces) > 0 {
		return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonPaused, Message: fmt.Sprintf(
			"it is to be deleted, and paused: %s of it stay until a user removes the annotation %s",
			text.Count(len(interfaces), "interface"), v1alpha1.PausedAnnotation)}
	}
	message := fmt.Sprintf("%s being removed", text.Count(len(interfaces), "interface"))
	waits := func(i located) bool { return i.message != "" && i.reason != string(plan.Removing) }
	if at := slices.IndexFunc(interfaces, waits); at >= 0 {
		message += fmt.Sprintf("; node %s: %s", interfaces[at].node(), interfaces[at].message)
	}
	if f.refused != "" {
		message += "; " + f.refused
	}
	return status.Outcome{State: status.Progressing, Reason: v1alpha1.ReasonDeleting, Message: message}
}
