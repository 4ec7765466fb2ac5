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

// Trace begins the trace of a piece of work that nothing but time or a change of an object asked for. Without a provider
// it goes nowhere. The function it returns ends it with what became of the work.
func Trace(ctx context.Context, provider trace.TracerProvider, work string, about ...attribute.KeyValue) (context.Context, func(error)) {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	ctx, span := provider.Tracer("github.com/multieni/multieni/internal/controller").Start(ctx, work, trace.WithNewRoot(), trace.WithAttributes(about...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
