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

// Attachment is one entry of the status annotation of a pod: a network that Multus attached the pod to.
type Attachment struct {
	// Name is the definition, as NAMESPACE/NAME. Earlier releases of Multus leave out the namespace.
	Name string `json:"name"`
	// IPs are the addresses as Multus wrote them.
	IPs []string `json:"ips,omitempty"`
	// Default is set for the network of the cluster.
	Default bool `json:"default,omitempty"`
}

// Attachments returns the entries of the status annotation of a pod; none if it is empty.
func Attachments(status string) ([]Attachment, error) {
	if status == "" {
		return nil, nil
	}
	var entries []Attachment
	err := json.Unmarshal([]byte(status), &entries)
	return entries, err
}

// Addresses returns the addresses of the entry.
func (a Attachment) Addresses() ([]netip.Addr, error) {
	var addresses []netip.Addr
	for _, text := range a.IPs {
		text, _, _ = strings.Cut(text, "/")
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// attached returns the addresses that the status annotation of a pod has for a definition, and whether it has an entry.
func attached(status string, definition PodName) ([]netip.Addr, bool, error) {
	entries, err := Attachments(status)
	if err != nil {
		return nil, false, err
	}
	var addresses []netip.Addr
	found := false
	for _, entry := range entries {
		if !slices.Contains([]string{definition.String(), definition.Name}, entry.Name) {
			continue
		}
		found = true
		further, err := entry.Addresses()
		if err != nil {
			return nil, true, err
		}
		addresses = append(addresses, further...)
	}
	return addresses, found, nil
}
