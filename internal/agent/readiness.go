// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/hostnet"
)

// Verdict says whether the interfaces of a node are ready, in the words of a Node condition.
type Verdict struct {
	// Status is Unknown while nobody has promised the node any interface: then nothing can be said, and a node that was
	// born with the taint waits.
	Status          corev1.ConditionStatus
	Reason, Message string
}

// The reasons of a Verdict. A link that is not usable gives its own.
const (
	reasonReady       = "InterfacesReady"
	reasonNotDeclared = "NoInterfaces"
	reasonPending     = "StatusPending"
)

// Judge says whether every required interface is attached and its link usable.
func Judge(state *v1alpha1.NodeENIState, observed []hostnet.Observation) Verdict {
	if state == nil || len(state.Spec.Members) == 0 && staying(state) == 0 {
		return Verdict{corev1.ConditionUnknown, reasonNotDeclared, "no NodeENI promises this node an interface; see the labels of the node and kubectl get nodeenis"}
	}
	if state.Status.ObservedGeneration != state.Generation {
		return Verdict{corev1.ConditionFalse, reasonPending, "the controller has yet to say what became of the promised interfaces"}
	}
	if staying(state) == 0 {
		return Verdict{corev1.ConditionUnknown, reasonNotDeclared, "every interface of this node is on its way out"}
	}
	required, absent := 0, 0
	for _, i := range state.Status.Interfaces {
		if leaving(i) {
			continue
		}
		fault := fault(i, observed)
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
	return Verdict{corev1.ConditionTrue, reasonReady, text}
}

// staying returns how many interfaces the node has, or is getting.
func staying(state *v1alpha1.NodeENIState) int {
	count := 0
	for _, i := range state.Status.Interfaces {
		if !leaving(i) {
			count++
		}
	}
	return count
}

// fault says what is wrong with an interface, or nil.
func fault(i v1alpha1.InterfaceState, observed []hostnet.Observation) *Verdict {
	if i.Phase != v1alpha1.PhaseAttached {
		message := fmt.Sprintf("the interface of NodeENI %s is %s", i.NodeENI, i.Phase)
		if i.Message != "" {
			message += ": " + i.Message
		}
		return &Verdict{corev1.ConditionFalse, "Interface" + string(i.Phase), message}
	}
	for _, o := range observed {
		if o.Link.MAC != i.MACAddress {
			continue
		}
		if o.State.Usable() {
			return nil
		}
		return &Verdict{corev1.ConditionFalse, o.Reason, fmt.Sprintf("the link of NodeENI %s (%s) is %s: %s", i.NodeENI, i.ENIID, o.State, o.Message)}
	}
	return &Verdict{corev1.ConditionFalse, hostnet.ReasonNotFound, fmt.Sprintf("the link of NodeENI %s (%s) has not been looked for", i.NodeENI, i.ENIID)}
}
