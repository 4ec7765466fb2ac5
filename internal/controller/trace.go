// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Trace begins the trace of work that a timer or a change of an object caused. Without a provider it records nothing.
// The returned function ends the trace with the result of the work.
func Trace(
	ctx context.Context, provider trace.TracerProvider, work string, about ...attribute.KeyValue,
) (context.Context, func(error)) {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	ctx, span := provider.Tracer("github.com/multieni/multieni/internal/controller").Start(ctx, work,
		trace.WithNewRoot(), trace.WithAttributes(about...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
