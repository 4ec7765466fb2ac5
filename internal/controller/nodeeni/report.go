// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
	"github.com/multieni/multieni/internal/core/text"
)

// maxAttachments is how many attachments a NodeENI lists, so that no object grows with the fleet. It also lists at most
// maxSubnets subnets and maxGroups security groups; the messages of their conditions count all.
const (
	maxAttachments = 100
	maxSubnets     = 200
	maxGroups      = 64
)

// facts are the inputs for the status of a NodeENI.
type facts struct {
	now                   time.Time
	nodes                 []corev1.Node
	states                []v1alpha1.NodeENIState
	subnets               selector.SubnetMatch
	groups                selector.GroupMatch
	subnetsErr, groupsErr error
	// refused says which required reads EC2 refuses; empty for none.
	refused string
	// unlisted is set if the list of the cluster's interfaces is one of them.
	unlisted bool
	// unstored has the API server's reasons for refusing the NodeENIStates of selected nodes, by node name.
	unstored map[string]string
	// owningNodes has, by name, the selected nodes whose instance belongs to another Node, with the name of that one.
	owningNodes map[string]string
	// strays are interfaces with the UID of a NodeENI that is being deleted, whose other tags differ from those that this
	// cluster writes.
	strays []eni.Interface
	// unreported are its attached interfaces if its deletion waits for a long time and no NodeENIState reports them.
	unreported []inventory.Record
	// attachments is the state of the NetworkAttachmentDefinitions.
	attachments attachments
	// floating has, by interface ID, why an address that a pod brought up is not where the pod is, or on which nodes pods
	// have it.
	floating map[string]string
	// hidden is set while EC2 may not return every existing interface.
	hidden bool
}

func (f facts) resolved() bool {
	_, problems := f.groups.ForVPC("")
	return len(f.subnets.Unknown) == 0 && len(problems) == 0
}

// report computes the status.
func report(nodeENI *v1alpha1.NodeENI, f facts) v1alpha1.NodeENIStatus {
	st := v1alpha1.NodeENIStatus{ObservedGeneration: nodeENI.Generation, Nodes: int32(len(f.nodes))}
	interfaces := collect(nodeENI, f.states)
	for _, i := range interfaces {
		count(&st, i.InterfaceState, controller.Paused(nodeENI))
	}
	omitted := omittedCount(nodeENI, f.states)
	for _, o := range omitted {
		st.Desired, st.Blocked, st.AttachmentsOmitted = st.Desired+o.Omitted, st.Blocked+
			o.Blocked, st.AttachmentsOmitted+o.Omitted
	}
	listed := existingFirst(interfaces)
	for _, i := range listed {
		st.Attachments = append(st.Attachments, i.attachment())
	}
	st.AttachmentsOmitted += int32(len(interfaces) - len(listed))
	st.Subnets, st.SecurityGroups = resolvedSubnets(nodeENI, f), resolvedGroups(nodeENI, f)
	networks := podNetworks(interfaces, f.states, f.floating)
	st.PodNetworks = countPods(nodeENI, networks)
	subnets, groups := subnetCondition(f), groupCondition(f, interfaces)
	st.Conditions = status.Summarize(nodeENI.Status.Conditions, nodeENI.Generation,
		outcome(nodeENI, f, st, interfaceCounts{interfaces, omitted}, subnets, groups),
		append([]metav1.Condition{subnets, groups}, podCondition(nodeENI, f, st.Attached, interfaces, networks)...)...)
	return st
}

// located is one interface with the node it is on.
type located struct {
	v1alpha1.InterfaceState
	node, instanceID string
}

func collect(nodeENI *v1alpha1.NodeENI, states []v1alpha1.NodeENIState) []located {
	var all []located
	for _, s := range states {
		for _, i := range s.Status.Interfaces {
			if i.NodeENIUID == nodeENI.UID {
				all = append(all, located{i, s.Name, cmp.Or(i.InstanceID, s.Spec.InstanceID)})
			}
		}
	}
	slices.SortFunc(all, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.NetworkCardIndex, b.NetworkCardIndex),
			cmp.Compare(a.DeviceIndex, b.DeviceIndex), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return all
}

// omission is what a node's state omits from its list of interfaces because the list is full.
type omission struct {
	v1alpha1.ObservedNodeENI
	node string
}

