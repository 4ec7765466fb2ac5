// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"net/netip"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Cloud is the part of EC2 that executes a plan: one method per mutating call, so that this list is also the list of
// EC2 permissions that the controller needs at run time. Every error is an [eni.APIError] or wraps one.
type Cloud interface {
	// CreateInterface creates an interface and its tags in one call. A repetition with the same token returns the
	// interface that the first call created.
	CreateInterface(context.Context, CreateRequest) (eni.Interface, error)
	// AttachInterface begins to attach an interface; the attachment it returns is still attaching.
	AttachInterface(ctx context.Context, interfaceID, instanceID string, slot eni.Slot) (eni.Attachment, error)
	// AttachInterfaceWith is AttachInterface with ENA Express from the start.
	AttachInterfaceWith(ctx context.Context, express eni.ENAExpress, interfaceID, instanceID string, slot eni.Slot,
	) (eni.Attachment, error)
	// DetachInterface begins to detach. An attachment that is already gone is success.
	DetachInterface(ctx context.Context, attachmentID string, force bool) error
	// DeleteInterface deletes an available interface. For an unknown interface it returns an [eni.NotFound] fault, which
	// EC2 can also return for a while after the creation.
	DeleteInterface(ctx context.Context, interfaceID string) error

	SetDeleteOnTermination(ctx context.Context, interfaceID, attachmentID string, on bool) error
	SetSourceDestCheck(ctx context.Context, interfaceID string, on bool) error
	SetConnectionTracking(ctx context.Context, interfaceID string, to eni.ConnectionTracking) error
	SetENAExpress(ctx context.Context, interfaceID string, to eni.ENAExpress) error
	SetGroups(ctx context.Context, interfaceID string, groupIDs []string) error
	SetDescription(ctx context.Context, interfaceID, description string) error
	PutTags(ctx context.Context, interfaceID string, tags map[string]string) error

	// ReassignIPv4 assigns the given secondary addresses, and removes them from the interfaces that have them.
	ReassignIPv4(ctx context.Context, interfaceID string, addresses []netip.Addr) error
	// AssignIPv4 and AssignIPv6 add addresses or prefixes (one of the counts is zero) and return only the new ones.
	// The Unassign calls remove the given ones.
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
	// ConnectionTracking are the timeouts that are not the defaults of the instance type.
	ConnectionTracking eni.ConnectionTracking
	// PrimaryIPv4 is the requested address; EC2 picks one when it is not valid.
	PrimaryIPv4 netip.Addr
	// IPv6 is the requested IPv6 address. EC2 accepts either an address or a count.
	IPv6 netip.Addr
}

// Addresses chooses the primary addresses of interfaces that request the lowest free one.
type Addresses interface {
	// Reserve returns a free address of the subnet for an interface, or an [eni.NoAddresses] fault.
	Reserve(ctx context.Context, subnetID string, key identity.Interface) (netip.Addr, error)
	// WithIPv4Suffix returns the IPv6 address with the offset in the subnet's IPv6 block that the IPv4 address has in the
	// IPv4 block. The result is invalid if EC2 could not assign the address.
	WithIPv4Suffix(ctx context.Context, subnetID string, address netip.Addr) (netip.Addr, error)
	// Taken records that EC2 refused an address as used although no read shows it as used.
	Taken(subnetID string, address netip.Addr)
}
