// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package sqs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/awssim/timeline"
)

const account = "123456789012"

// service is SQS with the queues hooks and dead; messages of hooks are invisible for 30 s after a receive.
type service struct {
	*testing.T
	*sqs.Model
	clock *timeline.Timeline
}

func serve(t *testing.T, attributes map[string]string) *service {
	t.Helper()
	clock := timeline.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	model, err := sqs.New(sqs.Options{
		Region: "us-east-1", Account: account, Timeline: clock, Faults: fault.NewSet(1),
		Queues: []sqs.WorldQueue{{QueueName: "dead"}, {QueueName: "hooks", Attributes: attributes}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &service{t, model, clock}
}

func (s *service) pass(d time.Duration) { s.clock.Advance(s.clock.Now().Add(d)) }

func at(queue string) sqs.QueueInput {
	return sqs.QueueInput{QueueURL: "https://sqs.us-east-1.amazonaws.com/" + account + "/" + queue}
}

func (s *service) send(body string) {
	s.Helper()
	if _, err := s.SendMessage(&sqs.SendMessageInput{QueueInput: at("hooks"), MessageBody: body}); err != nil {
		s.Fatal(err)
	}
}

// receive returns all messages that a queue gives now.
func (s *service) receive(queue string) (messages []sqs.Message) {
	s.Helper()
	ten := 10
	out, err := s.ReceiveMessage(&sqs.ReceiveMessageInput{
		QueueInput: at(queue), MaxNumberOfMessages: &ten, MessageSystemAttributeNames: []string{"All"},
	})
	if err != nil {
		s.Fatal(err)
	}
	return out.Messages
}

// gives asserts the bodies of the messages that a queue gives now.
func (s *service) gives(queue string, want ...string) []sqs.Message {
	s.Helper()
	messages := s.receive(queue)
	var bodies []string
	for _, m := range messages {
		bodies = append(bodies, m.Body)
	}
	if diff := cmp.Diff(want, bodies); diff != "" {
		s.Errorf("queue %s gives (-want +got):\n%s", queue, diff)
	}
	return messages
}

func (s *service) remove(handle string) {
	s.Helper()
	if _, err := s.DeleteMessage(&sqs.DeleteMessageInput{QueueInput: at("hooks"), ReceiptHandle: handle}); err != nil {
		s.Error(err)
	}
}

func (s *service) hide(handle string, seconds int) error {
	_, err := s.ChangeMessageVisibility(&sqs.ChangeMessageVisibilityInput{
		DeleteMessageInput: sqs.DeleteMessageInput{QueueInput: at("hooks"), ReceiptHandle: handle}, VisibilityTimeout: seconds,
	})
	return err
}

func codeOf(err error) string {
	if refused, is := errors.AsType[*apierror.Error](err); is {
		return refused.Code
	}
	return ""
}

func TestAReceivedMessageIsInvisibleUntilItsTimeout(t *testing.T) {
	s := serve(t, nil)
	s.send("one")
	s.gives("hooks", "one")
	s.gives("hooks")
	s.pass(30*time.Second - 1)
	s.gives("hooks")
	s.pass(1)
	if again := s.gives("hooks", "one"); len(again) == 1 && again[0].Attributes["ApproximateReceiveCount"] != "2" {
		t.Errorf("the message has the attributes %v, want its second receive", again[0].Attributes)
	}
}

func TestAConsumerChangesTheVisibilityOfAMessage(t *testing.T) {
	s := serve(t, nil)
	s.send("one")
	handle := s.gives("hooks", "one")[0].ReceiptHandle
	if err := s.hide(handle, 300); err != nil {
		t.Fatal(err)
	}
	s.pass(299 * time.Second)
	s.gives("hooks")
	s.pass(time.Second)
	handle = s.gives("hooks", "one")[0].ReceiptHandle
	if err := s.hide(handle, 0); err != nil {
		t.Fatal(err)
	}
	s.gives("hooks", "one")
}

func TestOnlyTheLatestHandleOfAMessageWorks(t *testing.T) {
	s := serve(t, nil)
	s.send("one")
	first := s.gives("hooks", "one")[0].ReceiptHandle
	s.pass(30 * time.Second)
	s.gives("hooks", "one")
	if got := codeOf(s.hide(first, 60)); got != "MessageNotInflight" {
		t.Errorf("the visibility by the first handle: %q, want MessageNotInflight", got)
	}
	s.remove(first)
	s.pass(30 * time.Second)
	s.gives("hooks", "one")
	s.pass(30 * time.Second)
	second := s.gives("hooks", "one")[0].ReceiptHandle
	s.remove(second)
	s.remove(second) // a message that is gone is no error
	s.pass(time.Hour)
	s.gives("hooks")
}

func TestADelayedMessageComesLater(t *testing.T) {
	s := serve(t, map[string]string{"DelaySeconds": "10"})
	s.send("one")
	s.gives("hooks")
	s.pass(10 * time.Second)
	s.gives("hooks", "one")
}

func TestAMessageEndsWithTheRetentionPeriod(t *testing.T) {
	s := serve(t, map[string]string{"MessageRetentionPeriod": "60"})
	s.send("one")
	s.pass(61 * time.Second)
	s.gives("hooks")
}

func TestAMessageThatWasReceivedTooOftenGoesToTheDeadLetters(t *testing.T) {
	s := serve(t, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:` + account + `:dead","maxReceiveCount":"2"}`})
	s.send("one")
	for range 2 {
		s.gives("hooks", "one")
		s.pass(30 * time.Second)
	}
	s.gives("hooks")
	s.gives("dead", "one")
}

// A purge deletes invisible and delayed messages too, and those of no other queue.
func TestAPurgeDeletesAllMessagesOfAQueue(t *testing.T) {
	s := serve(t, nil)
	if err := s.Put("arn:aws:sqs:us-east-1:"+account+":dead", "other"); err != nil {
		t.Fatal(err)
	}
	s.send("received")
	s.receive("hooks")
	s.send("visible")
	if _, err := s.SendMessage(&sqs.SendMessageInput{QueueInput: at("hooks"), MessageBody: "delayed", DelaySeconds: new(60)}); err != nil {
		t.Fatal(err)
	}
	hooks := at("hooks")
	if _, err := s.PurgeQueue(&hooks); err != nil {
		t.Fatal(err)
	}
	s.pass(time.Minute - 1)
	s.gives("hooks")
	s.gives("dead", "other")
	if _, err := s.PurgeQueue(&hooks); codeOf(err) != "PurgeQueueInProgress" {
		t.Errorf("a second purge within a minute: %v, want PurgeQueueInProgress", err)
	}
	s.pass(1)
	if _, err := s.PurgeQueue(&hooks); err != nil {
		t.Errorf("a purge after a minute: %v", err)
	}
}

// Each action that names a queue refuses one that does not exist, and a call without a queue.
func TestAWrongQueueIsRefused(t *testing.T) {
	s := serve(t, nil)
	actions := map[string]func(sqs.QueueInput) error{
		"SendMessage": func(q sqs.QueueInput) error {
			_, err := s.SendMessage(&sqs.SendMessageInput{QueueInput: q, MessageBody: "one"})
			return err
		},
		"ReceiveMessage": func(q sqs.QueueInput) error {
			_, err := s.ReceiveMessage(&sqs.ReceiveMessageInput{QueueInput: q})
			return err
		},
		"DeleteMessage": func(q sqs.QueueInput) error {
			_, err := s.DeleteMessage(&sqs.DeleteMessageInput{QueueInput: q, ReceiptHandle: "a#b"})
			return err
		},
		"ChangeMessageVisibility": func(q sqs.QueueInput) error {
			_, err := s.ChangeMessageVisibility(&sqs.ChangeMessageVisibilityInput{DeleteMessageInput: sqs.DeleteMessageInput{QueueInput: q, ReceiptHandle: "a#b"}})
			return err
		},
		"DeleteMessageBatch": func(q sqs.QueueInput) error {
			_, err := s.DeleteMessageBatch(&sqs.BatchInput{QueueInput: q, Entries: []sqs.BatchEntry{{ID: "1", ReceiptHandle: "a#b"}}})
			return err
		},
		"PurgeQueue":  func(q sqs.QueueInput) error { _, err := s.PurgeQueue(&q); return err },
		"DeleteQueue": func(q sqs.QueueInput) error { _, err := s.DeleteQueue(&q); return err },
		"GetQueueAttributes": func(q sqs.QueueInput) error {
			_, err := s.GetQueueAttributes(&sqs.GetQueueAttributesInput{QueueInput: q})
			return err
		},
		"SetQueueAttributes": func(q sqs.QueueInput) error {
			_, err := s.SetQueueAttributes(&sqs.SetQueueAttributesInput{QueueInput: q})
			return err
		},
	}
	for name, call := range actions {
		t.Run(name, func(t *testing.T) {
			if got := codeOf(call(at("hook"))); got != "QueueDoesNotExist" {
				t.Errorf("a queue that does not exist: %q, want QueueDoesNotExist", got)
			}
			if got := codeOf(call(sqs.QueueInput{})); got != "MissingParameter" {
				t.Errorf("no queue: %q, want MissingParameter", got)
			}
		})
	}
}

// Programs read these attributes of every queue without asking whether it has them.
func TestAQueueHasAllAttributes(t *testing.T) {
	s := serve(t, map[string]string{"VisibilityTimeout": "60"})
	s.pass(time.Hour)
	if _, err := s.SetQueueAttributes(&sqs.SetQueueAttributesInput{QueueInput: at("hooks"), Attributes: map[string]string{"DelaySeconds": "5"}}); err != nil {
		t.Fatal(err)
	}
	out, err := s.GetQueueAttributes(&sqs.GetQueueAttributesInput{QueueInput: at("hooks"), AttributeNames: []string{"All"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"QueueArn": "arn:aws:sqs:us-east-1:" + account + ":hooks", "CreatedTimestamp": "1767225600", "LastModifiedTimestamp": "1767229200",
		"VisibilityTimeout": "60", "DelaySeconds": "5", "MaximumMessageSize": "1048576", "MessageRetentionPeriod": "345600",
		"ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "true", "ApproximateNumberOfMessages": "0",
		"ApproximateNumberOfMessagesDelayed": "0", "ApproximateNumberOfMessagesNotVisible": "0",
	}
	if diff := cmp.Diff(want, out.Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

func TestAHandleOfNoMessageIsRefused(t *testing.T) {
	s := serve(t, nil)
	if _, err := s.DeleteMessage(&sqs.DeleteMessageInput{QueueInput: at("hooks"), ReceiptHandle: "nonsense"}); codeOf(err) != "ReceiptHandleIsInvalid" {
		t.Errorf("DeleteMessage: %v", err)
	}
	if got := codeOf(s.hide("nonsense", 1)); got != "ReceiptHandleIsInvalid" {
		t.Errorf("ChangeMessageVisibility: %q", got)
	}
}
