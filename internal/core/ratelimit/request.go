// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import "context"

// Request is the priority and validity of requests to EC2.
type Request struct {
	Rank
	// StillValid returns nil, or the reason why the work is not needed any more. It is called when a token is available,
	// and may be nil.
	StillValid func() error
}

type requestKey struct{}

// WithRequest returns a context whose requests wait with this priority. The priority is in the context because the
// SDK's middleware, where each attempt waits, gets nothing else from the caller.
func WithRequest(ctx context.Context, r Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// In returns a context whose requests wait like those of the given one, but in another class.
func In(ctx context.Context, class Class) context.Context {
	r := FromContext(ctx)
	r.Class = class
	return WithRequest(ctx, r)
}

// FromContext returns the request of a context, or one of class [Read] without a node.
func FromContext(ctx context.Context) Request {
	r, _ := ctx.Value(requestKey{}).(Request)
	return r
}
