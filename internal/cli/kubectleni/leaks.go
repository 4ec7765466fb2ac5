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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/report"
)

func newLeaks() *cobra.Command {
	var s screen
	var e cloud
	var collect bool
	var q question
	c := &cobra.Command{
		Use:   "leaks",
		Short: "List interfaces in EC2 whose NodeENI does not exist; delete them on request",
		Long: `List the interfaces that have this cluster's tag and whose NodeENI does not exist, and what
happens to each. A running controller removes them by itself. Interfaces that have no NodeENI and
are not leaks are listed separately: launch interfaces, pre-join interfaces of the lifecycle hook
or of eni-bootstrap, and those that the controller retains because their tags are no evidence.
So are interfaces of this cluster's NodeENIs that have the name of another cluster: a controller with
another cluster name made them.

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

// findLeaks reads EC2 before the NodeENIs, so that the read of an interface is always older than the absence of its
// owner.
func findLeaks(ctx context.Context, api client.Client, cloud ec2) (report.Leaks, error) {
	owned, _, err := cloud.ListOwned(ctx)
	if err != nil {
		return report.Leaks{}, err
	}
	o, err := read(ctx, api)
	if err != nil {
		return report.Leaks{}, err
	}
	known := report.Evidence{Living: map[identity.Owner]bool{}, Recorded: map[string]bool{},
		Promised: map[report.Promise]bool{}}
	for _, n := range o.nodeENIs {
		known.Living[identity.Owner(n.UID)] = true
	}
	for _, state := range o.states {
		for _, i := range state.Status.Interfaces {
			known.Recorded[i.ENIID] = true
		}
		addLedgers(known.Promised, state.Spec.InstanceID, state.Spec.Members)
		for _, previous := range state.Spec.PreviousInstances {
			addLedgers(known.Promised, previous.InstanceID, previous.Members)
		}
	}
	leaks := report.NewLeaks(cloud.cluster, owned, known, time.Now())
	all, err := cloud.ListByOwners(ctx, ownersOf(o))
	leaks.AddOtherNames(all)
	return leaks, err
}

func addLedgers(promised map[report.Promise]bool, instanceID string, ledger []v1alpha1.Member) {
	for _, m := range ledger {
		key := identity.Key{Owner: identity.Owner(m.NodeENIUID), Ordinal: int(m.Ordinal)}
		promised[report.Promise{InstanceID: instanceID, Key: key, Generation: identity.Generation(m.Generation)}] = true
	}
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
