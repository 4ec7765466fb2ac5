// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join gives an instance the interfaces of its networks before it joins a cluster, or while it does.
//
// The lifecycle hook and the boot of a node share it. It works like the controller: it reads the instance, package plan
// computes a plan, and it executes the plan, until package lifecycle reports that no network is missing or that one is
// not available. It keeps no state: the next attempt finds in the tags what an earlier one began.
package join

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

const (
	// selectorsTTL is how long a process that serves many instances keeps the results of selectors.
	selectorsTTL, unresolvedSelectorsTTL = 10 * time.Minute, 5 * time.Second
	// poll is the time between two reads while interfaces are in transition.
	poll = time.Second
	// snapshotMaxAge is the largest age of a snapshot that calls are based on.
	snapshotMaxAge = 15 * time.Second
	// detachTimeout is the time limit for the removal of interfaces.
	detachTimeout = time.Minute
	// maxParallelMembers is the number of interfaces of an instance with calls in flight at the same time.
	maxParallelMembers = 16
	// maxRounds is the maximum number of plans from one snapshot: one after each call, and each interface needs about
	// three calls.
	maxRounds = 3 * maxParallelMembers
)

// Cloud is what package join needs from EC2.
type Cloud interface {
	executor.Cloud
	observer.Reader
	resolver.Reader
	// Limits returns the limits of an instance type.
	Limits(ctx context.Context, instanceType string) (eni.Limits, error)
}

// Options configure a Joiner.
type Options struct {
	Config lifecycle.Config
	Cloud  Cloud
	// Addresses chooses the addresses of interfaces that use the lowest free one.
	Addresses executor.Addresses
	// Attaching, if set, receives the MAC address of an interface before the interface is attached.
	Attaching func(ctx context.Context, mac string)
	// Now returns the present time.
	Now func() time.Time
	Log *slog.Logger
}

// Joiner prepares instances. It is safe for concurrent use.
type Joiner struct {
	Options
	resolver *resolver.Resolver
}

// New returns a Joiner.
func New(o Options) *Joiner {
	return &Joiner{Options: o, resolver: resolver.New(o.Cloud, resolver.Options{
		Fresh: selectorsTTL, Doubtful: unresolvedSelectorsTTL, Now: o.Now,
	})}
}

// Request is a request to prepare an instance.
type Request struct {
	InstanceID string
	// NothingRunning, if set, reports whether nothing runs on the instance yet. If a required network is not available and
	// nothing runs, Ensure removes the interfaces of all networks; otherwise it removes only those that this request made
	// or attached. Ensure calls it only then, because the request can be old.
	NothingRunning func(context.Context) bool
	// Timeout is how long to wait while a missing network may still become available. If EC2 reports a client token as
	// used, the time counts from the moment at which the interface can be created again.
	Timeout time.Duration
}

// Result is the state of an instance after a request.
type Result struct {
	lifecycle.Result
	Instance eni.Instance
	// Limits are the limits of the instance's type.
	Limits eni.Limits
	// Interfaces are those of the networks, without those that a rollback removed. Served are the interfaces of NodeENIs,
	// and those without an owner, that satisfy a network.
	Interfaces []plan.State
	Served     []eni.Interface
	// Attached counts the interfaces that this request attached, including those that a rollback removed.
	Attached int
}

// Ensure gives the instance its interfaces. When a required one is not available, it removes all of them. Interfaces
// that it cannot remove in time have tags that identify them for garbage collection. An error means that the context
// ended before the result was certain.
func (j *Joiner) Ensure(ctx context.Context, request Request) (Result, error) {
	r := j.newRun(request.InstanceID)
	until := j.Now().Add(request.Timeout)
	for {
		v, wait, err := r.round(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return r.result(v), fmt.Errorf("prepare instance %s: %w", request.InstanceID, context.Cause(ctx))
			}
			j.Log.Warn("EC2 could not be read; it is tried again", "instance", request.InstanceID, "err", err)
			v = lifecycle.Result{Outcome: lifecycle.Waiting, Why: err.Error()}
			wait = r.backoff()
		}
		ends := r.extend(until, request.Timeout)
		if v.Outcome == lifecycle.Waiting && !j.Now().Before(ends) {
			v = j.Config.Expire(v, r.plan)
		}
		switch v.Outcome {
		case lifecycle.Failed:
			unused := request.NothingRunning != nil && request.NothingRunning(ctx)
			r.rollBack(ctx, func(record inventory.Record) bool {
				return r.rolledBack(record.ID, unused)
			}, "a required network is not available: "+v.Why)
			return r.withoutRolledBack(r.result(v), unused), nil
		case lifecycle.Ready:
			r.rollBack(ctx, j.Config.IsRemoved, "its network is removed")
			return r.result(v), nil
		case lifecycle.Gone:
			return r.result(v), nil
		}
		r.waitForTransitions(ctx, min(wait, ends.Sub(j.Now())))
		if ctx.Err() != nil {
			return r.result(v), fmt.Errorf("prepare instance %s: %w; %s", request.InstanceID, context.Cause(ctx), v.Why)
		}
	}
}

