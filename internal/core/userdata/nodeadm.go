// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Cluster has the values that a node needs to join the cluster.
type Cluster struct {
	ClusterName, Endpoint string
	// CA is the certificate authority of the API server, as base64 of PEM.
	CA string
	// ServiceCIDR is the range of the cluster's services.
	ServiceCIDR string
	// ClusterDNS is the address of the cluster's DNS service; empty for the one that the image derives.
	ClusterDNS string
}

// Or returns c with the values of defaults in its empty fields; c alone if its name is that of another cluster.
func (c Cluster) Or(defaults Cluster) Cluster {
	if c.ClusterName != "" && c.ClusterName != defaults.ClusterName {
		return c
	}
	return Cluster{
		ClusterName: cmp.Or(c.ClusterName, defaults.ClusterName), Endpoint: cmp.Or(c.Endpoint, defaults.Endpoint),
		CA:          cmp.Or(c.CA, defaults.CA),
		ServiceCIDR: cmp.Or(c.ServiceCIDR, defaults.ServiceCIDR), ClusterDNS: cmp.Or(c.ClusterDNS, defaults.ClusterDNS),
	}
}

// Complete reports whether a node can join with these values.
func (c Cluster) Complete() bool {
	return c.ClusterName != "" && c.Endpoint != "" && c.CA != "" && c.ServiceCIDR != ""
}

// Node has the values of user data for the node itself.
type Node struct {
	Labels map[string]string
	// LeftAlone is how many interfaces of card 0 the VPC CNI does not use.
	LeftAlone int
}

func (n Node) labelList() string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		labels = append(labels, key+"="+n.Labels[key])
	}
	return strings.Join(labels, ",")
}

// NodeConfig is the configuration of a node for nodeadm, which merges several in their order (nodeadm,
// "Configuration").
func NodeConfig(c Cluster, n Node) string {
	var text strings.Builder
	text.WriteString("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n")
	if c.Complete() {
		fmt.Fprintf(&text, "  cluster:\n    name: %s\n    apiServerEndpoint: %s\n    certificateAuthority: %s\n   "+
			" cidr: %s\n",
			strconv.Quote(c.ClusterName), strconv.Quote(c.Endpoint), strconv.Quote(c.CA), strconv.Quote(c.ServiceCIDR))
	}
	if n.LeftAlone > 0 || c.ClusterDNS != "" || len(n.Labels) > 0 {
		text.WriteString("  kubelet:\n")
	}
	if n.LeftAlone > 0 {
		fmt.Fprintf(&text, "    maxPodsExpression: \"((default_enis - %d) * (ips_per_eni - 1)) + 2\"\n", n.LeftAlone)
	}
	if c.ClusterDNS != "" {
		fmt.Fprintf(&text, "    config:\n      clusterDNS:\n      - %s\n", strconv.Quote(c.ClusterDNS))
	}
	if len(n.Labels) > 0 {
		fmt.Fprintf(&text, "    flags:\n    - %s\n", strconv.Quote("--node-labels="+n.labelList()))
	}
	return text.String()
}

// nodeConfigs returns the NodeConfigs of a part, each as a part by itself: nodeadm reads only the first document of a
// part. It changes no value, since nodeadm also merges the values, and the last part wins (nodeadm, "Configuration").
func nodeConfigs(p Part) ([]Part, error) {
	text, err := unpack(p.Body)
	if err != nil {
		return nil, err
	}
	var all []Part
	for _, document := range documents(text) {
		var object any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("its NodeConfig is not YAML: %s", strings.Join(strings.Fields(err.Error()), " "))
		}
		if object == nil {
			continue
		}
		if err := checkNodeConfig(object); err != nil {
			return nil, err
		}
		all = append(all, Part{Kind: p.Kind, Header: p.Header, Body: document})
	}
	if len(all) == 0 {
		return nil, errors.New("one of its NodeConfigs is empty")
	}
	return all, nil
}

var documentMarker = regexp.MustCompile(`(?m)^(---|\.\.\.)(\s|$)`)

// documents returns the documents of YAML, each with the marker before it. A marker cannot be part of a value (YAML
// 1.2.2, 9.1.2).
func documents(text string) []string {
	var all []string
	begin := 0
	for _, at := range documentMarker.FindAllStringIndex(text, -1) {
		all = append(all, text[begin:at[0]])
		begin = at[0]
	}
	return append(all, text[begin:])
}

// nodeConfigGroup is the API group of NodeConfigs.
const nodeConfigGroup = "node.eks.aws"

// checkNodeConfig accepts the group and kind that nodeadm reads.
func checkNodeConfig(object any) error {
	fields, _ := object.(map[string]any)
	version, _ := fields["apiVersion"].(string)
	kind, _ := fields["kind"].(string)
	if !strings.HasPrefix(version, nodeConfigGroup+"/") || kind != "NodeConfig" {
		return fmt.Errorf("its NodeConfig has the apiVersion %q and the kind %q: nodeadm reads the kind NodeConfig of "+
			"%s/v1alpha1", version, kind, nodeConfigGroup)
	}
	return nil
}
