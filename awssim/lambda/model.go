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
}

// Model is one account's Lambda in one region. Use it from one goroutine at a time.
type Model struct {
	options   Options
	timeline  *timeline.Timeline
	random    *rand.Rand
	functions map[string]*function
	mappings  []*mapping
}

type function struct {
	Function
	arn          string
	pending      []*invocation
	environments map[string]*environment
	counts       Counts
	recent       []Outcome
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
	running *invocation
	asked   bool // it has requested work at least once
	killed  bool
}

type invocation struct {
	id       string
	payload  json.RawMessage
	deadline time.Time
	attempt  int
	// done receives the result of the invocation; an empty failure means success.
	done func(response json.RawMessage, failure string)
}

type mapping struct {
	EventSourceMapping
	function *function
	working  int
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
	m := &Model{options: o, timeline: o.Timeline, random: rand.New(rand.NewPCG(o.Seed, 0x1a)),
		functions: map[string]*function{}}
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
	m.functions[f.FunctionName] = &function{Function: f, arn: m.arn(f.FunctionName),
		environments: map[string]*environment{}}
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
	p := &mapping{EventSourceMapping: spec, function: f}
	m.mappings = append(m.mappings, p)
	m.pollFor(p)
	return nil
}

func (m *Model) arn(name string) string {
	return fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s", m.options.Region, m.options.Account, name)
}

// HasFunction reports whether a function with the ARN exists.
func (m *Model) HasFunction(arn string) bool { return m.byARN(arn) != nil }

func (m *Model) byARN(arn string) *function {
	for _, f := range m.functions {
		if f.arn == arn {
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
	m.attempt(f, m.uuid(), payload, 1)
	return nil
}

func (m *Model) attempt(f *function, id, payload string, n int) {
	m.enqueue(f, &invocation{id: id, payload: json.RawMessage(payload), attempt: n,
		done: func(_ json.RawMessage, failure string) {
			switch {
			case failure == "":
			case n < f.attempts():
				m.timeline.At(m.timeline.Now().Add(retryAfter[min(n, len(retryAfter))-1]), func() {
					m.attempt(f, id, payload, n+1)
				})
			default:
				f.counts.Dropped++
				if f.DeadLetterTargetARN != "" {
					// If the dead-letter queue does not exist, the event is lost, as in Lambda.
					_ = m.options.SQS.Put(f.DeadLetterTargetARN, payload)
				}
			}
		}})
}

func (m *Model) enqueue(f *function, i *invocation) { f.pending = append(f.pending, i) }

// poll receives batches from a queue for all of its mappings with free capacity.
func (m *Model) poll(queueARN string) {
	for _, p := range m.mappings {
		if p.EventSourceARN == queueARN {
			m.pollFor(p)
		}
	}
}

func (m *Model) pollFor(p *mapping) {
	room := p.function.concurrency()
	if p.MaximumConcurrency > 0 {
		room = min(room, p.MaximumConcurrency)
	}
	for p.working < room {
		batch := m.options.SQS.Take(p.EventSourceARN, p.BatchSize)
		if len(batch) == 0 {
			return
		}
		p.working++
		m.enqueue(p.function, &invocation{id: m.uuid(), payload: m.records(p, batch), attempt: 1,
			done: func(response json.RawMessage, failure string) {
				p.working--
				for _, message := range p.finished(batch, response, failure) {
					m.options.SQS.Delete(p.EventSourceARN, message.ReceiptHandle)
				}
				m.timeline.Soon(func() { m.pollFor(p) })
			}})
	}
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
