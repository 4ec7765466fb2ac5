// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package sqs

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/multieni/multieni/awssim/apierror"
)

// Limits of SQS (developer guide, "Quotas").
const (
	maxBatch      = 10
	maxBody       = 1 << 20
	maxWait       = 20    // seconds
	maxVisibility = 43200 // seconds
)

var queueName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// attributeRanges are the numeric attributes of a queue, with their bounds and defaults.
var attributeRanges = map[string]struct{ low, high, byDefault int }{
	"DelaySeconds":                  {0, 900, 0},
	"MaximumMessageSize":            {1024, maxBody, maxBody},
	"MessageRetentionPeriod":        {60, 1209600, 345600},
	"ReceiveMessageWaitTimeSeconds": {0, maxWait, 0},
	"VisibilityTimeout":             {0, maxVisibility, 30},
}

func (m *Model) setAttributes(q *queue, attributes map[string]string) error {
	for name, value := range attributes {
		r, numeric := attributeRanges[name]
		n, err := strconv.Atoi(value)
		switch {
		case numeric && (err != nil || n < r.low || n > r.high):
			return apierror.New("InvalidAttributeValue", "Invalid value for the parameter %s: %q is not from %d to %d.",
				name, value, r.low, r.high)
		case !numeric && name != "RedrivePolicy" && name != "Policy" && name != "SqsManagedSseEnabled":
			return apierror.New("InvalidAttributeName",
				"Unknown Attribute %s: SQS does not have it, or awssim does not model it.", name)
		}
		q.Attributes[name] = value
		if name == "RedrivePolicy" {
			if err := m.checkRedrive(q); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Model) checkRedrive(q *queue) error {
	policy, ok := q.redrivePolicy()
	limit, err := policy.MaxReceiveCount.Int64()
	switch {
	case q.Attributes["RedrivePolicy"] == "":
		return nil
	case !ok || err != nil || limit < 1 || limit > 1000:
		return apierror.New("InvalidAttributeValue",
			"Value %s for parameter RedrivePolicy is invalid. Reason: it needs deadLetterTargetArn and "+
				"maxReceiveCount from 1 to 1000.", q.Attributes["RedrivePolicy"])
	case m.byARN(policy.DeadLetterTargetARN) == nil:
		return apierror.New("InvalidAttributeValue",
			"Value %s for parameter RedrivePolicy is invalid. Reason: Dead letter target does not exist.",
			q.Attributes["RedrivePolicy"])
	}
	return nil
}

// QueueInput names a queue.
type QueueInput struct {
	QueueURL string `json:"QueueUrl"`
}

// Nothing is the answer of actions that return no data.
type Nothing struct{}

// purgePause is the least time between two calls of PurgeQueue (SQS API reference, PurgeQueue).
const purgePause = time.Minute

// PurgeQueue deletes the messages of a queue.
func (m *Model) PurgeQueue(in *QueueInput) (*Nothing, error) {
	q, err := m.queueAt(in.QueueURL)
	if err != nil {
		return nil, err
	}
	now := m.timeline.Now()
	if !q.Purged.IsZero() && now.Before(q.Purged.Add(purgePause)) {
		return nil, apierror.New("PurgeQueueInProgress",
			"Only one PurgeQueue operation on %s is allowed every 60 seconds.", q.Name)
	}
	q.Messages, q.Purged = nil, now
	return &Nothing{}, nil
}

// GetQueueAttributesInput is the request of GetQueueAttributes.
type GetQueueAttributesInput struct {
	QueueInput
	AttributeNames []string `json:"AttributeNames"`
}

// GetQueueAttributesOutput is its answer.
type GetQueueAttributesOutput struct {
	Attributes map[string]string `json:"Attributes"`
}

// GetQueueAttributes returns the attributes of a queue. In contrast to SQS, its counts are exact.
func (m *Model) GetQueueAttributes(in *GetQueueAttributesInput) (*GetQueueAttributesOutput, error) {
	q, err := m.queueAt(in.QueueURL)
	if err != nil {
		return nil, err
	}
	m.expire(q)
	all := maps.Clone(q.Attributes)
	all["QueueArn"] = q.ARN
	all["CreatedTimestamp"] = strconv.FormatInt(q.Created.Unix(), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(max(q.Created.Unix(), q.Modified.Unix()), 10)
	visible, delayed, flying := 0, 0, 0
	for _, x := range q.Messages {
		switch {
		case !x.Visible.After(m.timeline.Now()):
			visible++
		case x.Receives == 0:
			delayed++
		default:
			flying++
		}
	}
	all["ApproximateNumberOfMessages"] = strconv.Itoa(visible)
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(delayed)
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(flying)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return !slices.Contains(in.AttributeNames, name) && !slices.Contains(in.AttributeNames, "All")
	})
	return &GetQueueAttributesOutput{all}, nil
}

// SetQueueAttributesInput is the request of SetQueueAttributes.
type SetQueueAttributesInput struct {
	QueueInput
	Attributes map[string]string `json:"Attributes"`
}

// SetQueueAttributes changes a queue.
func (m *Model) SetQueueAttributes(in *SetQueueAttributesInput) (*Nothing, error) {
	q, err := m.queueAt(in.QueueURL)
	if err != nil {
		return nil, err
	}
	changed := *q
	changed.Attributes = maps.Clone(q.Attributes)
	if err := m.setAttributes(&changed, in.Attributes); err != nil {
		return nil, err
	}
	q.Attributes, q.Modified = changed.Attributes, m.timeline.Now()
	return &Nothing{}, nil
}

// SendMessageInput is the request of SendMessage.
type SendMessageInput struct {
	QueueInput
	MessageBody  string `json:"MessageBody"`
	DelaySeconds *int   `json:"DelaySeconds"`
}

// SendMessageOutput is its answer.
type SendMessageOutput struct {
	MessageID        string `json:"MessageId"`
	MD5OfMessageBody string `json:"MD5OfMessageBody"`
}

// SendMessage puts a message into a queue.
func (m *Model) SendMessage(in *SendMessageInput) (*SendMessageOutput, error) {
	q, err := m.queueAt(in.QueueURL)
	if err != nil {
		return nil, err
	}
	limit, _ := strconv.Atoi(q.Attributes["MaximumMessageSize"])
	delay := q.seconds("DelaySeconds")
	if in.DelaySeconds != nil {
		delay = time.Duration(*in.DelaySeconds) * time.Second
	}
	switch {
	case in.MessageBody == "":
		return nil, apierror.New("MissingParameter", "The request must contain the parameter MessageBody.")
	case len(in.MessageBody) > limit:
		return nil, apierror.New("InvalidParameterValue",
			"One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", limit)
	case delay < 0 || delay > 900*time.Second:
		return nil, apierror.New("InvalidParameterValue",
			"Value %s for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.", delay)
	}
	sent := m.put(q, in.MessageBody, delay)
	return &SendMessageOutput{sent.ID, checksum(sent.Body)}, nil
}

// ReceiveMessageInput is the request of ReceiveMessage.
type ReceiveMessageInput struct {
	QueueInput
	MaxNumberOfMessages         *int     `json:"MaxNumberOfMessages"`
	VisibilityTimeout           *int     `json:"VisibilityTimeout"`
	WaitTimeSeconds             *int     `json:"WaitTimeSeconds"`
	AttributeNames              []string `json:"AttributeNames"`
	MessageSystemAttributeNames []string `json:"MessageSystemAttributeNames"`
	MessageAttributeNames       []string `json:"MessageAttributeNames"`
}

// ReceiveMessageOutput is its answer.
type ReceiveMessageOutput struct {
	Messages []Message `json:"Messages,omitempty"`
}

// Message is a message that was received.
type Message struct {
	MessageID     string            `json:"MessageId"`
	ReceiptHandle string            `json:"ReceiptHandle"`
	MD5OfBody     string            `json:"MD5OfBody"`
	Body          string            `json:"Body"`
	Attributes    map[string]string `json:"Attributes,omitempty"`
}

func (m *Model) show(x *message) Message {
	return Message{
		MessageID: x.ID, ReceiptHandle: x.Handle, MD5OfBody: checksum(x.Body), Body: x.Body,
		Attributes: map[string]string{
			"ApproximateReceiveCount":          strconv.Itoa(x.Receives),
			"ApproximateFirstReceiveTimestamp": strconv.FormatInt(x.FirstReceived.UnixMilli(), 10),
			"SentTimestamp":                    strconv.FormatInt(x.Sent.UnixMilli(), 10),
			"SenderId":                         m.account,
		},
	}
}

// Wait returns how long a request waits for a message.
func (m *Model) Wait(in *ReceiveMessageInput) time.Duration {
	if in.WaitTimeSeconds != nil {
		return time.Duration(*in.WaitTimeSeconds) * time.Second
	}
	if q, err := m.queueAt(in.QueueURL); err == nil {
		return q.seconds("ReceiveMessageWaitTimeSeconds")
	}
	return 0
}

// ReceiveMessage receives messages that are in a queue now, and makes them invisible for a while.
func (m *Model) ReceiveMessage(in *ReceiveMessageInput) (*ReceiveMessageOutput, error) {
	q, err := m.queueAt(in.QueueURL)
	if err != nil {
		return nil, err
	}
	atMost, timeout := 1, q.seconds("VisibilityTimeout")
	if in.MaxNumberOfMessages != nil {
		atMost = *in.MaxNumberOfMessages
	}
	if in.VisibilityTimeout != nil {
		timeout = time.Duration(*in.VisibilityTimeout) * time.Second
	}
	wait := m.Wait(in)
	switch {
	case atMost < 1 || atMost > maxBatch:
		return nil, apierror.New("InvalidParameterValue",
			"Value %d for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and %d, if provided.",
			atMost, maxBatch)
	case wait < 0 || wait > maxWait*time.Second:
		return nil, apierror.New("InvalidParameterValue",
			"Value %s for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= %d, if provided.", wait, maxWait)
	case timeout < 0 || timeout > maxVisibility*time.Second:
		return nil, invalidVisibility(timeout)
	}
	out := &ReceiveMessageOutput{m.receive(q, atMost, timeout)}
	for i := range out.Messages {
		asked := slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames)
		maps.DeleteFunc(out.Messages[i].Attributes, func(name, _ string) bool {
			return !slices.Contains(asked, name) && !slices.Contains(asked, "All")
		})
	}
	return out, nil
}

