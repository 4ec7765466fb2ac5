// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// traced begins a span for a call in the context's trace, if there is one. The returned function ends the span.
func traced(ctx context.Context, call plan.Call) (context.Context, func(error)) {
	of := trace.SpanFromContext(ctx)
	if !of.IsRecording() {
		return ctx, func(error) {}
	}
	ctx, span := of.TracerProvider().Tracer("github.com/multieni/multieni/internal/aws/executor").Start(ctx, verb(call),
		trace.WithAttributes(
			attribute.String("multieni.nodeeni", call.Of().NodeENI),
			attribute.String("multieni.action", call.String()),
		))
	return ctx, func(err error) {
		if err != nil {
			span.SetAttributes(attribute.String("error.type", string(eni.ErrorClass(err))))
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// verb names the kind of a call. There are few kinds, because span names must have a low cardinality.
func verb(call plan.Call) string {
	switch call.(type) {
	case plan.Create:
		return "create"
	case plan.Attach:
		return "attach"
	case plan.Detach:
		return "detach"
	case plan.Delete:
		return "delete"
	default:
		return "change"
	}
}
