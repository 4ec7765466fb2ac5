// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

// The queue delivers a message that cannot be handled as often as it is configured to, and then moves it to the
// dead-letter queue. The message does not delay others.
func TestWhatCannotBeHandledGoesToTheDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const prefix = "https://sqs.us-east-1.amazonaws.com/123456789012/"
		world := awssim.ExampleWorld()
		world.Queues = []sqs.WorldQueue{{QueueName: "dead"}, {QueueName: "events", Attributes: map[string]string{
			"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:123456789012:dead","maxReceiveCount":5}`,
		}}}
		sim, err := awssim.New(awssim.Options{World: world})
		if err != nil {
			t.Fatal(err)
		}
		client := sdk.New(sdk.Options{
			Region: "us-east-1", BaseEndpoint: aws.String("http://awssim"), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
			HTTPClient: &http.Client{Transport: sim.Transport()},
		})
		for _, body := range []string{"bad", "good"} {
			if _, err := client.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: aws.String(prefix + "events"), MessageBody: &body}); err != nil {
				t.Fatal(err)
			}
		}
		handled := map[string]int{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		consumer := lifecyclehook.Consumer{Queue: client, URL: prefix + "events", AtOnce: 1, Log: slog.New(slog.DiscardHandler), Handle: func(_ context.Context, body []byte) error {
			handled[string(body)]++
			if string(body) == "bad" {
				return errors.New("it cannot be handled")
			}
			return nil
		}}
		if err := consumer.Serve(ctx); err != nil {
			t.Error(err)
		}
		left := map[string]int{}
		for _, q := range sim.Queues() {
			left[q.QueueName] = len(q.Messages)
		}
		if handled["bad"] != 5 || handled["good"] != 1 || left["events"] != 0 || left["dead"] != 1 {
			t.Errorf("handled: %v; left in the queues: %v", handled, left)
		}
	})
}
