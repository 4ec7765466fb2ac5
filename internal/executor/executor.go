// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package executor carries plans out: it makes the calls a plan asks for, in the order the plan allows, and notes what
// they did, so that the next plan knows.
package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// attachmentAspect is what attaching and detaching change.
const attachmentAspect = "attachment"

// Recorder is where the effects of accepted calls are noted. The inventory package says what they mean.
type Recorder interface {
	// RecentlyCreated reports whether an interface is known for so short a time that EC2 may not know it everywhere yet.
	RecentlyCreated(now time.Time, id string) bool
	RecordCall(now time.Time, after eni.Interface, effect inventory.Effect)
	// RecordChange is Did for what changes of an interface as it is last known. It is one step: calls for other attributes of the
	// interface end at the same time.
	RecordChange(now time.Time, id string, change func(eni.Interface) eni.Interface, effect inventory.Effect)
	Deleted(now time.Time, id string)
	// RecordUnansweredCreate notes that an interface was asked for, and that EC2 did not say which one it made, if it made one.
	RecordUnansweredCreate(now time.Time, nodeENIUID string)
}

// Options are the settings of an Applier.
type Options struct {
	// Members is how many members of one instance are served at the same time. With 1 everything happens in the caller's
	// goroutine, in the order of the plan.
	Members int
	// Removals is how many interfaces of one instance are detached or deleted at the same time. How fast those of all
	// instances go is for EC2's request rates to say.
	Removals int
	// Group returns what runs the calls of one instance beside each other. If it is nil, goroutines do.
	Group func() Group
	// Addresses is asked for the addresses of interfaces that are to have the lowest one free.
	Addresses Addresses
	// Now tells the time.
	Now func() time.Time
}

// Applier carries plans out. It is safe for concurrent use.
type Applier struct {
	Options
	cloud Cloud
	notes Recorder
}

// New returns an Applier.
func New(cloud Cloud, notes Recorder, options Options) *Applier {
	return &Applier{Options: options, cloud: cloud, notes: notes}
}

// Outcome is what became of one action. Err is nil when EC2 accepted the call; otherwise it wraps an [eni.Fault] or the
// context's error.
type Outcome struct {
	Action plan.Action
	Err    error
}

// Do makes the calls and returns what became of each. Those for one interface of a member follow each other and stop at the
// first that fails, so that later ones have no outcome; different ones are served at the same time.
func (a *Applier) Do(ctx context.Context, actions []plan.Action) []Outcome {
	p := a.Pipeline()
	p.Start(ctx, actions, func() {})
	chains := slices.Clone(p.underWay)
	p.Drain()
	return outcomesOf(chains)
}

// ErrorClass returns the class of work an action belongs to. What the making of an interface ends with belongs to it.
func ClassOf(action plan.Action) ratelimit.Class {
	switch action := action.(type) {
	case plan.Create, plan.Attach:
		return ratelimit.Attach
	case plan.Detach, plan.Delete:
		return ratelimit.Removal
	case plan.Change:
		switch action.To.(type) {
		case plan.DeleteOnTermination, plan.SourceDestCheck:
			return ratelimit.Attach
		}
	}
	return ratelimit.Update
}

func (a *Applier) create(ctx context.Context, c plan.Create) error {
	answered := false
	defer func() { // also when the call panics: EC2 may have made something
		if !answered {
			a.notes.RecordUnansweredCreate(a.Now(), c.Member.NodeENIUID)
		}
	}()
	made, err := a.request(ctx, c)
	if err != nil {
		return err
	}
	answered = true
	if m, verdict := identity.Read(c.Member.Cluster, made.Tags); verdict != identity.Owned || m.Key != c.Member.Key || m.InstanceID != c.Member.InstanceID {
		return &eni.APIError{Class: eni.IdempotencyMismatch, Operation: "CreateNetworkInterface", Code: "tags", Message: fmt.Sprintf(
			"%s, which an earlier attempt made, has other tags by now and is left alone; another interface is made", made.ID)}
	}
	// Create answers "pending" once and EC2 does nothing more: the interface can be attached at once.
	if made.Status == eni.Pending {
		made.Status = eni.Available
	}
	a.notes.RecordCall(a.Now(), made, inventory.Effect{Aspect: "existence", IsVisible: func(eni.Interface) bool { return true }})
	return nil
}