func omittedCount(nodeENI *v1alpha1.NodeENI, states []v1alpha1.NodeENIState) []omission {
	var all []omission
	for _, s := range states {
		if o := observed(nodeENI, &s); o != nil && o.Omitted > 0 {
			all = append(all, omission{*o, s.Name})
		}
	}
	slices.SortFunc(all, func(a, b omission) int { return cmp.Compare(a.node, b.node) })
	return all
}

// observed returns what a node's state says about the NodeENI as a whole; nil for nothing.
func observed(nodeENI *v1alpha1.NodeENI, state *v1alpha1.NodeENIState) *v1alpha1.ObservedNodeENI {
	n := slices.IndexFunc(state.Status.NodeENIs, func(o v1alpha1.ObservedNodeENI) bool {
		return o.NodeENIUID == nodeENI.UID
	})
	if n < 0 {
		return nil
	}
	return &state.Status.NodeENIs[n]
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
			if room > 0 && exists == (i.ENIID != "") {
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

// count adds one interface to the counts. An interface that is being removed, or retained for a reason other than a
// pause, is not desired.
func count(st *v1alpha1.NodeENIStatus, i v1alpha1.InterfaceState, paused bool) {
	if i.Reason == string(plan.Removing) || i.Reason == string(plan.Retained) && !paused {
		return
	}
	st.Desired++
	if i.Phase == v1alpha1.PhaseAttached {
		st.Attached++
		if len(i.Drift) == 0 && plan.Reason(i.Reason).Transient() {
			st.Ready++
		}
	}
	if i.Phase == v1alpha1.PhaseBlocked {
		st.Blocked++
	}
	if len(i.Drift) > 0 {
		st.Drifted++
	}
}

func (i located) attachment() v1alpha1.Attachment {
	return v1alpha1.Attachment{
		NodeID: i.node, InstanceID: i.instanceID, ENIID: i.ENIID, AttachmentID: i.AttachmentID, SubnetID: i.SubnetID,
		NetworkCardIndex: i.NetworkCardIndex, DeviceIndex: i.DeviceIndex, MACAddress: i.MACAddress, PrivateIP: i.PrivateIP,
		Status: v1alpha1.AttachmentStatus(strings.ToLower(string(i.Phase))), Reason: i.Reason, Message: i.Message,
	}
}

// outcome returns the state of the fleet in one word and one sentence.
func outcome(
	nodeENI *v1alpha1.NodeENI, f facts, st v1alpha1.NodeENIStatus, all interfaceCounts, resolutions ...metav1.Condition,
) status.Outcome {
	if !nodeENI.DeletionTimestamp.IsZero() {
		return removing(nodeENI, f, all.interfaces)
	}
	if hindrance := blockedReason(nodeENI, f, st, resolutions); hindrance != nil {
		return *hindrance
	}
	waiting, blocked := f.waiting(nodeENI), all.blocked()
	switch {
	case st.Nodes == 0 && st.Desired == 0:
		return noNodes(nodeENI, all.interfaces)
	case len(f.unstored) > 0:
		return unstored(f.unstored)
	case len(blocked) > 0:
		return outcomeOfBlocked(blocked, st.Desired)
	case len(f.owningNodes) > 0:
		return secondNames(f)
	case st.Drifted > 0 && nodeENI.Spec.UpdatePolicy == v1alpha1.UpdateReplace &&
		!slices.ContainsFunc(all.interfaces, staysDrifted):
		return status.Outcome{State: status.Progressing, Reason: string(plan.Replacing), Message: fmt.Sprintf(
			"%d of %d interfaces must still be replaced, one of a node at a time and with no more than "+
				"%s without one",
			st.Drifted, st.Desired, text.Count(int(max(1, nodeENI.Spec.MaxUnavailable)), "node"))}
	case st.Drifted > 0:
		return drifted(all.interfaces, st)
	case st.Attached < st.Desired || waiting > 0:
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
	unfinished := st.Attached < st.Desired || f.waiting(nodeENI) > 0
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
		message += fmt.Sprintf("; %s not removed yet: node %s: %s", text.Count(n, "interface"), former[0].node,
			cmp.Or(former[0].Message, former[0].Reason))
	}
	return status.Outcome{State: status.Ready, Reason: v1alpha1.ReasonNoNodes, Message: message}
}

// unstored is the outcome of a NodeENI with nodes whose state the API server refuses to store.
func unstored(nodes map[string]string) status.Outcome {
	first := slices.Sorted(maps.Keys(nodes))[0]
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonStateRefused, Message: fmt.Sprintf(
		"the API server refuses to store the NodeENIState of %s; nothing new is created or reported there: node %s: %s",
		text.Count(len(nodes), "node"), first, nodes[first])}
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
	return i.Reason != string(plan.Retained) && !plan.Reason(i.Reason).Transient() && !staysDrifted(i)
}

// staysDrifted reports whether an interface keeps its drift.
func staysDrifted(i located) bool { return i.Reason == string(plan.Drifted) }

// drifted says how interfaces differ. As an example it quotes the first one with the reason Drifted: others currently
// have another message.
func drifted(interfaces []located, st v1alpha1.NodeENIStatus) status.Outcome {
	message := fmt.Sprintf("%d of %d interfaces are not as declared, and stay in use as they are", st.Drifted, st.Desired)
	if at := slices.IndexFunc(interfaces, staysDrifted); at >= 0 {
		message += fmt.Sprintf(": node %s: %s", interfaces[at].node, interfaces[at].Message)
	}
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonDrifted, Message: message}
}

