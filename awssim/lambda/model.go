// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lambda

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/awssim/timeline"
)

// Function is a program, with its settings.
type Function struct {
	FunctionName string `json:"functionName"`
	// Command starts the program, which is a bootstrap for a custom runtime, for example provided.al2023. Without a
	// command, another program starts it with AWS_LAMBDA_RUNTIME_API set to HOST:PORT/_lambda/FUNCTION/NAME and a name
	// that no other process has.
	Command []string `json:"command,omitempty"`
	// Environment of the program, in addition to the variables that Lambda sets.
	Environment map[string]string `json:"environment,omitempty"`
	// Timeout of an invocation in seconds; 0 means 3.
	Timeout int `json:"timeout,omitempty"`
	// Concurrency is the largest number of environments; 0 means 10.
	Concurrency int `json:"concurrency,omitempty"`
	// MaximumRetryAttempts after a failed asynchronous invocation; unset means 2.
	MaximumRetryAttempts *int `json:"maximumRetryAttempts,omitempty"`
	// DeadLetterTargetARN is the queue for asynchronous events that failed permanently.
	DeadLetterTargetARN string `json:"deadLetterTargetArn,omitempty"`
}

func (f *Function) timeout() time.Duration {
	if f.Timeout == 0 {
		return 3 * time.Second
	}
	return time.Duration(f.Timeout) * time.Second
}

func (f *Function) concurrency() int {
	if f.Concurrency == 0 {
		return 10
	}
	return f.Concurrency
}

func (f *Function) attempts() int {
	if f.MaximumRetryAttempts == nil {
		return 3
	}
	return 1 + *f.MaximumRetryAttempts
}

// EventSourceMapping makes a function process the messages of a queue.
type EventSourceMapping struct {
	EventSourceARN string `json:"eventSourceArn"`
	FunctionName   string `json:"functionName"`
	// BatchSize is the largest number of messages in an invocation; 0 means 10.
	BatchSize int `json:"batchSize,omitempty"`
	// FunctionResponseTypes with ReportBatchItemFailures lets the function name the messages that failed.
	FunctionResponseTypes []string `json:"functionResponseTypes,omitempty"`
	// MaximumConcurrency is the number of batches that are processed at once; 0 means the function's number of
	// environments.
	MaximumConcurrency int `json:"maximumConcurrency,omitempty"`
}

// ReportBatchItemFailures is the one function response type.
const ReportBatchItemFailures = "ReportBatchItemFailures"

// maxTimeout of a function in seconds (Lambda developer guide, "Quotas").
const maxTimeout = 900

// Options are the initial state and the settings of a model.
type Options struct {
	Functions           []Function
	EventSourceMappings []EventSourceMapping

	Region, Account string
	Timeline        *timeline.Timeline
	SQS             *sqs.Model
	Seed            uint64
	// Saved is what the model goes on from, instead of Functions and EventSourceMappings. The caller loads the timeline.
	Saved *Saved
}

// Model is one account's Lambda in one region. Use it from one goroutine at a time.
type Model struct {
	options   Options
	timeline  *timeline.Timeline
	source    *rand.PCG
	random    *rand.Rand // draws from source
	functions map[string]*function
	mappings  []*mapping
	events    eventKinds
}

type function struct {
	Function     `json:"function"`
	ARN          string                  `json:"arn"`
	Waiting      []*invocation           `json:"waiting"`
	Environments map[string]*environment `json:"environments"`
	Counts       Counts                  `json:"counts"`
	Recent       []Outcome               `json:"recent"`
}

// Counts has the numbers of invocations of a function by result.
type Counts struct {
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	TimedOut  int `json:"timedOut"`
	Dropped   int `json:"dropped"` // asynchronous events after their last attempt
}

// environment is a process of a function, with the name under which it requests work.
type environment struct {
	Running *invocation `json:"running,omitempty"`
	Asked   bool        `json:"asked"` // it has requested work at least once
	Killed  bool        `json:"killed"`
}

type invocation struct {
	ID       string    `json:"id"`
	Payload  []byte    `json:"payload"`
	Deadline time.Time `json:"deadline,omitzero"`
	Attempt  int       `json:"attempt"`
	// Batch is what an event source mapping received, and Mapping its index from 1; 0 is an asynchronous event.
	Batch   []sqs.Message `json:"batch,omitempty"`
	Mapping int           `json:"mapping,omitempty"`
}

