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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
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
	cloud          ec2
	now            time.Time

	// claims return the claim of each NodeENI on a node at a location, in the order of nodeENIs.
	claims []func(selector.Location) render.Claim
	// stateOf finds a node's state by its name.
	stateOf map[string]*v1alpha1.NodeENIState
}

// maxParallelReads is the number of nodes that are read concurrently; their reads share calls.
const maxParallelReads = 2000

// simulate plans for every node that the NodeENIs select, or selected before.
func (d *dryRun) simulate(ctx context.Context) (drafts []report.SimulatedNode, skipped []string, err error) {
	if err := d.resolve(ctx); err != nil {
		return nil, nil, err
	}
	d.stateOf = map[string]*v1alpha1.NodeENIState{}
	for i := range d.states {
		d.stateOf[d.states[i].Name] = &d.states[i]
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
		n := &d.nodeENIs[i]
		subnets, err := resolve.Subnets(ctx, controller.SubnetTerms(n.Spec))
		if err != nil {
			return fmt.Errorf("resolve the subnets of NodeENI %s: %w", n.Name, err)
		}
		groups, err := resolve.SecurityGroups(ctx, controller.GroupTerms(n.Spec))
		if err != nil {
			return fmt.Errorf("resolve the security groups of NodeENI %s: %w", n.Name, err)
		}
		d.claims = append(d.claims, func(at selector.Location) render.Claim {
			claim := controller.NewClaim(n)
			controller.ResolveClaim(&claim, n.Spec, selector.Found{Subnets: subnets, Groups: groups}, at)
			return claim
		})
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
	wanted := d.desired(node, ref.ID, selector.Location{Zone: ref.Zone, VPCID: look.Instance.VPCID})
	facts := forecast.Input{Look: look, Limits: limits, Ledger: d.ledger(node.Name, ref.ID),
		Stored: map[string]plan.Stored{}}
	if state := d.stateOf[node.Name]; state != nil {
		controller.AddFacts(facts.Stored, controller.RequestedAddresses(nil, *state),
			func(i *plan.Stored, addresses eni.Addresses) { i.Requested = addresses })
		controller.AddFacts(facts.Stored, controller.RecordsOfENA(*state),
			func(i *plan.Stored, record plan.ENA) { i.ENA = record })
		controller.AddFacts(facts.Stored, controller.PodNetworks(state, ref.ID),
			func(i *plan.Stored, report plan.PodNetwork) { i.Report = &report })
	}
	return &report.SimulatedNode{Node: node.Name, Outcome: forecast.Simulate(wanted, facts, d.now).Of(d.names),
		Look: look, Limits: limits}, nil
}

func (d *dryRun) desired(node *corev1.Node, instanceID string, at selector.Location) render.Declared {
	wanted := render.Declared{Cluster: d.cloud.cluster, Node: node.Name, InstanceID: instanceID,
		InstanceTags: d.cloud.instanceTags}
	for i := range d.nodeENIs {
		wanted.Claims = append(wanted.Claims, d.claim(i, node, at))
	}
	return wanted
}

func (d *dryRun) claim(i int, node *corev1.Node, at selector.Location) render.Claim {
	n := &d.nodeENIs[i]
	standing, why := render.ModeFor(render.SelectionFacts{
		NodeENIKnown: true, NodeENIDeleting: !n.DeletionTimestamp.IsZero() || slices.Contains(d.removed, n.Name),
		NodePresent: true, Selected: controller.Selector(n.Spec).Matches(labels.Set(node.Labels)),
		NodeENIPaused: controller.Paused(n), NodePaused: controller.Paused(node),
	})
	claim := controller.NewClaim(n)
	if standing == render.Ensure {
		claim = d.claims[i](at)
	}
	claim.Mode, claim.Why = standing, why
	return claim
}

func (d *dryRun) ledger(node, instanceID string) identity.Generations {
	ledger := identity.Generations{}
	state := d.stateOf[node]
	if state == nil || state.Spec.InstanceID != instanceID {
		return ledger
	}
	for _, m := range state.Spec.Members {
		ledger[identity.Key{Owner: identity.Owner(m.NodeENIUID), Ordinal: int(m.Ordinal)}] = identity.Generation(m.Generation)
	}
	return ledger
}
