// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
)

const (
	// firstRetry and lastRetry are the shortest and the longest backoff after a failed pass.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	// apiServerTimeout is how long to wait for the API server before the agent uses the last known state.
	apiServerTimeout = 3 * time.Second
)

// Run reconciles the links until the context ends: at every change of the host or of the node's objects, and
// periodically. It fails when the events of the host end.
func (a *Agent) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() { a.API.watch(ctx, a.Log) })
	if a.metadata != nil {
		beside.Go(func() { a.metadata.keep(ctx, a.Log, a.API.Wake) })
	}
	if !a.prepare(ctx) {
		return nil
	}
	retry := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	for {
		if err := a.pace.Wait(ctx); err != nil {
			return nil // the context has ended, which is no failure
		}
		var next time.Duration
		err := panics.AsError("the pass over node "+a.Node, func() (err error) {
			next, err = a.reconcile(ctx)
			return err
		})
		if err == nil {
			retry.Forget(a.Node)
		} else if ctx.Err() == nil {
			next = min(next, retry.When(a.Node))
			a.logFailure(ctx, next, err)
		}
		if err := a.await(ctx, next); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// logFailure logs a failed pass. Conflicts are normal for objects that many clients write.
func (a *Agent) logFailure(ctx context.Context, next time.Duration, err error) {
	if apierrors.IsConflict(err) {
		a.Log.Log(ctx, slog.Level(-1), "another client changed the object; the agent retries", "in", next, "err", err)
		return
	}
	a.Log.Error("the agent could not configure the node's interfaces or report on them; it retries",
		"in", next, "err", err)
}

// prepare waits until the objects in the API server are known. If that takes longer than apiServerTimeout, the agent
// begins with the checkpoint of an earlier process. It reports false if the context has ended.
func (a *Agent) prepare(ctx context.Context) bool {
	early, cancel := context.WithTimeout(ctx, apiServerTimeout)
	defer cancel()
	for early.Err() == nil {
		var known *eni.Metadata
		if a.metadata != nil {
			known = a.metadata.known()
		}
		a.API.findNames(instanceOf(known, a.API.nodeObject()))
		if a.API.Synced() {
			return true
		}
		select {
		case <-early.Done():
		case <-a.API.changed:
		}
	}
	if ctx.Err() != nil {
		return false
	}
	a.recall()
	a.Log.Warn("the API server does not answer; until it does, the agent configures the links of interfaces in its "+
		"checkpoint that instance metadata lists, and restores none",
		"server", a.API.nodes.Get().URL().Host, "recorded", len(a.saved.Interfaces))
	return true
}

// await returns after the time, or when the host, an object of the node, a lease or an address of a pod changes. It
// fails when the events of the host end.
func (a *Agent) await(ctx context.Context, wait time.Duration) error {
	var addresses, leases <-chan struct{}
	if a.PodAddresses != nil {
		addresses = a.PodAddresses.Events()
	}
	if a.LeaseEvents != nil {
		leases = a.LeaseEvents.Events()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-a.API.changed:
		case <-leases:
		case <-addresses:
			if !a.addressesChanged() {
				continue
			}
		case _, open := <-a.Host.Events():
			if !open {
				return errors.New("the kernel's events can no longer be read")
			}
		}
		return nil
	}
}
