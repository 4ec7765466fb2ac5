// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package executor executes plans: it makes the calls of a plan in the order that the plan allows, and records their
// effects in the inventory for the next plan.
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

// attachmentAspect is the aspect that attaching and detaching change.
const attachmentAspect = "attachment"

// Recorder records the effects of accepted calls. The inventory package says what the effects mean.
type Recorder interface {
	// RecentlyCreated reports whether an interface is so new that some reads of EC2 may not return it yet.
	RecentlyCreated(now time.Time, id string) bool
	// RecordCreated records EC2's answer to a create call, with the addresses that EC2 chose for the counts of the call.
	RecordCreated(now time.Time, key identity.Interface, made eni.Interface, requested eni.Addresses)
	// RecordChange records an accepted call that changed the last known interface. It is atomic, because calls for other
	// attributes of the interface end concurrently.
	RecordChange(now time.Time, id string, change func(eni.Interface) eni.Interface, effect inventory.Effect)
	Deleted(now time.Time, id string)
	// RecordRequested records EC2's answer to a call for addresses: those that it added, and those that it removed.
	RecordRequested(now time.Time, id string, added, removed eni.Addresses)
}

// Options are the settings of an Applier.
type Options struct {
	// Members is how many interfaces of one instance the Applier serves concurrently. With 1 it makes all calls in the
	// caller's goroutine, in the order of the plan.
	Members int
	// Removals is how many interfaces of one instance the Applier detaches or deletes concurrently. EC2's request rates
	// bound the removals of all instances together.
	Removals int
	// Group returns the group that runs the calls of one instance concurrently. Without it, goroutines run them.
	Group func() Group
	// Addresses chooses the addresses of interfaces that request the lowest free one.
	Addresses Addresses
	// Now returns the current time.
	Now func() time.Time
}

// Applier executes plans. It is safe for concurrent use.
type Applier struct {
	Options
	cloud Cloud
	notes Recorder
}

// New returns an Applier.
func New(cloud Cloud, notes Recorder, options Options) *Applier {
	return &Applier{Options: options, cloud: cloud, notes: notes}
}

// Outcome is the result of one call. Err is nil when EC2 accepted the call; otherwise it wraps an [eni.APIError] or
// the context's error.
type Outcome struct {
	Call plan.Call
	Err  error
}

// Do makes the calls and returns their outcomes. Calls for one interface follow each other and stop at the first
// failure; the calls after it have no outcome. Calls for different interfaces run concurrently.
func (a *Applier) Do(ctx context.Context, calls []plan.Call) []Outcome {
	p := a.Pipeline()
	p.Start(ctx, calls, func() {})
	chains := slices.Clone(p.underWay)
	p.Drain()
	return outcomesOf(chains)
}

// ClassOf returns the class of work of a call. The changes that complete a new interface have the class of its
// attach.
func ClassOf(call plan.Call) ratelimit.Class {
	switch call := call.(type) {
	case plan.Create, plan.Attach:
		return ratelimit.Attach
	case plan.Detach, plan.Delete:
		return ratelimit.Removal
	case plan.Change:
		switch call.To.(type) {
		case plan.DeleteOnTermination, plan.SourceDestCheck:
			return ratelimit.Attach
		}
	}
	return ratelimit.Update
}

// create creates an interface. EC2's answer to the client token is the evidence that the interface is the one of the
// object, unless its tags name another one by now.
func (a *Applier) create(ctx context.Context, c plan.Create) error {
	made, err := a.request(ctx, c)
	if err != nil {
		return err
	}
	if is, verdict := identity.Read(c.Key.Cluster, made.Tags); verdict != identity.Owned || is.UID != c.Key.UID {
		return &eni.APIError{Class: eni.IdempotencyMismatch, Operation: "CreateNetworkInterface", Code: "tags",
			Message: fmt.Sprintf(
				"%s, which an earlier attempt created, has other tags now and is left alone; another is created", made.ID)}
	}
	// Create answers "pending" once and EC2 does nothing more: the interface can be attached at once.
	if made.Status == eni.Pending {
		made.Status = eni.Available
	}
	a.notes.RecordCreated(a.Now(), c.Key, made, requestedOf(c.Spec.AddressCounts, made.Addresses))
	return nil
}

// requestedOf returns the addresses that EC2 chose for the counts of a create call. EC2 returns the current addresses
// of the interface to a repetition of the call. A kind with another number than requested includes addresses of other
// programs, and is omitted.
func requestedOf(asked eni.AddressCounts, made eni.Addresses) eni.Addresses {
	have, requested := made.Counts(), eni.Addresses{}
	if have.SecondaryIPv4 == asked.SecondaryIPv4 {
		requested.SecondaryIPv4 = made.SecondaryIPv4
	}
	if have.IPv4Prefixes == asked.IPv4Prefixes {
		requested.IPv4Prefixes = made.IPv4Prefixes
	}
	if have.IPv6 == asked.IPv6 {
		requested.IPv6 = made.IPv6
	}
	if have.IPv6Prefixes == asked.IPv6Prefixes {
		requested.IPv6Prefixes = made.IPv6Prefixes
	}
	return requested
}

// maxAddressAttempts bounds the addresses that one call requests from EC2. Reads rarely miss more than one or two
// used addresses. Each attempt costs a call, and a failed one waits behind others for its next attempt.
const maxAddressAttempts = 16

