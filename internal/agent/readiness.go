// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
)

// Readiness says whether the interfaces of a node are ready, in the words of a Node condition.
type Readiness struct {
	// Status is Unknown while no ledger has an interface for the node: nothing is known then, and a node that started
	// with the taint keeps it.
	Status          corev1.ConditionStatus
	Reason, Message string
}

// The reasons of a Verdict. A link that is not usable gives its own.
const (
	reasonReady       = "InterfacesReady"
	reasonNotDeclared = "NoInterfaces"
	reasonPending     = "StatusPending"
)

// EvaluateReadiness says whether every required interface is attached and its link usable.
func EvaluateReadiness(state *v1alpha1.NodeENIState, observed []hostnet.Observation) Readiness {
	if state == nil || len(state.Spec.Members) == 0 && notRemoved(state) == 0 {
		return Readiness{corev1.ConditionUnknown, reasonNotDeclared, "no NodeENI promises this node an interface; see the labels of the node and kubectl get nodeenis"}
	}
	if state.Status.ObservedGeneration != state.Generation {
		return Readiness{corev1.ConditionFalse, reasonPending, "the controller has yet to say what became of the promised interfaces"}
	}
	if notRemoved(state) == 0 {
		return Readiness{corev1.ConditionUnknown, reasonNotDeclared, "every interface of this node is on its way out"}
	}
	required, absent := 0, 0
	for _, i := range state.Status.Interfaces {
		if removing(i) {
			continue
		}
		fault := problem(i, observed)
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

// notRemoved returns how many interfaces the node has, or is getting.
func notRemoved(state *v1alpha1.NodeENIState) int {
	count := 0
	for _, i := range state.Status.Interfaces {
		if !removing(i) {
			count++
		}
	}
	return count
}

// problem says what is wrong with an interface, or nil.
func problem(i v1alpha1.InterfaceState, observed []hostnet.Observation) *Readiness {
	if i.Phase != v1alpha1.PhaseAttached {
		message := fmt.Sprintf("the interface of NodeENI %s is %s", i.NodeENI, i.Phase)
		if i.Message != "" {
			message += ": " + i.Message
		}
		return &Readiness{corev1.ConditionFalse, "Interface" + string(i.Phase), message}
	}
	for _, o := range observed {
		if o.Link.MAC != i.MACAddress {
			continue
		}
		if o.State.Usable() {
			return nil
		}
		return &Readiness{corev1.ConditionFalse, o.Reason, fmt.Sprintf("the link of NodeENI %s (%s) is %s: %s", i.NodeENI, i.ENIID, o.State, o.Message)}
	}
	return &Readiness{corev1.ConditionFalse, hostnet.ReasonNotFound, fmt.Sprintf("the link of NodeENI %s (%s) has not been looked for", i.NodeENI, i.ENIID)}
}
