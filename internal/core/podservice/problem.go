// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podservice

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/connectivity"
	"github.com/multieni/multieni/internal/core/text"
)

// Reasons of the Events of a Service.
const (
	// ServiceNotSupported: the Service has spec.selector or is an ExternalName, so it publishes no pod network.
	ServiceNotSupported = "ServiceNotSupported"
	// InvalidPodSelector: the pod selector is missing, or is no label selector.
	InvalidPodSelector = "InvalidPodSelector"
	// AddressNotOfTheNetwork: a pod has an address in its annotation that the network did not give to a pod of its node.
	AddressNotOfTheNetwork = "AddressNotOfTheNetwork"
	// PodNetworkNotFound: no NodeENI with pods has the network.
	PodNetworkNotFound = "PodNetworkNotFound"
	// NoPodOnNetwork: no selected pod has an address of the network.
	NoPodOnNetwork = "NoPodOnNetwork"
)

// Problem is why a Service does not publish what its author may expect.
type Problem struct {
	Reason, Message string
	// Passes is set if the problem can pass without an edit of the Service: pods start, and states follow.
	Passes bool
	// Normal is set if the problem can be intended.
	Normal bool
}

// Refusal is a pod with an address that does not count.
type Refusal struct {
	Namespace, Pod, Node string
	Addresses            []netip.Addr
	Err                  error
}

// Findings are what a reconciliation found about a Service.
type Findings struct {
	// Annotations of the Service.
	NetworkKey, Network, SelectorKey, Selector string
	Namespace                                  string
	// SelectorErr says why the selector cannot be used; Unsupported says why the Service cannot have a pod network.
	SelectorErr error
	Unsupported string
	// Families are the address families of the Service, such as "IPv4 or IPv6".
	Families string
	// Exists is set if a NodeENI with pods has the network.
	Exists bool
	// Selected is the number of running pods that the selector matches, Published the number of those with an address of
	// the network in a family of the Service.
	Selected, Published int
	Refused             []Refusal
}

// maxMessage is the largest length of the note of an Event in bytes (Kubernetes API, events/v1).
const maxMessage = 1024

// Problem returns the problem of the Service; nil if there is none.
func (f Findings) Problem() *Problem {
	problem := f.problem()
	if problem != nil {
		problem.Message = text.Clip(problem.Message, maxMessage)
	}
	return problem
}

func (f Findings) problem() *Problem {
	switch {
	case f.Unsupported != "":
		return &Problem{Reason: ServiceNotSupported, Message: fmt.Sprintf("%s, so multieni publishes no addresses of "+
			"pod network %s: the endpoints of a pod network need a Service without it. Remove it, or the annotation %s",
			f.Unsupported, f.Network, f.NetworkKey)}
	case f.SelectorErr != nil:
		return &Problem{Reason: InvalidPodSelector, Message: fmt.Sprintf("the annotation %s is %q: %v. Write a label "+
			"selector such as app=upf. Until then no further pod becomes an endpoint, and those that are stay",
			f.SelectorKey, f.Selector, f.SelectorErr)}
	case len(f.Refused) > 0:
		return f.refused()
	case f.Published > 0:
		return nil
	case !f.Exists:
		return &Problem{Passes: true, Reason: PodNetworkNotFound, Message: fmt.Sprintf("no NodeENI with pods has network "+
			"%s, and no pod has an address of it: correct the annotation %s, or create the NodeENI; kubectl get nodeeni "+
			"lists them", f.Network, f.NetworkKey)}
	case f.Selected > 0:
		return &Problem{Passes: true, Reason: NoPodOnNetwork, Message: fmt.Sprintf("%s matches %d running pods, and none "+
			"has an %s address of network %s: attach them with the annotation %s: %s, or correct %s", f.Selector, f.Selected,
			f.Families, f.Network, connectivity.NetworksAnnotation, f.Network, f.SelectorKey)}
	default:
		return &Problem{Passes: true, Normal: true, Reason: NoPodOnNetwork, Message: fmt.Sprintf("no running pod in "+
			"namespace %s matches %s, so network %s has no endpoints for this Service", f.Namespace, f.Selector, f.Network)}
	}
}

// refused explains the first of the pods whose addresses do not count, and counts the others.
func (f Findings) refused() *Problem {
	all := slices.SortedFunc(slices.Values(f.Refused), func(a, b Refusal) int { return strings.Compare(a.Pod, b.Pod) })
	first := all[0]
	cause := fmt.Sprintf("has %v for network %s, which did not give that to a pod of node %s: it is in no prefix of the "+
		"interface there, and no pod of the node holds it as a FloatingAddress", list(first.Addresses), f.Network, first.Node)
	if first.Err != nil {
		cause = fmt.Sprintf("cannot be read: %v", first.Err)
	}
	others := ""
	if n := len(all) - 1; n > 0 {
		others = fmt.Sprintf(" The same is true of %d further pods.", n)
	}
	return &Problem{Passes: true, Reason: AddressNotOfTheNetwork, Message: fmt.Sprintf("the annotation %s of pod %s/%s "+
		"%s. The Service leaves it out.%s Find out who edited the annotation; if the interface of the node was replaced, "+
		"delete the pod", connectivity.StatusAnnotation, first.Namespace, first.Pod, cause, others)}
}

func list(addresses []netip.Addr) string {
	texts := make([]string, 0, len(addresses))
	for _, address := range addresses {
		texts = append(texts, address.String())
	}
	return strings.Join(texts, ", ")
}
