// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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

// Kubernetes is the same as settings of Bottlerocket, in TOML.
func Kubernetes(c Cluster, n Node) string {
	var text strings.Builder
	text.WriteString("[settings.kubernetes]\n")
	if c.Complete() {
		fmt.Fprintf(&text, "cluster-name = %s\napi-server = %s\ncluster-certificate = %s\n",
			strconv.Quote(c.ClusterName), strconv.Quote(c.Endpoint), strconv.Quote(c.CA))
	}
	if c.ClusterDNS != "" {
		fmt.Fprintf(&text, "cluster-dns-ip = %s\n", strconv.Quote(c.ClusterDNS))
	}
	if len(n.Labels) > 0 {
		text.WriteString("\n[settings.kubernetes.node-labels]\n")
	}
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		fmt.Fprintf(&text, "%s = %s\n", strconv.Quote(key), strconv.Quote(n.Labels[key]))
	}
	return text.String()
}

// Opens reports whether TOML opens one of the tables, which can be opened only once. TOML permits spaces and tabs in
// the header of a table: [ settings . kubernetes ].
func Opens(toml string, tables ...string) (table string, opened bool) {
	spaces := strings.NewReplacer(" ", "", "\t", "")
	for line := range strings.Lines(toml) {
		line = spaces.Replace(line)
		for _, table := range tables {
			if strings.HasPrefix(line, "["+table+"]") {
				return table, true
			}
		}
	}
	return "", false
}
