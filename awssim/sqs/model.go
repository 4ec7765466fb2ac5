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
	// Saved is what the model goes on from, instead of Queues. The caller loads the timeline.
	Saved *Saved
}

// Saved is all that a model holds, as it is saved.
type Saved struct {
	Random []byte            `json:"random"`
	Queues map[string]*queue `json:"queues"` // by name
}

// Model is one account's SQS in one region. Use it from one goroutine at a time.
type Model struct {
	behavior        Behavior
	region, account string
	timeline        *timeline.Timeline
	faults          *fault.Set
	source          *rand.PCG
	random          *rand.Rand // draws from source
	queues          map[string]*queue
	ready           timeline.Kind[string] // a message of a queue, by the queue's name
	watchers        []func(queueARN string)
}

type queue struct {
	Name       string            `json:"name"`
	ARN        string            `json:"arn"`
	Created    time.Time         `json:"created"`
	Attributes map[string]string `json:"attributes"`
	Modified   time.Time         `json:"modified,omitzero"`
	Messages   []*message        `json:"messages"`        // oldest first
	Purged     time.Time         `json:"purged,omitzero"` // the last time
}

type message struct {
	ID            string    `json:"id"`
	Body          string    `json:"body"`
	Sent          time.Time `json:"sent"`
	Visible       time.Time `json:"visible"`
	FirstReceived time.Time `json:"firstReceived,omitzero"`
	Receives      int       `json:"receives"`
	Handle        string    `json:"handle,omitempty"` // the latest
}

// New returns a model with the queues of the world.
func New(o Options) (*Model, error) {
	m := &Model{
		behavior: o.Behavior, region: o.Region, account: o.Account, timeline: o.Timeline, faults: o.Faults,
		source: rand.NewPCG(o.Seed, 0x505), queues: map[string]*queue{},
	}
	m.random = rand.New(m.source)
	m.ready = timeline.Define(m.timeline, "sqs.ready", func(name string) {
		if q := m.queues[name]; q != nil {
			m.tell(q)
		}
	})
	if o.Saved != nil {
		return m, m.load(*o.Saved)
	}
	for _, q := range o.Queues {
		if _, err := m.CreateQueue(&CreateQueueInput{QueueName: q.QueueName, Attributes: q.Attributes}); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.QueueName, err)
		}
	}
	return m, nil
}

// Save returns all that the model holds. It shares memory with the model: encode it before the next call.
func (m *Model) Save() (Saved, error) {
	random, err := m.source.MarshalBinary()
	return Saved{Random: random, Queues: m.queues}, err
}

func (m *Model) load(saved Saved) error {
	for name, q := range saved.Queues {
		if q == nil || q.Name != name || slices.Contains(q.Messages, nil) {
			return fmt.Errorf("saved SQS: queue %q is incomplete", name)
		}
	}
	maps.Copy(m.queues, saved.Queues)
	if err := m.source.UnmarshalBinary(saved.Random); err != nil {
		return fmt.Errorf("saved SQS: random: %w", err)
	}
	return nil
}

// Watch calls back whenever a queue may have a message to receive.
func (m *Model) Watch(ready func(queueARN string)) { m.watchers = append(m.watchers, ready) }

func (m *Model) tell(q *queue) {
	for _, ready := range m.watchers {
		ready(q.ARN)
	}
}

// tellAt plans a call of the watchers for the time at which a message becomes visible.
func (m *Model) tellAt(q *queue, visible time.Time) {
	if visible.After(m.timeline.Now()) {
		m.ready.At(visible, q.Name)
		return
	}
	m.ready.Soon(q.Name)
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
		if q.ARN == arn {
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
	n, _ := strconv.Atoi(q.Attributes[attribute])
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
	sent := &message{ID: m.uuid(), Body: body, Sent: now, Visible: now.Add(delay)}
	q.Messages = append(q.Messages, sent)
	m.tellAt(q, sent.Visible)
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
	ready := slices.DeleteFunc(slices.Clone(q.Messages), func(x *message) bool { return x.Visible.After(now) })
	if _, strikes := m.faults.Draw(fault.Reorder, now, "ReceiveMessage", q.Name, q.ARN); strikes {
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
		x.Receives++
		if x.FirstReceived.IsZero() {
			x.FirstReceived = now
		}
		x.Handle = x.ID + "#" + m.uuid()
		taken = append(taken, m.show(x))
		if _, strikes := m.faults.Draw(fault.Duplicate, now, "ReceiveMessage", q.Name, q.ARN); !strikes {
			x.Visible = now.Add(timeout)
		}
		m.tellAt(q, x.Visible)
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
	if err != nil || dead == nil || int64(x.Receives) < limit {
		return false
	}
	q.remove(x)
	x.Visible, x.Receives, x.Handle = m.timeline.Now(), 0, ""
	dead.Messages = append(dead.Messages, x)
	m.tellAt(dead, x.Visible)
	return true
}

func (q *queue) redrivePolicy() (redrive, bool) {
	text := q.Attributes["RedrivePolicy"]
	if text == "" {
		return redrive{}, false
	}
	var policy redrive
	return policy, json.Unmarshal([]byte(text), &policy) == nil
}

// expire deletes messages that are older than the retention period.
func (m *Model) expire(q *queue) {
	oldest := m.timeline.Now().Add(-q.seconds("MessageRetentionPeriod"))
	q.Messages = slices.DeleteFunc(q.Messages, func(x *message) bool { return x.Sent.Before(oldest) })
}

func (q *queue) remove(x *message) {
	q.Messages = slices.DeleteFunc(q.Messages, func(other *message) bool { return other == x })
}

// holding returns the message of a receipt handle, and reports whether the handle is the latest.
func (q *queue) holding(handle string) (x *message, latest bool, err error) {
	id, _, ok := strings.Cut(handle, "#")
	if !ok {
		return nil, false, apierror.New("ReceiptHandleIsInvalid",
			"The input receipt handle %q is not a valid receipt handle.", handle)
	}
	for _, x := range q.Messages {
		if x.ID == id {
			return x, x.Handle == handle, nil
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
		s := State{QueueName: name, QueueARN: q.ARN, Attributes: maps.Clone(q.Attributes), Messages: []MessageState{}}
		for _, x := range q.Messages {
			s.Messages = append(s.Messages, MessageState{x.ID, x.Body, x.Sent.UTC(), x.Visible.UTC(), x.Receives})
		}
		all = append(all, s)
	}
	return all
}