// request creates the interface. If the lowest free address is requested and EC2 refuses it as used, request tries the
// next one. It tries another address only for that reason.
func (a *Applier) request(ctx context.Context, c plan.Create) (eni.Interface, error) {
	request := CreateRequest{
		Token:       c.Key.Token(),
		SubnetID:    c.SubnetID,
		Description: c.Spec.Description,
		Groups:      c.Spec.Groups,
		Counts:      c.Spec.AddressCounts,

		ConnectionTracking: c.Spec.ConnectionTracking,
		// The token requires that the request is equal on every attempt, so the tags have no time of the attempt.
		Tags: c.Tags,
	}
	if !c.Spec.LowestFree {
		return a.cloud.CreateInterface(ctx, request)
	}
	var last error
	for range maxAddressAttempts {
		var err error
		if request.PrimaryIPv4, err = a.Addresses.Reserve(ctx, c.SubnetID, c.Key); err != nil {
			return eni.Interface{}, err
		}
		made, err := a.createWith(ctx, c, request)
		if eni.ErrorClass(err) != eni.AddressTaken || ctx.Err() != nil {
			return made, err
		}
		a.Addresses.Taken(c.SubnetID, request.PrimaryIPv4)
		last = err
	}
	return eni.Interface{}, fmt.Errorf("EC2 refused %d addresses of %s as used that no read shows as used, up to %s; "+
		"see which program uses addresses there, or reserve a part of the subnet for multieni: %w",
		maxAddressAttempts, c.SubnetID, request.PrimaryIPv4, last)
}

// createWith creates the interface with the IPv4 address and, if the suffix must match, with an IPv6 address. A refusal
// by EC2 may concern either address, so createWith then repeats the call and leaves the IPv6 address to EC2.
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
	attachment, err := a.attachWith(ctx, at)
	if err != nil {
		return err
	}
	a.note(at.InterfaceID, func(i eni.Interface) eni.Interface {
		i.Status, i.Attachment = eni.InUse, &attachment
		return i
	}, inventory.Effect{Aspect: attachmentAspect, IsVisible: func(i eni.Interface) bool { return i.Attachment != nil }})
	return nil
}

func (a *Applier) attachWith(ctx context.Context, at plan.Attach) (eni.Attachment, error) {
	if at.ENAExpress == "" {
		return a.cloud.AttachInterface(ctx, at.InterfaceID, at.Key.InstanceID, at.Slot)
	}
	return a.cloud.AttachInterfaceWith(ctx, at.ENAExpress, at.InterfaceID, at.Key.InstanceID, at.Slot)
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
	// An unknown interface counts as deleted, unless it is so new that EC2 may not return it yet.
	if gone := eni.ErrorClass(err) == eni.NotFound && !a.notes.RecentlyCreated(a.Now(), d.InterfaceID); err != nil &&
		!gone {
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
	case plan.ConnectionTracking:
		err = a.cloud.SetConnectionTracking(ctx, c.InterfaceID, to.To)
	case plan.ENAExpress:
		err = a.cloud.SetENAExpress(ctx, c.InterfaceID, to.Setting)
	case plan.DeleteOnTermination:
		err = a.cloud.SetDeleteOnTermination(ctx, c.InterfaceID, to.AttachmentID, to.Enabled)
	case plan.Tags:
		err = a.cloud.PutTags(ctx, c.InterfaceID, to)
	case plan.AssignAddresses:
		after, err = a.assign(ctx, c.InterfaceID, to)
	case plan.UnassignAddresses:
		err = a.unassign(ctx, c.InterfaceID, to)
	}
	// A repeated change counts once EC2 returns it. But EC2's answer names the addresses that it assigned, and a read
	// shows the call once it has these: another one may have as many.
	_, answered := c.To.(plan.AssignAddresses)
	if err != nil || c.Repetition && !answered {
		return err
	}
	visible := c.To.IsSatisfiedBy
	if answered {
		visible = func(i eni.Interface) bool { return after(i).Counts() == i.Counts() }
	}
	a.note(c.InterfaceID, after, inventory.Effect{Aspect: plan.FieldOf(c.To), IsVisible: visible})
	return nil
}

func (a *Applier) assign(
	ctx context.Context, id string, more plan.AssignAddresses,
) (func(eni.Interface) eni.Interface, error) {
	call := a.cloud.AssignIPv4
	if more.Family == plan.IPv6 {
		call = a.cloud.AssignIPv6
	}
	added, err := call(ctx, id, more.Addresses, more.Prefixes)
	if err == nil {
		a.notes.RecordRequested(a.Now(), id, added, eni.Addresses{})
	}
	return func(i eni.Interface) eni.Interface {
		i.Addresses = i.With(added) // a read during the call can have them already
		return i
	}, err
}

func (a *Applier) unassign(ctx context.Context, id string, fewer plan.UnassignAddresses) error {
	call := a.cloud.UnassignIPv4
	if fewer.Family == plan.IPv6 {
		call = a.cloud.UnassignIPv6
	}
	err := call(ctx, id, fewer.Surplus)
	if err == nil {
		a.notes.RecordRequested(a.Now(), id, eni.Addresses{}, fewer.Surplus)
	}
	return err
}

// note records the effect of a call on an interface.
func (a *Applier) note(id string, change func(eni.Interface) eni.Interface, effect inventory.Effect) {
	a.notes.RecordChange(a.Now(), id, change, effect)
}