type mapping struct {
	EventSourceMapping `json:"mapping"`
	Working            int `json:"working"`
}

// Outcome is how an invocation ended.
type Outcome struct {
	Time      time.Time       `json:"time"`
	RequestID string          `json:"requestId"`
	Attempt   int             `json:"attempt"`
	Failure   string          `json:"failure,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
}

const maxRecent = 100

// New returns a model with the functions and mappings of the world.
func New(o Options) (*Model, error) {
	m := &Model{options: o, timeline: o.Timeline, source: rand.NewPCG(o.Seed, 0x1a), functions: map[string]*function{}}
	m.random = rand.New(m.source)
	m.defineEvents()
	if o.Saved != nil {
		o.SQS.Watch(m.poll)
		return m, m.load(*o.Saved)
	}
	for _, f := range o.Functions {
		if err := m.AddFunction(f); err != nil {
			return nil, err
		}
	}
	for _, spec := range o.EventSourceMappings {
		if err := m.AddEventSourceMapping(spec); err != nil {
			return nil, err
		}
	}
	o.SQS.Watch(m.poll)
	return m, nil
}

// AddFunction adds a function.
func (m *Model) AddFunction(f Function) error {
	switch {
	case f.FunctionName == "" || m.functions[f.FunctionName] != nil:
		return fmt.Errorf("function %q: each function needs a name of its own", f.FunctionName)
	case f.Timeout < 0 || f.Timeout > maxTimeout:
		return fmt.Errorf("function %s: timeout %d is not from 1 to %d seconds", f.FunctionName, f.Timeout, maxTimeout)
	}
	m.functions[f.FunctionName] = &function{Function: f, ARN: m.arn(f.FunctionName),
		Environments: map[string]*environment{}}
	return nil
}

// AddEventSourceMapping makes a function process the messages of a queue.
func (m *Model) AddEventSourceMapping(spec EventSourceMapping) error {
	f, queue := m.functions[spec.FunctionName], m.options.SQS
	switch {
	case f == nil:
		return fmt.Errorf("event source mapping of %s: there is no function %q", spec.EventSourceARN, spec.FunctionName)
	case !queue.HasQueue(spec.EventSourceARN):
		return fmt.Errorf("event source mapping of %s: there is no such queue", spec.EventSourceARN)
	case queue.VisibilityTimeout(spec.EventSourceARN) < f.timeout():
		return fmt.Errorf("event source mapping of %s: the queue's visibility timeout of %s is less than the "+
			"function's timeout of %s",
			spec.EventSourceARN, queue.VisibilityTimeout(spec.EventSourceARN), f.timeout())
	}
	spec.BatchSize = cmp.Or(spec.BatchSize, 10)
	m.mappings = append(m.mappings, &mapping{EventSourceMapping: spec})
	m.pollFor(len(m.mappings))
	return nil
}

func (m *Model) arn(name string) string {
	return fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s", m.options.Region, m.options.Account, name)
}

// HasFunction reports whether a function with the ARN exists.
func (m *Model) HasFunction(arn string) bool { return m.byARN(arn) != nil }

func (m *Model) byARN(arn string) *function {
	for _, f := range m.functions {
		if f.ARN == arn {
			return f
		}
	}
	return nil
}

func (m *Model) uuid() string {
	high, low := m.random.Uint64(), m.random.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", high>>32, high>>16&0xffff, high&0xfff, low>>52, low&0xffffffffffff)
}

// retryAfter is how long Lambda waits before the second and third attempt at an asynchronous event (developer guide,
// "Asynchronous invocation").
var retryAfter = [...]time.Duration{time.Minute, 2 * time.Minute}

// InvokeAsync queues an event for a function by its ARN.
func (m *Model) InvokeAsync(arn, payload string) error {
	f := m.byARN(arn)
	if f == nil {
		return fmt.Errorf("there is no function %s", arn)
	}
	m.attempt(attempt{f.FunctionName, m.uuid(), []byte(payload), 1})
	return nil
}

// attempt is one of up to three invocations with an asynchronous event.
type attempt struct {
	FunctionName string `json:"functionName"`
	ID           string `json:"id"`
	Payload      []byte `json:"payload"`
	Number       int    `json:"number"`
}

func (m *Model) attempt(a attempt) {
	if f := m.functions[a.FunctionName]; f != nil {
		m.enqueue(f, &invocation{ID: a.ID, Payload: a.Payload, Attempt: a.Number})
	}
}

// attempted plans the next attempt at an asynchronous event, or drops the event.
func (m *Model) attempted(f *function, i *invocation) {
	if i.Attempt < f.attempts() {
		m.events.attempt.After(retryAfter[min(i.Attempt, len(retryAfter))-1],
			attempt{f.FunctionName, i.ID, i.Payload, i.Attempt + 1})
		return
	}
	f.Counts.Dropped++
	if f.DeadLetterTargetARN != "" {
		// If the dead-letter queue does not exist, the event is lost, as in Lambda.
		_ = m.options.SQS.Put(f.DeadLetterTargetARN, string(i.Payload))
	}
}

func (m *Model) enqueue(f *function, i *invocation) { f.Waiting = append(f.Waiting, i) }

// poll receives batches from a queue for all of its mappings with free capacity.
func (m *Model) poll(queueARN string) {
	for i, p := range m.mappings {
		if p.EventSourceARN == queueARN {
			m.pollFor(i + 1)
		}
	}
}

// pollFor receives batches for the mapping of a number, which counts from 1.
func (m *Model) pollFor(number int) {
	if number < 1 || number > len(m.mappings) {
		return
	}
	p := m.mappings[number-1]
	f := m.functions[p.FunctionName]
	room := f.concurrency()
	if p.MaximumConcurrency > 0 {
		room = min(room, p.MaximumConcurrency)
	}
	for p.Working < room {
		batch := m.options.SQS.Take(p.EventSourceARN, p.BatchSize)
		if len(batch) == 0 {
			return
		}
		p.Working++
		m.enqueue(f, &invocation{ID: m.uuid(), Payload: m.records(p, batch), Attempt: 1, Batch: batch, Mapping: number})
	}
}

// processed deletes the messages of a batch that need no further attempt.
func (m *Model) processed(i *invocation, response json.RawMessage, failure string) {
	p := m.mappings[i.Mapping-1]
	p.Working--
	for _, message := range p.finished(i.Batch, response, failure) {
		m.options.SQS.Delete(p.EventSourceARN, message.ReceiptHandle)
	}
	m.events.poll.Soon(i.Mapping)
}

// finished returns the messages of a batch that need no further attempt.
func (p *mapping) finished(batch []sqs.Message, response json.RawMessage, failure string) []sqs.Message {
	if failure != "" {
		return nil
	}
	if !slices.Contains(p.FunctionResponseTypes, ReportBatchItemFailures) || len(response) == 0 {
		return batch
	}
	var report struct {
		Failures []struct {
			ItemIdentifier string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if json.Unmarshal(response, &report) != nil {
		return nil // Lambda treats an invalid report as a complete failure
	}
	var done []sqs.Message
	known := 0
	for _, message := range batch {
		isFailed := false
		for _, failed := range report.Failures {
			isFailed = isFailed || failed.ItemIdentifier == message.MessageID
		}
		if isFailed {
			known++
			continue
		}
		done = append(done, message)
	}
	if known < len(report.Failures) {
		return nil // and also one that names a message that is not in the batch
	}
	return done
}

// records returns the event of a batch.
func (m *Model) records(p *mapping, batch []sqs.Message) json.RawMessage {
	type record struct {
		MessageID         string            `json:"messageId"`
		ReceiptHandle     string            `json:"receiptHandle"`
		Body              string            `json:"body"`
		Attributes        map[string]string `json:"attributes"`
		MessageAttributes map[string]string `json:"messageAttributes"`
		MD5OfBody         string            `json:"md5OfBody"`
		EventSource       string            `json:"eventSource"`
		EventSourceARN    string            `json:"eventSourceARN"`
		AWSRegion         string            `json:"awsRegion"`
	}
	records := make([]record, len(batch))
	for i, x := range batch {
		records[i] = record{x.MessageID, x.ReceiptHandle, x.Body, x.Attributes, map[string]string{}, x.MD5OfBody,
			"aws:sqs", p.EventSourceARN, m.options.Region}
	}
	// Strings: Marshal cannot fail.
	payload, _ := json.Marshal(map[string]any{"Records": records})
	return payload
}
