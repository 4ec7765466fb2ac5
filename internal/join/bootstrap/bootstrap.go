// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap gives an instance its interfaces while it boots, before the kubelet starts, and makes their links
// usable.
//
// It stores the interfaces in a checkpoint. When the instance boots again and instance metadata still lists all of
// them, bootstrap only configures the links again and makes no call to EC2.
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
	"github.com/multieni/multieni/internal/join/join"
)

// linkPollInterval is the interval of reads of the links while one of them does not exist yet.
const linkPollInterval = 250 * time.Millisecond

// Host is the network of the host.
type Host interface {
	Facts(devices []string) (hostnet.Facts, error)
	Apply(hostnet.Operation) error
}

// Options configure a boot.
type Options struct {
	// Metadata reads instance metadata.
	Metadata func(context.Context) (eni.Metadata, error)
	// Ensure gives the instance its interfaces in EC2.
	Ensure func(ctx context.Context, instanceID string, unused bool) (join.Result, error)
	Host   Host
	// LeaveOnly, if set, makes the host's network manager ignore the links with these MAC addresses, and no others.
	LeaveOnly func(ctx context.Context, macs []string)
	// Dir is the folder of the checkpoint.
	Dir string
	// MTU is the MTU of the links in bytes; 0 means the largest inside a VPC.
	MTU int
	// LinkTimeout is how long to wait for links.
	LinkTimeout time.Duration
	Log         *slog.Logger
}

// Report is the result of a boot.
type Report struct {
	Checkpoint
	// Failed says why the boot failed; empty if it succeeded.
	Failed string
}

// Run attaches the instance's interfaces and configures their links. It returns an error only if the instance is not
// known; the report has all other errors.
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

// boot returns the interfaces of the instance, even after an error.
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

// prepare creates and attaches the interfaces of the instance, and stores the checkpoint.
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

// configureOnce executes the possible operations, and says which links are not usable yet.
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

// facts returns the facts of the host. It marks the primary link by its MAC address, because the link may not have a
// route yet.
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
