// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/multieni/multieni/internal/base/panics"
)

// EmbeddedMetrics writes lines into the log of a function, from which CloudWatch creates metrics (CloudWatch user
// guide, "Specification: Embedded metric format").
type EmbeddedMetrics struct{ To io.Writer }

var _ Observer = EmbeddedMetrics{}

// Handled implements [Observer].
func (e EmbeddedMetrics) Handled(h Handled) {
	e.write(map[string]string{"kind": cmp.Or(string(h.Kind), "Unknown"), "result": string(h.Result)},
		metric{"LifecycleEvents", "Count", 1}, metric{"LifecycleEventDuration", "Milliseconds", h.Took.Milliseconds()})
}

// Prepared implements [Observer].
func (e EmbeddedMetrics) Prepared(p Prepared) {
	if p.Attached > 0 {
		e.write(nil, metric{"InterfacesAttached", "Count", int64(p.Attached)})
	}
	if p.Failure != "" {
		e.write(map[string]string{"reason": p.Failure}, metric{"InstancesFailed", "Count", 1})
	}
}

type metric struct {
	name, unit string
	value      int64
}

// metricDirective names the members of a line that are metrics, and those that are their dimensions.
type metricDirective struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []metricUnit
}

type metricUnit struct{ Name, Unit string }

func (e EmbeddedMetrics) write(dimensions map[string]string, metrics ...metric) {
	directive := metricDirective{Namespace: "multieni",
		Dimensions: [][]string{slices.AppendSeq([]string{}, maps.Keys(dimensions))}}
	line := map[string]any{}
	for name, value := range dimensions {
		line[name] = value
	}
	for _, m := range metrics {
		line[m.name] = m.value
		directive.Metrics = append(directive.Metrics, metricUnit{m.name, m.unit})
	}
	line["_aws"] = map[string]any{"Timestamp": time.Now().UnixMilli(), "CloudWatchMetrics": []metricDirective{directive}}
	// Marshal cannot fail for numbers and strings. A failure to write the log cannot be reported anywhere.
	text, _ := json.Marshal(line)
	_, _ = e.To.Write(append(text, '\n'))
}

// Lambda handles an invocation of AWS Lambda: an event of EventBridge, or a batch of messages from a queue, each with
// such an event or with a notification of Auto Scaling. The response names the messages of a batch that the queue must
// deliver again; it does not deliver the others again. The queue's event source mapping must have
// ReportBatchItemFailures for that.
func (h *Handler) Lambda(ctx context.Context, payload json.RawMessage) (any, error) {
	var batch events.SQSEvent
	if err := json.Unmarshal(payload, &batch); err != nil || len(batch.Records) == 0 {
		return nil, h.Handle(ctx, payload)
	}
	failed := make([]bool, len(batch.Records))
	var wg sync.WaitGroup
	for n, record := range batch.Records {
		wg.Go(func() {
			err := panics.AsError("message "+record.MessageId, func() error { return h.Handle(ctx, []byte(record.Body)) })
			failed[n] = err != nil
		})
	}
	wg.Wait()
	response := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for n, record := range batch.Records {
		if failed[n] {
			response.BatchItemFailures = append(response.BatchItemFailures,
				events.SQSBatchItemFailure{ItemIdentifier: record.MessageId})
		}
	}
	return response, nil
}

// account returns the account of the running function, or that of the options.
func (h *Handler) account(ctx context.Context) string {
	if function, ok := lambdacontext.FromContext(ctx); ok {
		if name, err := arn.Parse(function.InvokedFunctionArn); err == nil {
			return name.AccountID
		}
	}
	return h.Account
}