func invalidVisibility(timeout time.Duration) *apierror.Error {
	return apierror.New("InvalidParameterValue",
		"Value %s for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and %d seconds.",
		timeout, maxVisibility)
}

// DeleteMessageInput is the request of DeleteMessage.
type DeleteMessageInput struct {
	QueueInput
	ReceiptHandle string `json:"ReceiptHandle"`
}

// DeleteMessage deletes a message that was received.
func (m *Model) DeleteMessage(in *DeleteMessageInput) (*Nothing, error) {
	q, err := m.queueAt(in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &Nothing{}, m.deleteMessage(q, in.ReceiptHandle)
}

// ChangeMessageVisibilityInput is the request of ChangeMessageVisibility.
type ChangeMessageVisibilityInput struct {
	DeleteMessageInput
	VisibilityTimeout int `json:"VisibilityTimeout"`
}

// ChangeMessageVisibility changes when a received message can be received again.
func (m *Model) ChangeMessageVisibility(in *ChangeMessageVisibilityInput) (*Nothing, error) {
	q, err := m.queueAt(in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &Nothing{}, m.changeVisibility(q, in.ReceiptHandle, in.VisibilityTimeout)
}

func (m *Model) changeVisibility(q *queue, handle string, seconds int) error {
	timeout := time.Duration(seconds) * time.Second
	if timeout < 0 || timeout > maxVisibility*time.Second {
		return invalidVisibility(timeout)
	}
	x, latest, err := q.holding(handle)
	switch {
	case err != nil:
		return err
	case x == nil || !latest || !x.Visible.After(m.timeline.Now()):
		return apierror.New("MessageNotInflight", "The message referred to is not in flight.")
	}
	x.Visible = m.timeline.Now().Add(timeout)
	m.tellAt(q, x.Visible)
	return nil
}

// BatchEntry is one entry of a batch. Each action uses some of the members.
type BatchEntry struct {
	ID                string `json:"Id"`
	ReceiptHandle     string `json:"ReceiptHandle"`
	VisibilityTimeout int    `json:"VisibilityTimeout"`
	MessageBody       string `json:"MessageBody"`
	DelaySeconds      *int   `json:"DelaySeconds"`
}

// BatchInput is the request of the batch actions.
type BatchInput struct {
	QueueInput
	Entries []BatchEntry `json:"Entries"`
}

// BatchOutput is their answer.
type BatchOutput struct {
	Successful []BatchSuccess `json:"Successful"`
	Failed     []BatchFailure `json:"Failed"`
}

// BatchSuccess is an entry that succeeded.
type BatchSuccess struct {
	ID               string `json:"Id"`
	MessageID        string `json:"MessageId,omitempty"`
	MD5OfMessageBody string `json:"MD5OfMessageBody,omitempty"`
}

// BatchFailure is an entry that failed.
type BatchFailure struct {
	ID          string `json:"Id"`
	Code        string `json:"Code"`
	Message     string `json:"Message"`
	SenderFault bool   `json:"SenderFault"`
}

// SendMessageBatch is SendMessage for up to ten entries.
func (m *Model) SendMessageBatch(in *BatchInput) (*BatchOutput, error) {
	return m.batch(in, func(_ *queue, e BatchEntry) (BatchSuccess, error) {
		sent, err := m.SendMessage(&SendMessageInput{in.QueueInput, e.MessageBody, e.DelaySeconds})
		if err != nil {
			return BatchSuccess{}, err
		}
		return BatchSuccess{e.ID, sent.MessageID, sent.MD5OfMessageBody}, nil
	})
}

// DeleteMessageBatch is DeleteMessage for up to ten entries.
func (m *Model) DeleteMessageBatch(in *BatchInput) (*BatchOutput, error) {
	return m.batch(in, func(q *queue, e BatchEntry) (BatchSuccess, error) {
		return BatchSuccess{ID: e.ID}, m.deleteMessage(q, e.ReceiptHandle)
	})
}

// ChangeMessageVisibilityBatch is ChangeMessageVisibility for up to ten entries.
func (m *Model) ChangeMessageVisibilityBatch(in *BatchInput) (*BatchOutput, error) {
	return m.batch(in, func(q *queue, e BatchEntry) (BatchSuccess, error) {
		return BatchSuccess{ID: e.ID}, m.changeVisibility(q, e.ReceiptHandle, e.VisibilityTimeout)
	})
}

func (m *Model) batch(in *BatchInput, do func(*queue, BatchEntry) (BatchSuccess, error)) (*BatchOutput, error) {
	q, err := m.queueAt(in.QueueURL)
	switch {
	case err != nil:
		return nil, err
	case len(in.Entries) == 0:
		return nil, apierror.New("EmptyBatchRequest", "There should be at least one entry in the request.")
	case len(in.Entries) > maxBatch:
		return nil, apierror.New("TooManyEntriesInBatchRequest",
			"Maximum number of entries per request are %d. You have sent %d.", maxBatch, len(in.Entries))
	}
	seen := map[string]bool{}
	for _, e := range in.Entries {
		if seen[e.ID] {
			return nil, apierror.New("BatchEntryIdsNotDistinct", "Id %s repeated.", e.ID)
		}
		seen[e.ID] = true
	}
	out := &BatchOutput{Successful: []BatchSuccess{}, Failed: []BatchFailure{}}
	for _, e := range in.Entries {
		success, err := do(q, e)
		if err == nil {
			out.Successful = append(out.Successful, success)
			continue
		}
		if refused, ok := errors.AsType[*apierror.Error](err); ok {
			out.Failed = append(out.Failed, BatchFailure{e.ID, refused.Code, refused.Message, true})
		}
	}
	return out, nil
}
