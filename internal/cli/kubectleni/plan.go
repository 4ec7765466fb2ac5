// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/report"
)

func newPlan() *cobra.Command {
	var s screen
	var e cloud
	var p planOptions
	c := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what applying a manifest would create, change and remove, on which nodes, and at what cost",
		Long: `Show the effects of NodeENIs before you apply them: which interfaces would be created, changed,
removed or blocked on which nodes, how many calls to EC2 that takes, and how long it takes at
least with EC2's request limits.

The API server validates and completes the NodeENIs by a dry run. The command reads subnets,
groups, instances and interfaces from EC2 with your own AWS credentials, and plans with the code
of the controller. It changes nothing.`,
		Example: `  kubectl eni plan -f examples/single-subnet.yaml
  kubectl eni plan -f changed.yaml -o wide      # every node by name
  kubectl eni plan -f multus.yaml --delete      # the effects of deleting it
  kustomize build . | kubectl eni plan -f -
  kubectl get nodeenis -o yaml | kubectl eni plan -f -`,
		Args: cobra.NoArgs,
		RunE: s.show(func(c *cobra.Command, api client.Client, _ []string) (textOutput, error) {
			p.stdin = c.InOrStdin()
			return p.plan(c.Context(), api, &e)
		}),
	}
	c.Flags().StringArrayVarP(&p.files, "filename", "f", nil,
		"file or folder with NodeENIs, or - for standard input; required, may be repeated")
	c.Flags().BoolVar(&p.remove, "delete", false, "plan the deletion of the NodeENIs")
	e.bind(c.Flags())
	e.bindInstanceTags(c.Flags())
	s.bind(c, "wide", "json", "yaml")
	return c
}

type planOptions struct {
	files  []string
	stdin  io.Reader
	remove bool
}

func (p planOptions) plan(ctx context.Context, api client.Client, e *cloud) (report.PlanDiff, error) {
	if len(p.files) == 0 {
		return report.PlanDiff{}, errors.New("specify the NodeENIs with -f FILE, or -f - for standard input")
	}
	manifests, err := readManifests(p.files, p.stdin)
	if err != nil {
		return report.PlanDiff{}, err
	}
	o, err := read(ctx, api)
	if err != nil {
		return report.PlanDiff{}, err
	}
	cloud, err := e.connect(ctx, api)
	if err != nil {
		return report.PlanDiff{}, err
	}
	d := dryRun{objects: o, api: api, cloud: cloud, now: time.Now()}
	for i := range manifests {
		if err := d.add(ctx, api, &manifests[i], p.remove); err != nil {
			return report.PlanDiff{}, err
		}
	}
	drafts, skipped, err := d.simulate(ctx)
	if err != nil {
		return report.PlanDiff{}, err
	}
	planned := report.NewPlanDiff(drafts, rates())
	planned.Skipped = skipped
	subnets, err := readSubnets(ctx, cloud, report.PlannedSubnets(drafts), nil)
	if err != nil {
		planned.Skipped = append(planned.Skipped, fmt.Sprintf("the free addresses of the subnets are not known: %v", err))
	}
	planned.AddShortages(drafts, subnets.Subnets)
	volumes, err := offeredVolumes(ctx, api)
	if err != nil {
		planned.Skipped = append(planned.Skipped, fmt.Sprintf("the volumes of the nodes are not known: %v", err))
	}
	planned.AddCrowding(drafts, volumes)
	planned.PodSizings = ofNames(d.podSizings(), slices.DeleteFunc(slices.Clone(d.names), func(name string) bool {
		return slices.Contains(d.removed, name)
	}))
	cni, installed, err := vpcCNI(ctx, api)
	if err != nil {
		planned.Skipped = append(planned.Skipped, fmt.Sprintf("the settings of the VPC CNI are not known: %v", err))
	}
	if installed {
		planned.AddCNIRoom(drafts, cni.settings())
	}
	return planned, nil
}

// rates are the request rates of a controller with default settings in an account without other clients.
func rates() map[string]forecast.Rate {
	all := map[string]forecast.Rate{}
	for action, bucket := range awsec2.DocumentedBuckets() {
		all[action] = forecast.Rate{Burst: bucket.Usable(), PerSecond: bucket.Refill}
	}
	return all
}

// add replaces the NodeENI of the name of a manifest with it, as the API server would store it.
func (d *dryRun) add(ctx context.Context, api client.Client, manifest *v1alpha1.NodeENI, remove bool) error {
	d.names = append(d.names, manifest.Name)
	at := slices.IndexFunc(d.nodeENIs, func(n v1alpha1.NodeENI) bool { return n.Name == manifest.Name })
	if remove {
		if at < 0 {
			return fmt.Errorf("there is no NodeENI %s to delete", manifest.Name)
		}
		d.removed = append(d.removed, manifest.Name)
		return nil
	}
	if at < 0 {
		created := manifest.DeepCopy()
		if err := api.Create(ctx, created, client.DryRunAll); err != nil {
			return fmt.Errorf("NodeENI %s would be refused: %w", manifest.Name, err)
		}
		d.nodeENIs = append(d.nodeENIs, *created)
		return nil
	}
	changed := d.nodeENIs[at].DeepCopy()
	changed.Spec = manifest.Spec
	if manifest.Annotations != nil {
		changed.Annotations = manifest.Annotations
	}
	if err := api.Update(ctx, changed, client.DryRunAll); err != nil {
		return fmt.Errorf("the change of NodeENI %s would be refused: %w", manifest.Name, err)
	}
	d.before = append(d.before, d.nodeENIs[at])
	d.nodeENIs[at] = *changed
	return nil
}
