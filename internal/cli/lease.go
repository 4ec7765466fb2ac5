// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/base/clock"
	"github.com/multieni/multieni/internal/cli/options"
)

// leasePoll is the time between two reads of a lease: a holder renews it about as often.
const leasePoll = time.Second

// refuseSecondLeader returns an error if a live process holds the leader lease, in any namespace: a process without
// leader election would be a second leader next to it. It compares no clocks. A holder lives if the lease changes
// within its duration, and half of it more for a standby replica to acquire the lease.
func refuseSecondLeader(ctx context.Context, reader client.Reader, o options.Controller, log *slog.Logger) error {
	before, err := heldLeases(ctx, reader, o)
	if apierrors.IsForbidden(err) {
		log.LogAttrs(ctx, slog.LevelWarn, "this process may not read the leader lease; make sure that no other controller "+
			"runs", slog.Any("err", err))
		return nil
	}
	if err != nil || len(before) == 0 {
		return err
	}
	var longest time.Duration
	for _, lease := range before {
		longest = max(longest, time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0))*time.Second)
	}
	wait := longest * 3 / 2
	log.LogAttrs(ctx, slog.LevelInfo, "a leader lease has a holder; waiting whether the holder lives",
		slog.Duration("wait", wait))
	for until := time.Now().Add(wait); time.Now().Before(until); {
		if !clock.Sleep(ctx, leasePoll) {
			return context.Cause(ctx)
		}
		now, err := heldLeases(ctx, reader, o)
		if err != nil {
			return err
		}
		for key, lease := range now {
			if before[key].ResourceVersion != lease.ResourceVersion {
				return fmt.Errorf("%s holds the leader lease %s, and this process would be a second leader without "+
					"one; stop that controller, or replace --leader-elect=false by --leader-election-namespace=%s",
					*lease.Spec.HolderIdentity, key, key.Namespace)
			}
		}
	}
	return nil
}

// heldLeases returns the leader leases with a holder: those of all namespaces or, if the process may not list them,
// that of its own.
func heldLeases(
	ctx context.Context, reader client.Reader, o options.Controller,
) (map[client.ObjectKey]coordinationv1.Lease, error) {
	var all coordinationv1.LeaseList
	err := reader.List(ctx, &all, client.MatchingFields{"metadata.name": leaseName})
	if own, unknown := leaseNamespace(o); apierrors.IsForbidden(err) && unknown == nil {
		all.Items = make([]coordinationv1.Lease, 1)
		err = client.IgnoreNotFound(reader.Get(ctx, client.ObjectKey{Namespace: own, Name: leaseName}, &all.Items[0]))
	}
	if err != nil {
		return nil, fmt.Errorf("read the leader leases %s: %w", leaseName, err)
	}
	held := map[client.ObjectKey]coordinationv1.Lease{}
	for _, lease := range all.Items {
		if ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			held[client.ObjectKeyFromObject(&lease)] = lease
		}
	}
	return held, nil
}
