// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/multieni/multieni/internal/base/version"
)

// flushTimeout is how long the last spans may take at the end of the process.
const flushTimeout = 5 * time.Second

// NewTraces returns the provider for spans according to OpenTelemetry's standard environment variables, and a function
// that sends the last spans. It sends no spans without an endpoint (OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT), with OTEL_SDK_DISABLED=true, or with OTEL_TRACES_EXPORTER=none. The transport is
// OTLP over HTTP. The SDK reads the other variables: OTEL_EXPORTER_OTLP_*, OTEL_TRACES_SAMPLER*, OTEL_BSP_*,
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
func NewTraces(ctx context.Context, getenv func(string) string) (trace.TracerProvider, func(*slog.Logger), error) {
	wanted, err := tracesWanted(getenv)
	if err != nil || !wanted {
		return noop.NewTracerProvider(), func(*slog.Logger) {}, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the export of traces from the OTEL_EXPORTER_OTLP_* variables: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "multieni"),
			attribute.String("service.version", version.String())),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return provider, func(log *slog.Logger) {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last traces could not be sent", "err", err)
		}
	}, nil
}

// tracesWanted reports whether the environment enables traces.
func tracesWanted(getenv func(string) string) (bool, error) {
	exporter := getenv("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q and must be otlp or none", exporter)
	}
	return exporter == "otlp" || getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
}
