// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"net/netip"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Cloud is what carrying out a plan asks of EC2: one method per mutating call, so that this list is also the list of
// EC2 permissions the run-time path needs. Every error is an [eni.Fault] or wraps one.
type Cloud interface {
	// CreateInterface makes an interface with all its tags in the one call. Repeating it with the same token returns
	// the interface that the first call made.
	CreateInterface(context.Context, CreateRequest) (eni.Interface, error)
	// AttachInterface begins to attach an interface; the attachment it returns is still attaching.
	AttachInterface(ctx context.Context, interfaceID, instanceID string, slot eni.Slot) (eni.Attachment, error)
	// DetachInterface begins to detach. An attachment that is already gone is success.
	DetachInterface(ctx context.Context, attachmentID string, force bool) error
	// DeleteInterface deletes an available interface. One that EC2 does not know is a [eni.NotFound] fault: an interface
	// that was just made can be unknown for a while.
	DeleteInterface(ctx context.Context, interfaceID string) error

	SetDeleteOnTermination(ctx context.Context, interfaceID, attachmentID string, on bool) error
	SetSourceDestCheck(ctx context.Context, interfaceID string, on bool) error
	SetGroups(ctx context.Context, interfaceID string, groupIDs []string) error
	SetDescription(ctx context.Context, interfaceID, description string) error
	PutTags(ctx context.Context, interfaceID string, tags map[string]string) error

	// AssignIPv4 and AssignIPv6 add addresses or prefixes (one of the counts is zero) and return only the new ones;
	// the Unassign calls take the named ones away.
	AssignIPv4(ctx context.Context, interfaceID string, addresses, prefixes int) (eni.Addresses, error)
	AssignIPv6(ctx context.Context, interfaceID string, addresses, prefixes int) (eni.Addresses, error)
	UnassignIPv4(ctx context.Context, interfaceID string, surplus eni.Addresses) error
	UnassignIPv6(ctx context.Context, interfaceID string, surplus eni.Addresses) error
}

// CreateRequest is the content of a CreateNetworkInterface call.
type CreateRequest struct {
	// Token makes the call idempotent; at most 64 ASCII characters.
	Token       string
	SubnetID    string
	Description string
	Groups      []string
	Counts      eni.AddressCounts
	Tags        map[string]string
	// PrimaryIPv4 is the address it shall have; EC2 picks one when it is not valid.
	PrimaryIPv4 netip.Addr
	// IPv6 is an IPv6 address it shall have; EC2 takes it in the place of a count.
	IPv6 netip.Addr
}

// Addresses chooses the primary addresses of interfaces that are to have the lowest one free.
type Addresses interface {
	// Reserve returns an address of the subnet for the member's interface. That there is none is an [eni.NoAddresses] fault.
	Reserve(ctx context.Context, subnetID string, member identity.Member) (netip.Addr, error)
	// WithIPv4Suffix returns the IPv6 address at the place in the subnet's IPv6 block that an IPv4 address has in the IPv4 block, or one
	// that is not valid where an interface could not be given it.
	WithIPv4Suffix(ctx context.Context, subnetID string, address netip.Addr) (netip.Addr, error)
	// Taken is told that EC2 calls an address used that it had not shown as used.
	Taken(subnetID string, address netip.Addr)
}
