// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/selector"
)

// dryRun is the cluster as it would be with some NodeENIs changed.
type dryRun struct {
	// objects holds the NodeENIs as they would be; before holds the changed ones as they are.
	objects
	before []v1alpha1.NodeENI
	// names are the names of the planned NodeENIs, removed those of the NodeENIs that would be deleted.
	names, removed []string
	api            client.Reader
	cloud          ec2
	now            time.Time

	// found has the matches of the selectors of each NodeENI, in their order, and floatingOf the ranges of addresses that
	// follow pods.
	found      []*selector.Found
	floatingOf []map[string][]string
}

// maxParallelReads is the number of nodes that are read concurrently; their reads share calls.
const maxParallelReads = 2000

// simulate plans for every node that the NodeENIs select, or selected before.
func (d *dryRun) simulate(ctx context.Context) (drafts []report.SimulatedNode, skipped []string, err error) {
	if err := d.resolve(ctx); err != nil {
		return nil, nil, err
	}
	outcomes := make([]*report.SimulatedNode, len(d.nodes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelReads)
	for i := range d.nodes {
		node := &d.nodes[i]
		if !d.concerns(node) {
			continue
		}
		ref, err := eni.ServedInstance(node.Spec.ProviderID, node.Labels)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("%s is skipped: %v", node.Name, err))
			continue
		}
		group.Go(func() error {
			return panics.AsError("node "+node.Name, func() error {
				var err error
				outcomes[i], err = d.simulateNode(ctx, node, ref)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	skipped = append(skipped, d.removedNodes()...)
	for _, outcome := range outcomes {
		if outcome != nil {
			drafts = append(drafts, *outcome)
		}
	}
	return drafts, skipped, nil
}

// removedNodes names the planned NodeENIs whose selector matches no node.
func (d *dryRun) removedNodes() (said []string) {
	for _, n := range d.nodeENIs {
		selector := controller.Selector(n.Spec)
		selects := func(node corev1.Node) bool { return selector.Matches(labels.Set(node.Labels)) }
		if slices.Contains(d.names, n.Name) && !slices.ContainsFunc(d.nodes, selects) {
			said = append(said, fmt.Sprintf(
				"NodeENI %s: no node carries the labels %s, so none gets its interfaces: kubectl label node NODE %s",
				n.Name, selector, strings.ReplaceAll(selector.String(), ",", " ")))
		}
	}
	return said
}

// concerns reports whether a planned NodeENI selects the node, before or after the change.
func (d *dryRun) concerns(node *corev1.Node) bool {
	selects := func(n v1alpha1.NodeENI) bool {
		return slices.Contains(d.names, n.Name) && controller.Selector(n.Spec).Matches(labels.Set(node.Labels))
	}
	return slices.ContainsFunc(d.nodeENIs, selects) || slices.ContainsFunc(d.before, selects)
}

// resolve finds the matches of the selectors of all NodeENIs.
func (d *dryRun) resolve(ctx context.Context) error {
	resolve := resolver.New(d.cloud, resolver.Options{Fresh: time.Hour, Doubtful: time.Hour, Now: time.Now})
	for i := range d.nodeENIs {
		found, err := controller.Resolve(ctx, resolve, &d.nodeENIs[i])
		if err != nil {
			return err
		}
		floatingOf, err := controller.FloatingOf(ctx, d.api, &d.nodeENIs[i])
		if err != nil {
			return fmt.Errorf("list SubnetReservations: %w", err)
		}
		d.found, d.floatingOf = append(d.found, found), append(d.floatingOf, floatingOf)
	}
	return nil
}

func (d *dryRun) simulateNode(
	ctx context.Context, node *corev1.Node, ref eni.InstanceRef,
) (*report.SimulatedNode, error) {
	look, err := d.cloud.DescribeInstance(ctx, ref.ID)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	limits, err := d.cloud.Limits(ctx, look.Instance.Type)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	in := forecast.Input{
		Cluster: d.cloud.cluster, Look: look, Limits: limits, InstanceTags: d.cloud.instanceTags,
		Node: d.instance(node, ref, look.Instance.VPCID), NodeENIs: d.declared(),
	}
	for i := range d.interfaces {
		if d.interfaces[i].Spec.InstanceID == ref.ID {
			in.Objects = append(in.Objects, forecastObject(&d.interfaces[i]))
		}
	}
	return &report.SimulatedNode{Node: node.Name, Outcome: forecast.Simulate(in, d.now).Of(d.names), Look: look,
		Limits: limits}, nil
}

// instance returns what package render knows about the instance of a node.
func (d *dryRun) instance(node *corev1.Node, ref eni.InstanceRef, vpcID string) render.In {
	return render.In{Instance: ref, VPCID: vpcID, Nodes: []render.Registration{
		{Name: node.Name, Labels: node.Labels, Paused: controller.Paused(node)},
	}}
}

// declared returns the NodeENIs as they would be.
func (d *dryRun) declared() []fleet.NodeENI {
	all := make([]fleet.NodeENI, len(d.nodeENIs))
	for i := range d.nodeENIs {
		n := &d.nodeENIs[i]
		all[i] = fleet.NodeENI{NodeENI: controller.NodeENI(n), Replace: n.Spec.UpdatePolicy == v1alpha1.UpdateReplace}
		all[i].Found, all[i].FloatingOf = d.found[i], d.floatingOf[i]
		all[i].Deleting = all[i].Deleting || slices.Contains(d.removed, n.Name)
	}
	return all
}

// forecastObject converts an object for package forecast.
func forecastObject(n *v1alpha1.NetworkInterface) forecast.Object {
	tracking, asPrimary := object.ConnectionTracking(n.Status.ConnectionTracking)
	o := forecast.Object{
		Object: object.Rendered(n), Requested: object.Addresses(n.Status.Requested), Since: n.CreationTimestamp.Time,
		ENA: plan.ENA{ConnectionTracking: tracking, TrackAsPrimary: asPrimary,
			ENAExpress: eni.ENAExpress(n.Status.ENAExpress), Unsupported: n.Status.Unsupported},
	}
	if n.Status.Pods != nil {
		o.Granted = prefixes(n.Status.Pods.Prefixes...)
	}
	if n.Status.Node != nil && n.Status.Node.Pods != nil {
		pods := n.Status.Node.Pods
		o.Wanted, o.Used = int(pods.Wanted), int(pods.Used)
		for _, pod := range pods.Pods {
			o.Pods = append(o.Pods, pod.Namespace+"/"+pod.Name)
		}
	}
	return o
}
