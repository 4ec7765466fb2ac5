// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// recorded are the spans of a test by their ID.
type recorded map[trace.SpanID]sdktrace.ReadOnlySpan

func spansOf(recorder *tracetest.SpanRecorder) recorded {
	all := recorded{}
	for _, span := range recorder.Ended() {
		all[span.SpanContext().SpanID()] = span
	}
	return all
}

// path returns the names of a span and of its ancestors, from the root.
func (r recorded) path(span sdktrace.ReadOnlySpan) []string {
	names := []string{span.Name()}
	for parent := span.Parent(); parent.IsValid(); {
		above, known := r[parent.SpanID()]
		if !known {
			return append([]string{"?"}, names...)
		}
		names = append([]string{above.Name()}, names...)
		parent = above.Parent()
	}
	return names
}

// under returns the only span with such a path.
func (r recorded) under(t *testing.T, path ...string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, span := range r {
		if slices.Equal(r.path(span), path) {
			found = append(found, span)
		}
	}
	if len(found) != 1 {
		var all [][]string
		for _, span := range r {
			all = append(all, r.path(span))
		}
		t.Fatalf("%d spans %v, want one, among %v", len(found), path, all)
	}
	return found[0]
}

func value(span sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// TestAReconciliationIsATrace creates one interface, and follows the spans of its calls up to the instance.
func TestAReconciliationIsATrace(t *testing.T) {
	onStage(t, func(s *stage) {
		s.declare(0)
		s.must(s.play(time.Minute))
		spans := spansOf(s.spans)

		create := spans.under(t, "reconcile", "plan", "create", "EC2/CreateNetworkInterface")
		if create.SpanKind() != trace.SpanKindClient {
			t.Errorf("the request to EC2 is a span of kind %s", create.SpanKind())
		}
		attach := spans.under(t, "reconcile", "plan", "attach", "EC2/AttachNetworkInterface")
		for _, request := range []sdktrace.ReadOnlySpan{create, attach} {
			if value(request, "aws.request_id") == "" || value(request, "multieni.waited_seconds") == "" {
				t.Errorf("%s tells neither EC2's request ID nor how long it waited: %v", request.Name(), request.Attributes())
			}
		}
		action := spans.under(t, "reconcile", "plan", "attach")
		if got := value(action, "multieni.nodeeni"); got != "data" {
			t.Errorf("the attach is for NodeENI %q", got)
		}
		if got := value(spans[rootOf(spans, action)], "host.id"); got != instanceID {
			t.Errorf("the reconciliation is of instance %q, want %s", got, instanceID)
		}
	})
}

func rootOf(spans recorded, span sdktrace.ReadOnlySpan) trace.SpanID {
	for span.Parent().IsValid() {
		span = spans[span.Parent().SpanID()]
	}
	return span.SpanContext().SpanID()
}
