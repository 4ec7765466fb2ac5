// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/netattach"
)

// Interface is what the annotation of a Node says about one usable interface, by the name of its link on every node.
type Interface struct {
	NodeENI    string `json:"nodeENI"`
	ENIID      string `json:"eniID"`
	MAC        string `json:"mac"`
	Name       string `json:"name,omitempty"`
	SubnetID   string `json:"subnetID,omitempty"`
	PCIAddress string `json:"pciAddress,omitempty"`
}

// usableInterfaces returns the interfaces with a usable link, by the name of the link on every node.
func usableInterfaces(state *v1alpha1.NodeENIState) map[string]Interface {
	usable := map[string]Interface{}
	if state == nil {
		return usable
	}
	for _, i := range state.Status.Interfaces {
		link := linkOf(i, state.Status.Links)
		if removing(i) || link == nil || !isUsable(*link) {
			continue
		}
		named := netattach.Network{NodeENI: i.NodeENI, Ordinal: int(i.Ordinal)}
		usable[hostnet.AltName(named.LinkName())] = Interface{NodeENI: i.NodeENI, ENIID: i.ENIID, MAC: i.MACAddress,
			Name: link.Name, SubnetID: i.SubnetID, PCIAddress: link.PCIAddress}
	}
	return usable
}

// describe sets the labels and the annotation of a node's usable interfaces.
func describe(node *corev1.Node, state *v1alpha1.NodeENIState) error {
	usable := usableInterfaces(state)
	labels := maps.Clone(node.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, v1alpha1.InterfaceLabelPrefix) })
	for altName, i := range usable {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1alpha1.InterfaceLabelPrefix+altName] = i.ENIID
	}
	node.Labels = labels
	if len(usable) == 0 {
		delete(node.Annotations, v1alpha1.InterfacesAnnotation)
		return nil
	}
	text, err := json.Marshal(usable)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.InterfacesAnnotation, string(text))
	return nil
}
