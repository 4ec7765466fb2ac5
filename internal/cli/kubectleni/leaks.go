// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
)

func newLeaks() *cobra.Command {
	var s screen
	var e cloud
	var collect bool
	var q question
	c := &cobra.Command{
		Use:   "leaks",
		Short: "List interfaces in EC2 that no NetworkInterface has; delete them on request",
		Long: `List the ENIs that have this cluster's tag and that no NetworkInterface has, and what happens to
each. A running controller deletes those that are unattached, ten minutes after their creation. It
detaches none: nothing says that no pod uses it. Such an interface ends with its instance, or a new
NetworkInterface of its name takes it over. ENIs that are no leaks are listed separately: launch
interfaces, and pre-join interfaces of the lifecycle hook or of eni-bootstrap. So are interfaces of
this cluster's NodeENIs that have the name of another cluster: a controller with another cluster name
made them.

With --collect, the command deletes the leaks that are unattached and old enough, after you
confirm it. It never detaches an interface, and never changes one without the cluster's tag. It
calls EC2 with your own AWS credentials.`,
		Example: `  kubectl eni leaks
  kubectl eni leaks --collect
  kubectl eni leaks --collect --yes    # in a script`,
		Args: cobra.NoArgs,
		RunE: s.begin(func(c *cobra.Command, api client.Client, _ []string) error {
			cloud, err := e.connect(c.Context(), api)
			if err != nil {
				return err
			}
			leaks, err := findLeaks(c.Context(), api, cloud)
			if err != nil {
				return err
			}
			if err := s.print(c.OutOrStdout(), leaks); err != nil || !collect {
				return err
			}
			return collectLeaks(c, api, cloud, leaks, q)
		}),
	}
	c.Flags().BoolVar(&collect, "collect", false, "delete the leaks that are unattached and old enough")
	q.bind(c.Flags())
	e.bind(c.Flags())
	s.bind(c, "wide", "json", "yaml")
	return c
}

// findLeaks reads EC2 before the objects, so that the read of an ENI is always older than the absence of its object.
func findLeaks(ctx context.Context, api client.Client, cloud ec2) (report.Leaks, error) {
	owned, _, err := cloud.ListOwned(ctx)
	if err != nil {
		return report.Leaks{}, err
	}
	o, err := read(ctx, api)
	if err != nil {
		return report.Leaks{}, err
	}
	known := make([]report.KnownInterface, 0, len(o.interfaces))
	for _, n := range o.interfaces {
		known = append(known, report.KnownInterface{Name: n.Name, UID: string(n.UID), ENIID: n.Status.ENIID})
	}
	leaks := report.NewLeaks(cloud.cluster, owned, known, time.Now())
	all, err := cloud.ListByUIDs(ctx, uidsOf(o))
	leaks.AddOtherNames(all)
	return leaks, err
}

// collectLeaks asks for confirmation, reads again, and deletes the interfaces that are leaks in both reads.
func collectLeaks(c *cobra.Command, api client.Client, cloud ec2, leaks report.Leaks, q question) error {
	ids := leaks.Collectable()
	if len(ids) == 0 {
		fmt.Fprintln(c.ErrOrStderr(), "nothing to collect")
		return nil
	}
	if err := q.ask(c, fmt.Sprintf("Delete %d interfaces in %s?", len(ids), cloud.region)); err != nil {
		return err
	}
	again, err := findLeaks(c.Context(), api, cloud)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range again.Collectable() {
		if !slices.Contains(ids, id) {
			continue
		}
		if err := cloud.DeleteInterface(c.Context(), id); err != nil && eni.ErrorClass(err) != eni.NotFound {
			failed = append(failed, fmt.Errorf("delete %s: %w", id, err))
			continue
		}
		fmt.Fprintln(c.ErrOrStderr(), "deleted", id)
	}
	return errors.Join(failed...)
}
