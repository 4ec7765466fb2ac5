// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import "context"

// Request says who waits.
type Request struct {
	Rank
	// StillValid is asked when the turn has come, and returns why the work is no longer worth doing, or nil. It must be quick.
	// It may be nil.
	StillValid func() error
}

type ticketKey struct{}

// WithRequest returns a context whose requests wait with the ticket.
func WithRequest(ctx context.Context, t Request) context.Context {
	return context.WithValue(ctx, ticketKey{}, t)
}

// In returns a context whose requests wait with the ticket of the given one, but in another class.
func In(ctx context.Context, class Class) context.Context {
	t := FromContext(ctx)
	t.Class = class
	return WithRequest(ctx, t)
}

// FromContext returns the ticket of a context. Without one it is that of a listing.
func FromContext(ctx context.Context) Request {
	t, _ := ctx.Value(ticketKey{}).(Request)
	return t
}