// maxAddressAttempts bounds how many addresses one action asks EC2 for. What EC2 does not show as used is seldom more than one or
// two; each address costs a call, and a member that has failed waits for its next turn behind others.
const maxAddressAttempts = 16

// request asks EC2 for the interface. Where the lowest free address is wanted, one that EC2 calls used is followed by the
// next; nothing else is a reason to try another.
func (a *Applier) request(ctx context.Context, c plan.Create) (eni.Interface, error) {
	request := CreateRequest{
		Token:       c.Member.Token(),
		SubnetID:    c.SubnetID,
		Description: c.Spec.Description,
		Groups:      c.Spec.Groups,
		Counts:      c.Spec.AddressCounts,
		// The generation is the time at which the interface was decided on. Taking it for the time of creation keeps
		// the request the same on every attempt, as its token demands.
		Tags: c.Member.Tags(time.Unix(c.Member.Generation, 0), c.Spec.Tags),
	}
	if !c.Spec.LowestFree {
		return a.cloud.CreateInterface(ctx, request)
	}
	var last error
	for range maxAddressAttempts {
		var err error
		if request.PrimaryIPv4, err = a.Addresses.Reserve(ctx, c.SubnetID, c.Member); err != nil {
			return eni.Interface{}, err
		}
		made, err := a.createWith(ctx, c, request)
		if eni.ErrorClass(err) != eni.AddressTaken || ctx.Err() != nil {
			return made, err
		}
		a.Addresses.Taken(c.SubnetID, request.PrimaryIPv4)
		last = err
	}
	return eni.Interface{}, fmt.Errorf("EC2 calls %d addresses of %s used that it does not show as used, up to %s; see who takes "+
		"addresses there, or reserve a part of the subnet for multieni: %w", maxAddressAttempts, c.SubnetID, request.PrimaryIPv4, last)
}

// createWith makes the interface with the IPv4 address, and where that is wanted with the IPv6 address beside it. What EC2 has
// against the request may be about either address, so that it is made again with the IPv6 address left to EC2.
func (a *Applier) createWith(ctx context.Context, c plan.Create, request CreateRequest) (eni.Interface, error) {
	if !c.Spec.MatchIPv4Suffix || c.Spec.IPv6 != 1 {
		return a.cloud.CreateInterface(ctx, request)
	}
	beside, err := a.Addresses.WithIPv4Suffix(ctx, c.SubnetID, request.PrimaryIPv4)
	if err != nil {
		return eni.Interface{}, err
	}
	if !beside.IsValid() {
		return a.cloud.CreateInterface(ctx, request)
	}
	named := request
	named.IPv6, named.Counts.IPv6 = beside, 0
	made, err := a.cloud.CreateInterface(ctx, named)
	if class := eni.ErrorClass(err); class != eni.AddressTaken && class != eni.Invalid || ctx.Err() != nil {
		return made, err
	}
	return a.cloud.CreateInterface(ctx, request)
}

func (a *Applier) attach(ctx context.Context, at plan.Attach) error {
	attachment, err := a.cloud.AttachInterface(ctx, at.InterfaceID, at.Member.InstanceID, at.Slot)
	if err != nil {
		return err
	}
	a.note(at.InterfaceID, func(i eni.Interface) eni.Interface {
		i.Status, i.Attachment = eni.InUse, &attachment
		return i
	}, inventory.Effect{Aspect: attachmentAspect, IsVisible: func(i eni.Interface) bool { return i.Attachment != nil }})
	return nil
}

