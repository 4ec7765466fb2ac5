// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/multieni/multieni/internal/cli/telemetry"
)

// TestTracesGoWhereTheEnvironmentSays sends a span to the test's own collector.
func TestTracesGoWhereTheEnvironmentSays(t *testing.T) {
	var received atomic.Bool
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		received.Store(err == nil && r.URL.Path == "/v1/traces" && bytes.Contains(body, []byte("reconcile")) && bytes.Contains(body, []byte("multieni")))
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	cases := map[string]struct {
		name, value string
		want        bool
	}{
		"an endpoint turns them on": {"OTEL_TRACES_EXPORTER", "", true},
		"none turns them off":       {"OTEL_TRACES_EXPORTER", "none", false},
		"the SDK can be disabled":   {"OTEL_SDK_DISABLED", "true", false},
		"no endpoint, no traces":    {"OTEL_EXPORTER_OTLP_ENDPOINT", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv(tc.name, tc.value)
			received.Store(false)
			traces, flush, err := telemetry.NewTraces(t.Context(), os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			_, span := traces.Tracer("test").Start(t.Context(), "reconcile")
			span.End()
			flush(slog.New(slog.DiscardHandler))
			if received.Load() != tc.want {
				t.Errorf("the collector received the span: %t, want %t", received.Load(), tc.want)
			}
		})
	}
}

func TestAnExporterThatIsNotThere(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	if _, _, err := telemetry.NewTraces(t.Context(), os.Getenv); err == nil {
		t.Error("traces that nothing can send are accepted")
	}
}
