// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"slices"
	"strings"
)

// Taint keeps pods off a node that lacks a required network.
const Taint = "networking.k8s.aws/networks=missing:NoSchedule"

// labelPrefix begins the label of each network that a node has.
const labelPrefix = "networking.k8s.aws/network."

// Labels are the node labels that name the networks of the instance, as NAME=VALUE.
func (r Report) Labels() []string {
	var labels []string
	for _, i := range r.Interfaces {
		labels = append(labels, labelPrefix+i.Network+"=true")
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// flags are the kubelet's flags that follow from the report.
func (r Report) flags(taint bool) []string {
	var flags []string
	if labels := r.Labels(); len(labels) > 0 {
		flags = append(flags, "--node-labels="+strings.Join(labels, ","))
	}
	if taint {
		flags = append(flags, "--register-with-taints="+Taint)
	}
	return flags
}

// NodeConfig is a file for /etc/eks/nodeadm.d, which nodeadm merges into the configuration of the node (nodeadm,
// "Configuration"). The VPC CNI does not use our interfaces, so fewer pods fit on the node.
func (r Report) NodeConfig(taint bool) string {
	var text strings.Builder
	text.WriteString("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n")
	if n := r.onCard0(); n > 0 {
		fmt.Fprintf(&text, "    maxPodsExpression: \"((default_enis - %d) * (ips_per_eni - 1)) + 2\"\n", n)
	}
	text.WriteString("    flags:\n")
	for _, flag := range r.flags(taint) {
		fmt.Fprintf(&text, "    - %q\n", flag)
	}
	return text.String()
}

// Environment is a file for EnvironmentFile= of a systemd unit, for kubelets that nodeadm does not start. These accept
// a number of pods and no expression, and use the last one on the command line. The number depends on the processors of
// the node.
func (r Report) Environment(taint bool, processors int) string {
	flags := r.flags(taint)
	if pods := r.maxPods(processors); pods > 0 {
		flags = append(flags, fmt.Sprintf("--max-pods=%d", pods))
	}
	return fmt.Sprintf("MULTIENI_KUBELET_ARGS=%q\n", strings.Join(flags, " "))
}

// maxPods returns the number of pods that get an address when the instance also has our interfaces, at most the number
// that EKS allows in managed node groups (Amazon EKS user guide, "Choose an optimal Amazon EC2 node instance type"). It
// returns 0 when no correction is needed.
func (r Report) maxPods(processors int) int {
	ours := r.onCard0()
	if ours == 0 || !r.Limits.Known() || r.Limits.IPv4 == 0 {
		return 0
	}
	most := 110
	if processors >= 30 {
		most = 250
	}
	return min((r.Limits.MaxOnCard(0)-ours)*(r.Limits.IPv4-1)+2, most)
}

// onCard0 counts the interfaces on network card 0, whose slots the VPC CNI counts as its own.
func (r Report) onCard0() int {
	n := 0
	for _, i := range r.Interfaces {
		if i.NetworkCardIndex == 0 {
			n++
		}
	}
	return n
}