// interfaceCounts counts the interfaces of a NodeENI: those that the states list, and those that they omit.
type interfaceCounts struct {
	interfaces []located
	omitted    []omission
}

// blockage is a problem on one node that a user must solve.
type blockage struct {
	node, reason, message string
	count                 int
	// inUse is set for an interface that is attached, and not as declared.
	inUse bool
}

// blocked returns what waits for a user, listed interfaces first.
func (s interfaceCounts) blocked() []blockage {
	var all []blockage
	for _, i := range s.interfaces {
		if stalled(i) {
			all = append(all, blockage{i.node, i.Reason, i.Message, 1, i.Phase == v1alpha1.PhaseAttached})
		}
	}
	for _, o := range s.omitted {
		if o.Blocked > 0 {
			all = append(all, blockage{o.node, cmp.Or(o.Reason, v1alpha1.ReasonBlocked), fmt.Sprintf(
				"%s; more than the %d interfaces that its NodeENIState lists are declared for the node",
				cmp.Or(o.Reason, v1alpha1.ReasonBlocked), v1alpha1.MaxInterfaces), int(o.Blocked), false})
		}
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

// waiting counts the selected EC2 nodes that have not yet applied this generation of the NodeENI. It counts instances:
// two Nodes can name one instance, and a Node can return with another instance.
func (f facts) waiting(nodeENI *v1alpha1.NodeENI) int {
	judged := map[string]bool{}
	for n := range f.states {
		if o := observed(nodeENI, &f.states[n]); o != nil && o.ObservedGeneration == nodeENI.Generation {
			judged[f.states[n].Status.InstanceID] = true
		}
	}
	n := 0
	for _, node := range f.nodes {
		ref, _ := eni.ServedInstance(node.Spec.ProviderID, node.Labels)
		if !judged[ref.ID] && !foreign(node) && f.owningNodes[node.Name] == "" {
			n++
		}
	}
	return n
}

// unsettled counts the nodes whose part of the status will still change.
func (f facts) unsettled(nodeENI *v1alpha1.NodeENI) int {
	n := f.waiting(nodeENI)
	for _, s := range f.states {
		if slices.ContainsFunc(s.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
			return i.NodeENIUID == nodeENI.UID && (i.Phase != v1alpha1.PhaseAttached || i.Reason == string(plan.Removing))
		}) {
			n++
		}
	}
	return n
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
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, i.Reason, fmt.Sprintf("node %s: %s", i.node, i.Message)
		}
	}
	return c
}

// lacksGroups reports whether the VPC of an interface lacks its desired groups.
func lacksGroups(i located) bool {
	reason := plan.Reason(i.Reason)
	return reason == plan.SecurityGroupNotFound || reason == plan.SecurityGroupAmbiguous
}

func messages(problems []plan.Problem) string {
	words := make([]string, len(problems))
	for n, p := range problems {
		words[n] = p.Message
	}
	return strings.Join(words, "; ")
}
