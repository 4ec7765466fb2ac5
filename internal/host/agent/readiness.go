// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/netattach"
)

// Readiness says whether the interfaces of a node are ready, as a Node condition.
type Readiness struct {
	// Status is Unknown while the ledger has no interface of the node. A node that registered with the taint keeps it
	// then.
	Status          corev1.ConditionStatus
	Reason, Message string
}

// The reasons of a Readiness. A link that is not usable has its own reason.
const (
	reasonReady       = "InterfacesReady"
	reasonNotDeclared = "NoInterfaces"
	reasonPending     = "StatusPending"
	reasonNoMultus    = "MultusNotConfigured"
)

// EvaluateReadiness says whether every required interface is attached, its link usable and, with pods, its pod network
// ready. Networks that are not listed do not count: the agent serves none.
func EvaluateReadiness(state *v1alpha1.NodeENIState, observed []hostnet.Observation,
	networks []v1alpha1.PodNetworkState) Readiness {
	if state == nil || len(state.Spec.Members) == 0 && notRemoved(state) == 0 {
		return Readiness{corev1.ConditionUnknown, reasonNotDeclared,
			"no NodeENI declares an interface for this node; see the labels of the node and kubectl get nodeenis"}
	}
	if state.Status.ObservedGeneration != state.Generation {
		return Readiness{corev1.ConditionFalse, reasonPending,
			"the controller has not reported on the desired interfaces yet"}
	}
	if notRemoved(state) == 0 {
		return Readiness{corev1.ConditionUnknown, reasonNotDeclared,
			"the controller is removing every interface of this node"}
	}
	required, absent := 0, 0
	for _, i := range state.Status.Interfaces {
		if removing(i) {
			continue
		}
		fault := cmp.Or(problem(i, observed), podProblem(i, networks))
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

// waitForCNI makes a node with the startup taint unready until the container runtime uses Multus. A node without the
// taint already has pods, and the configuration of Multus may be absent for a moment.
func (a *Agent) waitForCNI(node *corev1.Node, v Readiness) Readiness {
	starts := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == a.Taint })
	if a.CNIConfigDir == "" || v.Status != corev1.ConditionTrue || !starts {
		return v
	}
	name, content, err := firstConfiguration(a.CNIConfigDir)
	if err == nil && netattach.IsMultus(content) {
		return v
	}
	found := fmt.Sprintf("the first configuration, which the runtime uses, is %s", name)
	if err != nil {
		found = err.Error()
	}
	return Readiness{corev1.ConditionFalse, reasonNoMultus,
		fmt.Sprintf("%s; pods would start without Multus, whose configuration is not the first of the node yet: %s",
			v.Message, found)}
}

// firstConfiguration returns the CNI configuration that a container runtime uses: the first in the order of names.
func firstConfiguration(dir string) (name string, content []byte, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		if slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(entry.Name())) {
			content, err = os.ReadFile(filepath.Join(dir, entry.Name()))
			return entry.Name(), content, err
		}
	}
	return "", nil, errors.New("there is no configuration yet")
}

// problem returns why an interface is not ready, or nil.
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
		return &Readiness{corev1.ConditionFalse, o.Reason,
			fmt.Sprintf("the link of NodeENI %s (%s) is %s: %s", i.NodeENI, i.ENIID, o.State, o.Message)}
	}
	return &Readiness{corev1.ConditionFalse, hostnet.ReasonNotFound,
		fmt.Sprintf("the link of NodeENI %s (%s) has not been observed yet", i.NodeENI, i.ENIID)}
}