// PrepareTermination deletes the interfaces of an instance that waits for its termination, or makes EC2 delete them
// together with the instance.
func (j *Joiner) PrepareTermination(ctx context.Context, instanceID string) error {
	r := j.newRun(instanceID)
	if _, err := r.watch.DescribeInstance(ctx, instanceID); err != nil {
		return err
	}
	for _, o := range r.do(ctx, lifecycle.TerminationCalls(r.watch.Of(instanceID).Interfaces)) {
		if o.Err != nil && eni.ErrorClass(o.Err) != eni.NotFound {
			return o.Err
		}
	}
	return nil
}

// ErrInstanceRunning means that EC2 returns an instance as running that a message reported as terminated: the message
// is wrong, or EC2's answer is stale.
var ErrInstanceRunning = errors.New("the instance is not terminated")

// CleanUpTerminated deletes the interfaces that a terminated instance leaves, and waits until EC2 detaches those that
// EC2 deletes itself. It does nothing for a running instance and returns [ErrInstanceRunning].
func (j *Joiner) CleanUpTerminated(ctx context.Context, instanceID string) error {
	r := j.newRun(instanceID)
	for {
		look, err := r.watch.DescribeInstance(ctx, instanceID)
		if err != nil {
			return err
		}
		if state := look.Instance.State; !state.Terminating() && state != eni.InstanceMissing {
			return fmt.Errorf("clean up after instance %s: %w: it is %s", instanceID, ErrInstanceRunning, state)
		}
		var want []plan.Interface
		for _, record := range networksOf(r.watch.Of(instanceID).Interfaces) {
			want = append(want, lifecycle.Existing(record, plan.Release))
		}
		r.do(ctx, r.compute(look, want, eni.Limits{}, nil).Calls)
		if !slices.ContainsFunc(networksOf(r.watch.Of(instanceID).Interfaces), outlivesInstance) {
			return nil
		}
		r.waitForTransitions(ctx, 5*poll)
		if ctx.Err() != nil {
			return fmt.Errorf("clean up after instance %s: %w", instanceID, context.Cause(ctx))
		}
	}
}

// outlivesInstance reports whether EC2 leaves the interface when its instance is gone.
func outlivesInstance(r inventory.Record) bool {
	return r.Attachment == nil || !r.Attachment.DeleteOnTermination
}

// Importable returns the interfaces without an owner on an instance that can become interfaces of networks; see
// [importer.FindUnowned].
func (j *Joiner) Importable(ctx context.Context, instanceID string) (importer.Result, error) {
	look, err := j.Cloud.DescribeInstance(ctx, instanceID)
	if err != nil {
		return importer.Result{}, err
	}
	found, err := j.find(ctx)
	if err != nil {
		return importer.Result{}, err
	}
	owned := look
	owned.Interfaces = slices.DeleteFunc(slices.Clone(look.Interfaces), func(i eni.Interface) bool {
		return identity.HasNoOwner(i.Tags)
	})
	return importer.FindUnowned(j.Config.Unserved(owned, found), look.Interfaces), nil
}

// Import gives an interface the tags of a network. It changes nothing else, and the interface stays attached.
func (j *Joiner) Import(ctx context.Context, m importer.Match) error {
	n := slices.IndexFunc(j.Config.Networks, func(n lifecycle.Network) bool { return n.Name == m.Key.NodeENI })
	return j.Cloud.PutTags(ctx, m.Interface.ID, m.Key.Tags(j.Now(), j.Config.Networks[n].Tags))
}

// find resolves the selectors of every network.
func (j *Joiner) find(ctx context.Context) ([]selector.Found, error) {
	found := make([]selector.Found, len(j.Config.Networks))
	for n, network := range j.Config.Networks {
		var err error
		if found[n].Subnets, err = j.resolver.Subnets(ctx, network.SubnetTerms()); err != nil {
			return nil, err
		}
		if found[n].Groups, err = j.resolver.SecurityGroups(ctx, network.GroupTerms()); err != nil {
			return nil, err
		}
	}
	return found, nil
}
