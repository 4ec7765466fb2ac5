// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// EmbeddedMetrics returns an observer that writes events into the log in the form from which CloudWatch makes metrics (CloudWatch
// user guide, "Embedded metric format"): the number of events and their durations in the namespace multieni, by kind and result.
func EmbeddedMetrics(log *slog.Logger) func(Handled) {
	type metric struct{ Name, Unit string }
	type directive struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []metric
	}
	type metadata struct {
		Timestamp         int64
		CloudWatchMetrics []directive
	}
	what := []directive{{
		Namespace: "multieni", Dimensions: [][]string{{"kind", "result"}}, Metrics: []metric{{"LifecycleEvents", "Count"}, {"LifecycleEventDuration", "Milliseconds"}},
	}}
	return func(h Handled) {
		log.Info("measured", "_aws", metadata{time.Now().UnixMilli(), what}, "kind", cmp.Or(h.Kind, "Unknown"), "result", h.Result,
			"LifecycleEvents", 1, "LifecycleEventDuration", h.Took.Milliseconds())
	}
}

// Lambda handles an invocation of AWS Lambda: an event of EventBridge, or a batch of messages from a queue, each with such an
// event or with a notification of Auto Scaling. Of a batch it names the messages that are to come again, so that the others
// do not. The queue's event source mapping must have ReportBatchItemFailures for that.
func (h *Handler) Lambda(ctx context.Context, payload json.RawMessage) (any, error) {
	var batch events.SQSEvent
	if err := json.Unmarshal(payload, &batch); err != nil || len(batch.Records) == 0 {
		return nil, h.Handle(ctx, payload)
	}
	failed := make([]bool, len(batch.Records))
	var wg sync.WaitGroup
	for n, record := range batch.Records {
		wg.Go(func() { failed[n] = h.Handle(ctx, []byte(record.Body)) != nil })
	}
	wg.Wait()
	response := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for n, record := range batch.Records {
		if failed[n] {
			response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: record.MessageId})
		}
	}
	return response, nil
}
