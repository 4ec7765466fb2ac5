// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	groups "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	queues "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// mailbox is a queue of a row.
type mailbox struct {
	*sqs.Client
	ec       *endpoint
	url, arn string
}

// queue creates a queue, which is deleted after the row.
func (ec *endpoint) queue(t *testing.T, attributes map[string]string) mailbox {
	t.Helper()
	q := mailbox{Client: ec.sqs(), ec: ec}
	made, err := q.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("conformance-" + rand.Text()), Attributes: attributes})
	ok(t, err)
	q.url = *made.QueueUrl
	t.Cleanup(func() {
		_, err := q.DeleteQueue(context.WithoutCancel(t.Context()), &sqs.DeleteQueueInput{QueueUrl: &q.url})
		ok(t, err)
	})
	q.arn = q.attribute(t, queues.QueueAttributeNameQueueArn)
	return q
}

func (q mailbox) attribute(t *testing.T, name queues.QueueAttributeName) string {
	t.Helper()
	out, err := q.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: []queues.QueueAttributeName{name}})
	ok(t, err)
	return out.Attributes[string(name)]
}

func (q mailbox) send(t *testing.T, body string) {
	t.Helper()
	_, err := q.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body})
	ok(t, err)
}

// receive waits some seconds for a message; it returns nil if none arrives.
func (q mailbox) receive(t *testing.T, wait int32) *queues.Message {
	t.Helper()
	out, err := q.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, WaitTimeSeconds: wait, MessageSystemAttributeNames: []queues.MessageSystemAttributeName{"All"},
	})
	ok(t, err)
	if len(out.Messages) == 0 {
		return nil
	}
	return &out.Messages[0]
}

// permit allows EventBridge to send to the queue, as AWS requires.
func (q mailbox) permit(t *testing.T) {
	t.Helper()
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},`+
		`"Action":"sqs:SendMessage","Resource":%q}]}`, q.arn)
	_, err := q.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &q.url, Attributes: map[string]string{"Policy": policy}})
	ok(t, err)
}

// expect receives a message with that text, which is invisible afterwards.
func (q mailbox) expect(t *testing.T, body string) *queues.Message {
	t.Helper()
	message := q.receive(t, 20)
	if message == nil || *message.Body != body {
		t.Fatalf("got %+v, want %q", message, body)
	}
	return message
}

func (q mailbox) expectNone(t *testing.T) {
	t.Helper()
	if message := q.receive(t, 0); message != nil {
		t.Errorf("got %q, want nothing", *message.Body)
	}
}

func (q mailbox) remove(t *testing.T, message *queues.Message) {
	t.Helper()
	_, err := q.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: message.ReceiptHandle})
	ok(t, err)
}

func (q mailbox) hide(ctx context.Context, message *queues.Message, seconds int32) error {
	_, err := q.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: seconds,
	})
	return err
}

// hidden is a visibility timeout longer than any row.
var hidden = map[string]string{"VisibilityTimeout": "43200"}

func TestQueues(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a message that was received is hidden, and gone when it is deleted", run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, hidden)
			q.send(t, "one")
			message := q.expect(t, "one")
			q.expectNone(t)
			q.remove(t, message)
			if left := q.attribute(t, "ApproximateNumberOfMessagesNotVisible"); left != "0" {
				t.Errorf("%s messages are left", left)
			}
		}},
		{name: "a message that is not deleted comes again", run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, map[string]string{"VisibilityTimeout": "5"})
			q.send(t, "one")
			q.expect(t, "one")
			if again := q.expect(t, "one"); again.Attributes["ApproximateReceiveCount"] != "2" {
				t.Errorf("got %v", again.Attributes)
			}
		}},
		{name: "no visibility timeout any more gives a message back at once", run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, hidden)
			q.send(t, "one")
			ok(t, q.hide(t.Context(), q.expect(t, "one"), 0))
			q.expect(t, "one")
		}},
		{name: "a long poll ends when a message comes", run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, hidden)
			received := make(chan *queues.Message)
			go func() { received <- q.receive(t, 20) }()
			q.send(t, "one")
			if message := <-received; message == nil {
				t.Error("nothing came")
			}
		}},
		{name: "a message that was received too often goes to the dead letters", run: func(t *testing.T, ec *endpoint) {
			dead := ec.queue(t, hidden)
			q := ec.queue(t, map[string]string{
				"VisibilityTimeout": "0", "RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"2"}`, dead.arn),
			})
			q.send(t, "one")
			q.expect(t, "one")
			q.expect(t, "one")
			q.expectNone(t)
			dead.expect(t, "one")
		}},
		{name: "a hook's message goes to the queue, after a test", run: func(t *testing.T, ec *endpoint) {
			if !ec.simulated {
				t.Skip("needs a role that may send to the queue")
			}
			q := ec.queue(t, hidden)
			g := ec.scale(t, 1, func(in *groupInput) {
				in.LifecycleHookSpecificationList = []groups.LifecycleHookSpecification{{
					LifecycleHookName: aws.String("attach"), LifecycleTransition: aws.String(launching), NotificationTargetARN: &q.arn,
				}}
			})
			id := g.awaitStates(t, "Pending:Wait")[0]
			type note struct{ Event, EC2InstanceID, LifecycleHookName string }
			first, second := decode[note](t, *q.receive(t, 20).Body), decode[note](t, *q.receive(t, 20).Body)
			if first.Event != "autoscaling:TEST_NOTIFICATION" || second.EC2InstanceID != id || second.LifecycleHookName != "attach" {
				t.Errorf("got %+v and %+v", first, second)
			}
			_, err := g.DeleteLifecycleHook(t.Context(), &autoscaling.DeleteLifecycleHookInput{
				AutoScalingGroupName: &g.name, LifecycleHookName: aws.String("attach"),
			})
			ok(t, err)
		}},
	})
}

