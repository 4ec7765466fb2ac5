// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

// broken panics during the clean-up of one instance.
type broken struct {
	*environment
	instance string
}

func (b broken) CleanUpTerminated(ctx context.Context, instanceID string) error {
	if instanceID == b.instance {
		panic("what is this?")
	}
	return b.environment.CleanUpTerminated(ctx, instanceID)
}

// TestAPanicIsAFailureOfItsMessage handles two messages of one batch, each in a goroutine of its own.
func TestAPanicIsAFailureOfItsMessage(t *testing.T) {
	w := &environment{state: eni.InstanceTerminated}
	h := w.handler()
	event := stateChange("terminated")
	decoded, err := lifecycle.Decode([]byte(event))
	if err != nil {
		t.Fatal(err)
	}
	options := h.Options
	options.Joiner = broken{w, decoded.InstanceID}
	h = lifecyclehook.New(options)
	payload, _ := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1", Body: event}, {MessageId: "2", Body: stateChange("stopped")}}})
	response, err := h.Lambda(t.Context(), payload)
	text, _ := json.Marshal(response)
	if want := `{"batchItemFailures":[{"itemIdentifier":"1"}]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
