// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap gives an instance its interfaces while it boots, before the kubelet starts, and makes their links
// usable.
//
// It stores what it did in a checkpoint. When the instance boots again and instance metadata still has all of it,
// bootstrap only configures the links again and makes no call to EC2.
package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join"
)

// linkPollInterval is how often the links are looked at while one is not there yet.
const linkPollInterval = 250 * time.Millisecond

// Host is the network of the host.
type Host interface {
	Facts(devices []string) (hostnet.Facts, error)
	Apply(hostnet.Operation) error
}

// Options are what a boot works with.
type Options struct {
	// Metadata reads instance metadata.
	Metadata func(context.Context) (eni.Metadata, error)
	// Ensure gives the instance its interfaces in EC2.
	Ensure func(ctx context.Context, instanceID string, unused bool) (join.Result, error)
	Host   Host
	// LeaveOnly, if set, has the host's network manager leave the links with these MAC addresses alone.
	LeaveOnly func(ctx context.Context, macs []string)
	// Dir is where the record is kept.
	Dir string
	// MTU of the links; 0 means the largest inside a VPC.
	MTU int
	// LinkTimeout is how long to wait for links.
	LinkTimeout time.Duration
	Log         *slog.Logger
}

// Report is how a boot ended.
type Report struct {
	Checkpoint
	// Failed says what required thing is missing; empty when nothing is.
	Failed string
}

// Run brings the instance's interfaces and links up. Its error means that not even the instance is known; everything
// else that goes wrong is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	metadata, err := o.Metadata(ctx)
	if err != nil {
		return Report{}, err
	}
	record, err := o.boot(ctx, metadata)
	report := Report{Checkpoint: record}
	if err != nil {
		report.Failed = err.Error()
	}
	return report, nil
}

// boot returns what the instance has, as far as it came.
func (o Options) boot(ctx context.Context, metadata eni.Metadata) (Checkpoint, error) {
	record, err := o.load()
	if err != nil {
		o.Log.Warn("the record of the last boot cannot be used", "err", err)
	}
	first := record.InstanceID != metadata.InstanceID
	if first || len(record.Lacking) > 0 || !record.presentIn(metadata) {
		if record, err = o.prepare(ctx, record, metadata.InstanceID, first); err != nil {
			return record, err
		}
	} else {
		o.Log.Info("the interfaces of the last boot are still attached; EC2 is not asked",
			"interfaces", len(record.Interfaces))
	}
	return record, o.configure(ctx, record, metadata.PrimaryMAC)
}

// prepare has EC2 give the instance its interfaces, and keeps the record of them.
func (o Options) prepare(ctx context.Context, last Checkpoint, instanceID string, first bool) (Checkpoint, error) {
	result, err := o.Ensure(ctx, instanceID, first)
	if err != nil {
		return last, err
	}
	record := checkpointOf(instanceID, result)
	if result.Outcome != lifecycle.Ready {
		return record, errors.New(cmp.Or(result.Why, string(result.Outcome)))
	}
	return record, o.store(record)
}

// configure makes the links usable, and waits for those that the kernel does not show yet.
func (o Options) configure(ctx context.Context, record Checkpoint, primary string) error {
	ctx, cancel := context.WithTimeout(ctx, o.LinkTimeout)
	defer cancel()
	links := record.links(o.MTU)
	if o.LeaveOnly != nil {
		o.LeaveOnly(ctx, record.macs())
	}
	for {
		waiting, err := o.configureOnce(links, primary)
		if err == nil && waiting == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return err
			}
			return fmt.Errorf("within %s: %s", o.LinkTimeout, waiting)
		case <-time.After(linkPollInterval):
		}
	}
}

// configureOnce does what can be done now, and says what is not as it should be.
func (o Options) configureOnce(links []hostnet.Link, primary string) (waiting string, err error) {
	facts, err := o.facts(primary)
	if err != nil {
		return "", err
	}
	for _, op := range hostnet.Diff(hostnet.Configure(links, facts), facts) {
		o.Log.Info("configuring", "what", op.String())
		if err := o.Host.Apply(op); err != nil {
			return "", fmt.Errorf("%s: %w", op, err)
		}
	}
	if facts, err = o.facts(primary); err != nil {
		return "", err
	}
	var problems []string
	for _, observed := range hostnet.Observe(links, facts) {
		if !observed.State.Usable() {
			problems = append(problems, fmt.Sprintf("the link of %s (%s) is %s: %s", observed.Link.Name,
				observed.Link.MAC, observed.State, observed.Message))
		}
	}
	return strings.Join(problems, "; "), nil
}

// facts marks the primary link as what it is even while it has no route yet.
func (o Options) facts(primary string) (hostnet.Facts, error) {
	facts, err := o.Host.Facts(nil)
	if err != nil {
		return facts, fmt.Errorf("look at the network of the host: %w", err)
	}
	if n := slices.IndexFunc(facts.Links, func(l hostnet.LinkFacts) bool {
		return l.Device != "" && strings.EqualFold(l.MAC, primary)
	}); n >= 0 {
		facts.PrimaryLink = facts.Links[n].Index
	}
	return facts, nil
}
