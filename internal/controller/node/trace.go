// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/multieni/multieni/plan"
)

// tracer returns what makes spans; without a provider they go nowhere.
func tracer(provider trace.TracerProvider) trace.Tracer {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	return provider.Tracer("github.com/multieni/multieni/internal/controller/node")
}

// traceReconcile begins the span of a reconciliation: the root of what is done for a node at one time.
func (r *Reconciler) traceReconcile(ctx context.Context, node string) (context.Context, trace.Span) {
	return r.tracer.Start(ctx, "reconcile", trace.WithNewRoot(), trace.WithAttributes(attribute.String("k8s.node.name", node)))
}

// tracePlan begins the span of carrying a plan out.
func (r *Reconciler) tracePlan(ctx context.Context, node, instanceID string, p plan.Plan) (context.Context, trace.Span) {
	ctx, span := r.tracer.Start(ctx, "plan")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("k8s.node.name", node), attribute.String("host.id", instanceID),
			attribute.Int("multieni.actions", len(p.Actions)), attribute.String("multieni.plan", p.Explain()))
	}
	return ctx, span
}

// finish ends a span with what became of it.
func finish(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
