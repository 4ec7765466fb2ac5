// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// measurement is an event in the form of which CloudWatch makes metrics (CloudWatch user guide, "Specification: Embedded metric
// format").
type measurement struct {
	AWS struct {
		Timestamp         int64 // milliseconds since 1970
		CloudWatchMetrics []metricDirective
	} `json:"_aws"`
	Kind                   string `json:"kind"`
	Result                 Result `json:"result"`
	LifecycleEvents        int
	LifecycleEventDuration int64
}

// metricDirective says which members of a measurement are metrics, and by which others they are told apart.
type metricDirective struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []metricUnit
}

type metricUnit struct{ Name, Unit string }

// EmbeddedMetrics returns an observer that writes a line for each event, for the log of a function.
func EmbeddedMetrics(w io.Writer) func(Handled) {
	directive := metricDirective{"multieni", [][]string{{"kind", "result"}}, []metricUnit{{"LifecycleEvents", "Count"}, {"LifecycleEventDuration", "Milliseconds"}}}
	return func(h Handled) {
		m := measurement{Kind: cmp.Or(string(h.Kind), "Unknown"), Result: h.Result, LifecycleEvents: 1, LifecycleEventDuration: h.Took.Milliseconds()}
		m.AWS.Timestamp, m.AWS.CloudWatchMetrics = time.Now().UnixMilli(), []metricDirective{directive}
		// Numbers and words: Marshal cannot fail. A log that cannot be written has nowhere to say so.
		line, _ := json.Marshal(m)
		_, _ = w.Write(append(line, '\n'))
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
