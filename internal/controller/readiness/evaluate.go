// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
)

// Readiness says whether the interfaces of a node are ready, as a Node condition.
type Readiness struct {
	// Status is Unknown while no interface is declared for the node. A node that registered with the startup taint keeps
	// it then.
	Status          corev1.ConditionStatus
	Reason, Message string
}

// The reasons of a Readiness. An interface that is not attached, a link that is not usable and a pod network that is
// not ready have reasons of their own.
const (
	reasonReady       = "InterfacesReady"
	reasonNotDeclared = "NoInterfaces"
	reasonPending     = "StatusPending"
	reasonNoMultus    = "MultusNotConfigured"
)

var notDeclared = Readiness{corev1.ConditionUnknown, reasonNotDeclared,
	"no NodeENI declares an interface for this node; see the labels of the node and kubectl get nodeenis"}

// Evaluate says whether every required interface that NodeENIs declare for a node is attached, its link usable and,
// with pods, its pod network ready. The state is nil if the node has none. Pod networks that the agent does not report
// do not count: it serves none.
func Evaluate(node *corev1.Node, state *v1alpha1.NodeENIState, nodeENIs []v1alpha1.NodeENI) Readiness {
	if state == nil {
		return notDeclared
	}
	if waiting := awaited(node, state, nodeENIs); waiting != nil {
		return *waiting
	}
	left := notRemoved(state)
	switch {
	case left == 0 && len(state.Spec.Members) == 0:
		return notDeclared
	case !describes(state, node):
		return Readiness{corev1.ConditionFalse, reasonPending,
			"the controller has not reported on the desired interfaces yet"}
	case left == 0:
		return Readiness{corev1.ConditionUnknown, reasonNotDeclared,
			"the controller is removing every interface of this node"}
	}
	required, absent := 0, 0
	for _, i := range state.Status.Interfaces {
		if removing(i) {
			continue
		}
		fault := cmp.Or(interfaceProblem(i, state.Status.Links), podProblem(i, state.Status.PodNetworks))
		switch needed := i.Required == nil || *i.Required; {
		case needed && fault != nil:
			return *fault
		case needed:
			required++
		case fault != nil:
			absent++
		}
	}
	text := fmt.Sprintf("%d required interfaces are attached, up and configured", required)
	if absent > 0 {
		text += fmt.Sprintf("; %d that are not required are not", absent)
	}
	return Readiness{corev1.ConditionTrue, reasonReady, text}
}

// describes reports whether the status of a state is about the present instance and members of a node.
func describes(state *v1alpha1.NodeENIState, node *corev1.Node) bool {
	instance, err := eni.ParseProviderID(node.Spec.ProviderID)
	return err == nil && state.Spec.InstanceID == instance.ID && state.Status.ObservedGeneration == state.Generation
}

// awaited returns that the state of a node does not take a NodeENI into account that selects the node, or nil.
func awaited(node *corev1.Node, state *v1alpha1.NodeENIState, nodeENIs []v1alpha1.NodeENI) *Readiness {
	known := state.Status.NodeENIs
	for n := range nodeENIs {
		selects := controller.Selector(nodeENIs[n].Spec).Matches(labels.Set(node.Labels))
		if !selects || !nodeENIs[n].DeletionTimestamp.IsZero() || len(known) >= v1alpha1.MaxNodeENIs {
			continue
		}
		if !slices.ContainsFunc(known, func(o v1alpha1.ObservedNodeENI) bool { return o.NodeENIUID == nodeENIs[n].UID }) {
			return &Readiness{corev1.ConditionFalse, reasonPending, fmt.Sprintf(
				"the controller has not reported on the interfaces of NodeENI %s yet", nodeENIs[n].Name)}
		}
	}
	return nil
}

// notRemoved returns the number of interfaces that the controller is not removing.
func notRemoved(state *v1alpha1.NodeENIState) int {
	count := 0
	for _, i := range state.Status.Interfaces {
		if !removing(i) {
			count++
		}
	}
	return count
}

// removing reports whether the controller is removing an interface.
func removing(i v1alpha1.InterfaceState) bool {
	return i.Phase == v1alpha1.PhaseDetaching || i.Phase == v1alpha1.PhaseDeleting
}

// interfaceProblem returns why an interface is not ready, or nil.
func interfaceProblem(i v1alpha1.InterfaceState, links []v1alpha1.LinkState) *Readiness {
	if i.Phase != v1alpha1.PhaseAttached {
		message := fmt.Sprintf("the interface of NodeENI %s is %s", i.NodeENI, i.Phase)
		if i.Message != "" {
			message += ": " + i.Message
		}
		return &Readiness{corev1.ConditionFalse, "Interface" + string(i.Phase), message}
	}
	link := linkOf(i, links)
	switch {
	case link == nil:
		return &Readiness{corev1.ConditionFalse, hostnet.ReasonNotFound,
			fmt.Sprintf("the link of NodeENI %s (%s) has not been observed yet", i.NodeENI, i.ENIID)}
	case !isUsable(*link):
		return &Readiness{corev1.ConditionFalse, link.Reason,
			fmt.Sprintf("the link of NodeENI %s (%s) is %s: %s", i.NodeENI, i.ENIID, link.State, link.Message)}
	default:
		return nil
	}
}

// linkOf returns the link of an interface, or nil while the agent reports none.
func linkOf(i v1alpha1.InterfaceState, links []v1alpha1.LinkState) *v1alpha1.LinkState {
	n := slices.IndexFunc(links, func(l v1alpha1.LinkState) bool { return l.MACAddress == i.MACAddress })
	if n < 0 {
		return nil
	}
	return &links[n]
}

// isUsable reports whether pods can use a link, or a pod or a program in user space already does.
func isUsable(link v1alpha1.LinkState) bool {
	return slices.Contains([]v1alpha1.LinkPhase{v1alpha1.LinkReady, v1alpha1.LinkMoved, v1alpha1.LinkBound}, link.State)
}

// waitForMultus makes a node with the startup taint unready until its container runtime uses Multus. A node without the
// taint already has pods, and the configuration of Multus may be absent for a moment.
func (v Readiness) waitForMultus(state *v1alpha1.NodeENIState) Readiness {
	if v.Status != corev1.ConditionTrue || state.Status.CNI == nil || state.Status.CNI.Ready {
		return v
	}
	return Readiness{corev1.ConditionFalse, reasonNoMultus,
		fmt.Sprintf("%s; pods would start without Multus, whose configuration is not the first of the node yet: %s",
			v.Message, state.Status.CNI.Message)}
}

// podProblem returns why pods cannot attach to an interface that is not draining, or nil.
func podProblem(i v1alpha1.InterfaceState, networks []v1alpha1.PodNetworkState) *Readiness {
	for _, n := range networks {
		if n.ENIID == i.ENIID && !n.Ready && n.Reason != v1alpha1.ReasonNetworkDraining {
			return &Readiness{corev1.ConditionFalse, n.Reason,
				fmt.Sprintf("pod network %s of NodeENI %s: %s", n.Network, n.NodeENI, n.Message)}
		}
	}
	return nil
}
