// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracing makes every attempt a span of its context's trace, if there is one. The span begins before the wait for a
// token, so that a trace shows the cost of EC2's limits.
func tracing() middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc("multieni:Tracing", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		of := trace.SpanFromContext(ctx)
		if !of.IsRecording() {
			return next.HandleFinalize(ctx, in)
		}
		ctx, span := of.TracerProvider().Tracer("github.com/multieni/multieni/internal/aws/awsec2").Start(ctx,
			"EC2/"+awsmiddleware.GetOperationName(ctx), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
				attribute.String("rpc.system.name", "aws-api"),
				attribute.String("rpc.method", "EC2/"+awsmiddleware.GetOperationName(ctx)),
				attribute.String("cloud.region", awsmiddleware.GetRegion(ctx)),
			))
		defer span.End()
		out, metadata, err := next.HandleFinalize(ctx, in)
		if id, answered := awsmiddleware.GetRequestIDMetadata(metadata); answered {
			span.SetAttributes(attribute.String("aws.request_id", id))
		}
		if err != nil {
			f := asAPIError(err)
			span.SetAttributes(attribute.String("error.type", string(f.Class)), attribute.String("multieni.ec2.code", f.Code))
			span.SetStatus(codes.Error, f.Error())
		}
		return out, metadata, err
	})
}
