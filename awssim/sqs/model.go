// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package sqs

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/timeline"
)

// Behavior has switches for undocumented behavior of SQS.
type Behavior struct {
	// OldHandleDeletes lets a receipt handle delete a message that was received again since. By default the call succeeds
	// without effect: SQS guarantees only that the latest handle works.
	OldHandleDeletes bool
}

// WorldQueue is a queue, with the attributes of CreateQueue. A dead-letter queue must precede the queue that uses it.
type WorldQueue struct {
	QueueName  string            `json:"queueName"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Options are the initial state and the settings of a model.
type Options struct {
	// Queues that exist from the beginning.
	Queues          []WorldQueue
	Behavior        Behavior
	Region, Account string
	Timeline        *timeline.Timeline
	Faults          *fault.Set
	Seed            uint64
}

// Model is one account's SQS in one region. Use it from one goroutine at a time.
type Model struct {
	behavior        Behavior
	region, account string
	timeline        *timeline.Timeline
	faults          *fault.Set
	random          *rand.Rand
	queues          map[string]*queue
	watchers        []func(queueARN string)
}

type queue struct {
	name, arn  string
	created    time.Time
	attributes map[string]string
	messages   []*message // oldest first
	purged     time.Time  // the last time
}

type message struct {
	id, body      string
	sent, visible time.Time
	firstReceived time.Time
	receives      int
	handle        string // the latest
}

// New returns a model with the queues of the world.
func New(o Options) (*Model, error) {
	m := &Model{
		behavior: o.Behavior, region: o.Region, account: o.Account, timeline: o.Timeline, faults: o.Faults,
		random: rand.New(rand.NewPCG(o.Seed, 0x505)), queues: map[string]*queue{},
	}
	for _, q := range o.Queues {
		if _, err := m.CreateQueue(&CreateQueueInput{QueueName: q.QueueName, Attributes: q.Attributes}); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.QueueName, err)
		}
	}
	return m, nil
}

// Watch calls back whenever a queue may have a message to receive.
func (m *Model) Watch(ready func(queueARN string)) { m.watchers = append(m.watchers, ready) }

func (m *Model) tell(q *queue) {
	for _, ready := range m.watchers {
		ready(q.arn)
	}
}

// tellAt plans a call of the watchers for the time at which a message becomes visible.
func (m *Model) tellAt(q *queue, visible time.Time) {
	if visible.After(m.timeline.Now()) {
		m.timeline.At(visible, func() { m.tell(q) })
		return
	}
	m.timeline.Soon(func() { m.tell(q) })
}

func (m *Model) arn(name string) string {
	return fmt.Sprintf("arn:aws:sqs:%s:%s:%s", m.region, m.account, name)
}

// url returns the URL that clients use for the queue. The simulator reads only its last element.
func (m *Model) url(name string) string {
	return fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", m.region, m.account, name)
}

func (m *Model) queueAt(url string) (*queue, error) {
	if url == "" {
		return nil, apierror.New("MissingParameter", "The request must contain the parameter QueueUrl.")
	}
	q := m.queues[url[strings.LastIndex(url, "/")+1:]]
	if q == nil {
		return nil, noQueue()
	}
	return q, nil
}

func noQueue() *apierror.Error {
	return apierror.New("QueueDoesNotExist", "The specified queue does not exist.")
}

// queryCodes are the codes that differ in SQS' query protocol (the model of the SQS API, trait awsQueryError).
var queryCodes = map[string]string{
	"QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
	"QueueNameExists":   "QueueAlreadyExists",
}

// QueryCode returns the code of an error in the query protocol.
func QueryCode(code string) string {
	switch known, ok := queryCodes[code]; {
	case ok:
		return known
	case strings.Contains(code, "Batch"), code == "MessageNotInflight", code == "PurgeQueueInProgress",
		code == "UnsupportedOperation":
		return "AWS.SimpleQueueService." + code
	default:
		return code
	}
}

// HasQueue reports whether a queue with the ARN exists.
func (m *Model) HasQueue(arn string) bool { return m.byARN(arn) != nil }

func (m *Model) byARN(arn string) *queue {
	for _, q := range m.queues {
		if q.arn == arn {
			return q
		}
	}
	return nil
}

// VisibilityTimeout returns the visibility timeout of a queue.
func (m *Model) VisibilityTimeout(arn string) time.Duration {
	if q := m.byARN(arn); q != nil {
		return q.seconds("VisibilityTimeout")
	}
	return 0
}

func (q *queue) seconds(attribute string) time.Duration {
	// Attributes are checked when they are set.
	n, _ := strconv.Atoi(q.attributes[attribute])
	return time.Duration(n) * time.Second
}

// redrive is the redrive policy of a queue.
type redrive struct {
	DeadLetterTargetARN string      `json:"deadLetterTargetArn"`
	MaxReceiveCount     json.Number `json:"maxReceiveCount"`
}

// uuid returns a fresh ID.
func (m *Model) uuid() string {
	high, low := m.random.Uint64(), m.random.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", high>>32, high>>16&0xffff, high&0xfff, low>>52, low&0xffffffffffff)
}

// Put sends a message to a queue by its ARN, as an AWS service does.
func (m *Model) Put(arn, body string) error {
	q := m.byARN(arn)
	if q == nil {
		return noQueue()
	}
	m.put(q, body, q.seconds("DelaySeconds"))
	return nil
}

func (m *Model) put(q *queue, body string, delay time.Duration) *message {
	now := m.timeline.Now()
	sent := &message{id: m.uuid(), body: body, sent: now, visible: now.Add(delay)}
	q.messages = append(q.messages, sent)
	m.tellAt(q, sent.visible)
	return sent
}

// Take receives messages of a queue by its ARN, as an event source mapping does.
func (m *Model) Take(arn string, atMost int) []Message {
	q := m.byARN(arn)
	if q == nil {
		return nil
	}
	return m.receive(q, atMost, q.seconds("VisibilityTimeout"))
}

// Delete deletes a message of a queue by its ARN. It succeeds if the message no longer exists.
func (m *Model) Delete(arn, handle string) {
	if q := m.byARN(arn); q != nil {
		_ = m.deleteMessage(q, handle)
	}
}

// receive takes visible messages and makes them invisible.
func (m *Model) receive(q *queue, atMost int, timeout time.Duration) []Message {
	m.expire(q)
	now := m.timeline.Now()
	ready := slices.DeleteFunc(slices.Clone(q.messages), func(x *message) bool { return x.visible.After(now) })
	if _, strikes := m.faults.Draw(fault.Reorder, now, "ReceiveMessage", q.name, q.arn); strikes {
		m.random.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	}
	var taken []Message
	for _, x := range ready {
		if len(taken) == atMost {
			break
		}
		if m.redrive(q, x) {
			continue
		}
		x.receives++
		if x.firstReceived.IsZero() {
			x.firstReceived = now
		}
		x.handle = x.id + "#" + m.uuid()
		taken = append(taken, m.show(x))
		if _, strikes := m.faults.Draw(fault.Duplicate, now, "ReceiveMessage", q.name, q.arn); !strikes {
			x.visible = now.Add(timeout)
		}
		m.tellAt(q, x.visible)
	}
	return taken
}

// redrive moves a message that was received too often to the dead-letter queue.
func (m *Model) redrive(q *queue, x *message) bool {
	policy, ok := q.redrivePolicy()
	if !ok {
		return false
	}
	limit, err := policy.MaxReceiveCount.Int64()
	dead := m.byARN(policy.DeadLetterTargetARN)
	if err != nil || dead == nil || int64(x.receives) < limit {
		return false
	}
	q.remove(x)
	x.visible, x.receives, x.handle = m.timeline.Now(), 0, ""
	dead.messages = append(dead.messages, x)
	m.tellAt(dead, x.visible)
	return true
}

func (q *queue) redrivePolicy() (redrive, bool) {
	text := q.attributes["RedrivePolicy"]
	if text == "" {
		return redrive{}, false
	}
	var policy redrive
	return policy, json.Unmarshal([]byte(text), &policy) == nil
}

// expire deletes messages that are older than the retention period.
func (m *Model) expire(q *queue) {
	oldest := m.timeline.Now().Add(-q.seconds("MessageRetentionPeriod"))
	q.messages = slices.DeleteFunc(q.messages, func(x *message) bool { return x.sent.Before(oldest) })
}

func (q *queue) remove(x *message) {
	q.messages = slices.DeleteFunc(q.messages, func(other *message) bool { return other == x })
}

// holding returns the message of a receipt handle, and reports whether the handle is the latest.
func (q *queue) holding(handle string) (x *message, latest bool, err error) {
	id, _, ok := strings.Cut(handle, "#")
	if !ok {
		return nil, false, apierror.New("ReceiptHandleIsInvalid",
			"The input receipt handle %q is not a valid receipt handle.", handle)
	}
	for _, x := range q.messages {
		if x.id == id {
			return x, x.handle == handle, nil
		}
	}
	return nil, false, nil
}

// deleteMessage deletes the message of a handle. It succeeds if the message no longer exists.
func (m *Model) deleteMessage(q *queue, handle string) error {
	x, latest, err := q.holding(handle)
	if err == nil && x != nil && (latest || m.behavior.OldHandleDeletes) {
		q.remove(x)
	}
	return err
}

func checksum(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// State has all messages of a queue.
type State struct {
	QueueName  string            `json:"queueName"`
	QueueARN   string            `json:"queueArn"`
	Attributes map[string]string `json:"attributes"`
	Messages   []MessageState    `json:"messages"`
}

// MessageState is a message in a queue.
type MessageState struct {
	MessageID string    `json:"messageId"`
	Body      string    `json:"body"`
	Sent      time.Time `json:"sent"`
	VisibleAt time.Time `json:"visibleAt"`
	Receives  int       `json:"receives"`
}

// State returns all queues by name.
func (m *Model) State() []State {
	var all []State
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		q := m.queues[name]
		m.expire(q)
		s := State{QueueName: name, QueueARN: q.arn, Attributes: maps.Clone(q.attributes), Messages: []MessageState{}}
		for _, x := range q.messages {
			s.Messages = append(s.Messages, MessageState{x.id, x.body, x.sent.UTC(), x.visible.UTC(), x.receives})
		}
		all = append(all, s)
	}
	return all
}