func (a *Applier) detach(ctx context.Context, d plan.Detach) error {
	if err := a.cloud.DetachInterface(ctx, d.AttachmentID, d.Force); err != nil {
		return err
	}
	a.note(d.InterfaceID, func(i eni.Interface) eni.Interface {
		if i.Attachment != nil {
			leaving := *i.Attachment
			leaving.Status = eni.AttachmentDetaching
			i.Attachment = &leaving
		}
		return i
	}, inventory.Effect{Aspect: attachmentAspect, IsVisible: func(i eni.Interface) bool {
		return i.Attachment == nil || i.Attachment.ID != d.AttachmentID || i.Attachment.Status == eni.AttachmentDetaching
	}})
	return nil
}

func (a *Applier) delete(ctx context.Context, d plan.Delete) error {
	err := a.cloud.DeleteInterface(ctx, d.InterfaceID)
	// What EC2 does not know is as wanted, unless it will only come to know it.
	if gone := eni.ErrorClass(err) == eni.NotFound && !a.notes.RecentlyCreated(a.Now(), d.InterfaceID); err != nil && !gone {
		return err
	}
	a.notes.Deleted(a.Now(), d.InterfaceID)
	return nil
}

func (a *Applier) change(ctx context.Context, c plan.Change) error {
	after := c.To.Apply
	var err error
	switch to := c.To.(type) {
	case plan.Groups:
		err = a.cloud.SetGroups(ctx, c.InterfaceID, to)
	case plan.Description:
		err = a.cloud.SetDescription(ctx, c.InterfaceID, string(to))
	case plan.SourceDestCheck:
		err = a.cloud.SetSourceDestCheck(ctx, c.InterfaceID, bool(to))
	case plan.DeleteOnTermination:
		err = a.cloud.SetDeleteOnTermination(ctx, c.InterfaceID, to.AttachmentID, to.Enabled)
	case plan.Tags:
		err = a.cloud.PutTags(ctx, c.InterfaceID, to)
	case plan.AssignAddresses:
		after, err = a.assign(ctx, c.InterfaceID, to)
	case plan.UnassignAddresses:
		err = a.unassign(ctx, c.InterfaceID, to)
	}
	if err != nil || c.Repetition { // what was not kept before is believed when EC2 shows it
		return err
	}
	a.note(c.InterfaceID, after, inventory.Effect{Aspect: plan.FieldOf(c.To), IsVisible: c.To.IsSatisfiedBy})
	return nil
}

func (a *Applier) assign(ctx context.Context, id string, more plan.AssignAddresses) (func(eni.Interface) eni.Interface, error) {
	call := a.cloud.AssignIPv4
	if more.Family == plan.IPv6 {
		call = a.cloud.AssignIPv6
	}
	added, err := call(ctx, id, more.Addresses, more.Prefixes)
	return func(i eni.Interface) eni.Interface {
		i.SecondaryIPv4 = slices.Concat(i.SecondaryIPv4, added.SecondaryIPv4)
		i.IPv4Prefixes = slices.Concat(i.IPv4Prefixes, added.IPv4Prefixes)
		i.IPv6 = slices.Concat(i.IPv6, added.IPv6)
		i.IPv6Prefixes = slices.Concat(i.IPv6Prefixes, added.IPv6Prefixes)
		return i
	}, err
}

func (a *Applier) unassign(ctx context.Context, id string, fewer plan.UnassignAddresses) error {
	if fewer.Family == plan.IPv6 {
		return a.cloud.UnassignIPv6(ctx, id, fewer.Surplus)
	}
	return a.cloud.UnassignIPv4(ctx, id, fewer.Surplus)
}

// note tells what a call made of an interface.
func (a *Applier) note(id string, change func(eni.Interface) eni.Interface, effect inventory.Effect) {
	a.notes.RecordChange(a.Now(), id, change, effect)
}
