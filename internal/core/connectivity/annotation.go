// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The annotations of a pod (Kubernetes Network Plumbing Working Group, "Network Custom Resource Definition").
const (
	// NetworksAnnotation lists the networks that a pod requests.
	NetworksAnnotation = "k8s.v1.cni.cncf.io/networks"
	// StatusAnnotation has the networks that Multus attached the pod to.
	StatusAnnotation = "k8s.v1.cni.cncf.io/network-status"
)

// Requested returns the NetworkAttachmentDefinitions that the annotation of a pod in the namespace names: a list such
// as "n3, upf/n4@net1", or a JSON array. A name without a namespace is in that of the pod.
func Requested(namespace, annotation string) ([]PodName, error) {
	annotation = strings.TrimSpace(annotation)
	if annotation == "" {
		return nil, nil
	}
	if strings.HasPrefix(annotation, "[") {
		var elements []PodName
		if err := json.Unmarshal([]byte(annotation), &elements); err != nil {
			return nil, fmt.Errorf("it is no JSON array of networks: %w", err)
		}
		for i := range elements {
			elements[i].Namespace = cmp.Or(elements[i].Namespace, namespace)
		}
		return elements, nil
	}
	var all []PodName
	for element := range strings.SplitSeq(annotation, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(element), "@")
		within := namespace
		if before, after, qualified := strings.Cut(name, "/"); qualified {
			within, name = before, after
		}
		if name == "" || within == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q is not [NAMESPACE/]NAME[@INTERFACE]", element)
		}
		all = append(all, PodName{within, name})
	}
	return all, nil
}

// attached returns the addresses that the status annotation of a pod has for a definition, and whether it has an entry.
// Multus names the entry by the definition; earlier releases leave out its namespace.
func attached(status string, definition PodName) ([]netip.Addr, bool, error) {
	var entries []struct {
		Name string
		IPs  []string
	}
	if status == "" {
		return nil, false, nil
	}
	if err := json.Unmarshal([]byte(status), &entries); err != nil {
		return nil, false, err
	}
	var addresses []netip.Addr
	found := false
	for _, entry := range entries {
		if !slices.Contains([]string{definition.String(), definition.Name}, entry.Name) {
			continue
		}
		found = true
		for _, text := range entry.IPs {
			text, _, _ = strings.Cut(text, "/")
			address, err := netip.ParseAddr(text)
			if err != nil {
				return nil, true, err
			}
			addresses = append(addresses, address)
		}
	}
	return addresses, found, nil
}
