// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/multieni/multieni/internal/base/clock"
	"github.com/multieni/multieni/internal/base/panics"
)

const (
	// longPoll is how long SQS waits for a message (SQS API reference, WaitTimeSeconds: at most 20 seconds).
	longPoll = 20
	// receive is the number of messages in one request (SQS API reference, MaxNumberOfMessages: at most 10).
	receive = 10
	// visibility is how long a message stays invisible to other consumers, in seconds. The consumer extends it while it
	// handles the message.
	visibility = 60
)

// Queue is the part of the SQS API that a Consumer calls. Each method is one IAM action of the same name.
type Queue interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
}

var _ Queue = (*sqs.Client)(nil)

// Consumer receives messages from a queue.
type Consumer struct {
	Queue Queue
	// URL is the URL of the queue.
	URL string
	// Handle handles a message. After an error the message stays in the queue, which delivers it again or moves it to the
	// dead-letter queue.
	Handle func(context.Context, []byte) error
	// AtOnce is the number of messages that are handled at the same time.
	AtOnce int
	Log    *slog.Logger
}

// Serve receives messages until the context ends, and then waits for those that are being handled. It deletes a message
// only after it was handled completely.
func (c *Consumer) Serve(ctx context.Context) error {
	slots := make(chan struct{}, c.AtOnce)
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		out, err := c.Queue.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &c.URL, MaxNumberOfMessages: receive, WaitTimeSeconds: longPoll, VisibilityTimeout: visibility,
		})
		if err != nil {
			if ctx.Err() == nil {
				c.Log.Error("no messages can be taken from the queue; it is tried again", "queue", c.URL, "err", err)
				clock.Sleep(ctx, 5*time.Second)
			}
			continue
		}
		for _, message := range out.Messages {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil // the queue delivers the other messages again
			}
			wg.Go(func() {
				defer func() { <-slots }()
				err := panics.AsError("message "+aws.ToString(message.MessageId), func() error {
					c.receiveOne(ctx, message)
					return nil
				})
				if err != nil {
					c.Log.Error("a message stays in the queue and comes again", "err", err)
				}
			})
		}
	}
	return nil
}

func (c *Consumer) receiveOne(ctx context.Context, message types.Message) {
	if err := c.handle(ctx, message); err != nil {
		return
	}
	// The message was handled, so it is deleted even if the context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, err := c.Queue.DeleteMessage(ctx,
		&sqs.DeleteMessageInput{QueueUrl: &c.URL, ReceiptHandle: message.ReceiptHandle}); err != nil {
		c.Log.Warn("a message that was handled could not be deleted and will come again",
			"message", aws.ToString(message.MessageId), "err", err)
	}
}

// handle keeps a message invisible while it is handled.
func (c *Consumer) handle(ctx context.Context, message types.Message) error {
	defer c.extendVisibility(ctx, message)()
	return c.Handle(ctx, []byte(aws.ToString(message.Body)))
}

// extendVisibility keeps a message invisible to other consumers until stop is called.
func (c *Consumer) extendVisibility(ctx context.Context, message types.Message) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for clock.Sleep(ctx, visibility/3*time.Second) {
			err := panics.AsError("message "+aws.ToString(message.MessageId), func() error {
				_, err := c.Queue.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
					QueueUrl: &c.URL, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: visibility,
				})
				return err
			})
			if err != nil && ctx.Err() == nil {
				c.Log.Warn("a message may be handled twice", "message", aws.ToString(message.MessageId), "err", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}
