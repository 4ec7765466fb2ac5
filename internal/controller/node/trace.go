// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/multieni/multieni/internal/core/plan"
)

// tracePlan begins the span of carrying a plan out.
func (r *Reconciler) tracePlan(ctx context.Context, node, instanceID string, p plan.Plan) (context.Context, trace.Span) {
	ctx, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/multieni/multieni/internal/controller/node").Start(ctx, "plan")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("k8s.node.name", node), attribute.String("host.id", instanceID),
			attribute.Int("multieni.actions", len(p.Actions)), attribute.String("multieni.plan", p.Explain()))
	}
	return ctx, span
}
