// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/report"
)

// podSizings returns the sizings of the pod networks whose pods share the IPv4 prefixes of an interface, in the order
// of the NodeENIs. A network whose NodeENI selects no node has none.
func (o objects) podSizings() []report.PodSizing {
	var all []report.PodSizing
	for i := range o.nodeENIs {
		n := &o.nodeENIs[i]
		if n.Spec.Pods == nil || n.Spec.Pods.IPv4 == nil || n.Spec.Pods.Attachment != v1alpha1.PodAttachmentIPVLAN {
			continue
		}
		if most := o.mostPods(n); most > 0 {
			all = append(all, report.NewPodSizing(n.Name, int(n.Spec.Pods.IPv4.Prefixes.Min), most))
		}
	}
	return all
}

// mostPods returns the most pods that a node of a NodeENI allows, 0 without a node.
func (o objects) mostPods(n *v1alpha1.NodeENI) int {
	selector, most := controller.Selector(n.Spec), 0
	for i := range o.nodes {
		if node := &o.nodes[i]; selector.Matches(labels.Set(node.Labels)) {
			most = max(most, int(node.Status.Allocatable.Pods().Value()))
		}
	}
	return most
}

// ofNames keeps the sizings of the NodeENIs of these names.
func ofNames(all []report.PodSizing, names []string) []report.PodSizing {
	return slices.DeleteFunc(all, func(s report.PodSizing) bool { return !slices.Contains(names, s.NodeENI) })
}

// podNetworks reports the sizing of each pod network.
func (d *doctor) podNetworks(o objects) {
	for _, sizing := range o.podSizings() {
		d.add(report.OK, "pod network", sizing.String(), "")
	}
}
