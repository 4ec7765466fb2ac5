// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netattach renders the NetworkAttachmentDefinitions of a NodeENI. A definition names no node, no zone and no
// address: the alternative name of the link is the same on every node, and the IPAM program reads the addresses of a
// network from a file of its node. So one definition serves all nodes.
package netattach

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// The kind of the definitions (Kubernetes Network Plumbing Working Group, "Network Custom Resource Definition").
const (
	Group   = "k8s.cni.cncf.io"
	Version = "v1"
	Kind    = "NetworkAttachmentDefinition"
)

// The names of the CNI plugins that the definitions call in addition to that of the attachment.
const (
	IPAMPlugin   = "multieni-ipam"
	RoutesPlugin = "multieni-routes"
)

// cniVersion is the version of the configuration. All releases of Multus 4 read it.
const cniVersion = "1.0.0"

// Network is the pod network of one interface of a NodeENI.
type Network struct {
	// NodeENI and Ordinal identify the interface: its number among those of the NodeENI on a node, from 0.
	NodeENI string
	Ordinal int
	// HostDevice moves the link itself into one pod. Otherwise each pod gets an IPVLAN link on it.
	HostDevice bool
	// IGMPVersion is the version of IGMP on pods' links; 0 leaves it to the kernel.
	IGMPVersion int
}

// Name returns the name of the network and its definition: the NodeENI's, with two hyphens and the ordinal from the
// second interface on. A NodeENI with pods must not have a name of that form, so no two networks share a name. Multus
// takes no character that the name of a NodeENI cannot have.
func (n Network) Name() string {
	if n.Ordinal == 0 {
		return n.NodeENI
	}
	return fmt.Sprintf("%s--%d", n.NodeENI, n.Ordinal)
}

// ordinalSuffix is what the name of a network has behind that of the NodeENI from the second interface on.
var ordinalSuffix = regexp.MustCompile(`--[0-9]+$`)

// NodeENIOf returns the NodeENI of the network of a name.
func NodeENIOf(network string) string { return ordinalSuffix.ReplaceAllString(network, "") }

// LinkName returns the name of the link on every node: the NodeENI's, with the ordinal from the second interface on,
// behind a character that no Kubernetes name has. Alternative names derive from it.
func (n Network) LinkName() string {
	if n.Ordinal == 0 {
		return n.NodeENI
	}
	return fmt.Sprintf("%s_%d", n.NodeENI, n.Ordinal)
}

// Definition is a NetworkAttachmentDefinition without its namespace.
type Definition struct {
	Name string
	// Config is spec.config: a list of CNI plugins, as JSON.
	Config string
}

// Definition returns the definition of the network.
func (n Network) Definition() Definition {
	main := plugin{Type: "ipvlan", Master: hostnet.AltName(n.LinkName()), Mode: "l2"}
	if n.HostDevice {
		main = plugin{Type: "host-device", Device: hostnet.AltName(n.LinkName())}
	}
	// Multus passes "ips" of a pod's annotation only to a plugin with the capability, and drops it silently otherwise.
	main.Capabilities = map[string]bool{"ips": true}
	main.IPAM = &plugin{Type: IPAMPlugin, Network: n.Name()}
	config, err := json.Marshal(configuration{CNIVersion: cniVersion, Name: n.Name(),
		Plugins: []plugin{main, {Type: RoutesPlugin, Network: n.Name(), IGMPVersion: n.IGMPVersion}}})
	if err != nil {
		panic(err) // strings alone are always JSON
	}
	return Definition{Name: n.Name(), Config: string(config)}
}

// configuration is a list of CNI plugins (CNI specification, "Configuration format").
type configuration struct {
	CNIVersion string   `json:"cniVersion"`
	Name       string   `json:"name"`
	Plugins    []plugin `json:"plugins"`
}

type plugin struct {
	Type string `json:"type"`

	Capabilities map[string]bool `json:"capabilities,omitempty"`

	Master      string  `json:"master,omitempty"`
	Device      string  `json:"device,omitempty"`
	Mode        string  `json:"mode,omitempty"`
	Network     string  `json:"network,omitempty"`
	IPAM        *plugin `json:"ipam,omitempty"`
	IGMPVersion int     `json:"igmpVersion,omitempty"`
}

// Count returns the number of networks of a NodeENI, at least 1: the largest number of subnets that a zone has of those
// it lists, given the zone of each. With a selector, and with the name or ID of one subnet, each node gets one
// interface.
func Count(zones []string, listed bool) int {
	most, of := 1, map[string]int{}
	if !listed {
		return most
	}
	for _, zone := range zones {
		of[zone]++
		most = max(most, of[zone])
	}
	return most
}