func TestQueuesRefuse(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "batches say which entries failed", strict: true, run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, hidden)
			q.send(t, "one")
			message := q.expect(t, "one")
			out, err := q.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: []queues.DeleteMessageBatchRequestEntry{
				{Id: aws.String("good"), ReceiptHandle: message.ReceiptHandle}, {Id: aws.String("bad"), ReceiptHandle: aws.String("nonsense")},
			}})
			ok(t, err)
			if len(out.Successful) != 1 || *out.Successful[0].Id != "good" || len(out.Failed) != 1 || *out.Failed[0].Code != "ReceiptHandleIsInvalid" {
				t.Errorf("got %+v", out)
			}
		}},
		{name: "what SQS refuses", strict: true, run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, hidden)
			q.send(t, "one")
			message := q.expect(t, "one")
			for name, row := range map[string]struct {
				code string
				err  error
			}{
				"more than twelve hours":    {"InvalidParameterValue", q.hide(t.Context(), message, 43201)},
				"the visibility of nothing": {"ReceiptHandleIsInvalid", q.hide(t.Context(), &queues.Message{ReceiptHandle: aws.String("nonsense")}, 1)},
				"more than ten messages":    {"InvalidParameterValue", q.receiveWith(t, &sqs.ReceiveMessageInput{MaxNumberOfMessages: 11})},
				"more than twenty seconds":  {"InvalidParameterValue", q.receiveWith(t, &sqs.ReceiveMessageInput{WaitTimeSeconds: 21})},
				"a queue that there is not": {"QueueDoesNotExist", q.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: aws.String(q.url + "x")})},
			} {
				// SQS still answers with the codes of its older protocol too, which the SDK prefers.
				if code := codeOf(row.err); code != row.code && code != "AWS.SimpleQueueService.NonExistentQueue" {
					t.Errorf("%s: got %v, want %s", name, row.err, row.code)
				}
			}
		}},
	})
}

func (q mailbox) receiveWith(t *testing.T, in *sqs.ReceiveMessageInput) error {
	t.Helper()
	if in.QueueUrl == nil {
		in.QueueUrl = &q.url
	}
	_, err := q.ReceiveMessage(t.Context(), in)
	return err
}
