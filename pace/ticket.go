// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import "context"

// Ticket says who waits.
type Ticket struct {
	Rank
	// Still is asked when the turn has come, and returns why the work is no longer worth doing, or nil. It must be quick.
	// It may be nil.
	Still func() error
}

type ticketKey struct{}

// With returns a context whose requests wait with the ticket.
func With(ctx context.Context, t Ticket) context.Context {
	return context.WithValue(ctx, ticketKey{}, t)
}

// In returns a context whose requests wait with the ticket of the given one, but in another class.
func In(ctx context.Context, class Class) context.Context {
	t := From(ctx)
	t.Class = class
	return With(ctx, t)
}

// From returns the ticket of a context. Without one it is that of a listing.
func From(ctx context.Context) Ticket {
	t, _ := ctx.Value(ticketKey{}).(Ticket)
	return t
}
