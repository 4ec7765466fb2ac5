// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/aws/aws-lambda-go/events"
)

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
