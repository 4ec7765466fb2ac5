// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events is a model of Amazon EventBridge's default bus: rules choose events by pattern and send them to queues
// and functions. It refuses schedules, other buses, and targets that rewrite their input.
//
// Delivery is best effort, as EventBridge documents for the events of Auto Scaling. Faults of the action DeliverEvent,
// with the rule's name as resource, disturb it: loseRequest loses an event, duplicate delivers it twice, and delay
// (with jitter) delays events so that they arrive out of order.
package events

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/timeline"
)

// ActionDeliver is the action of a delivery in faults.
const ActionDeliver = "DeliverEvent"

// Rule sends the events that match a pattern to targets.
type Rule struct {
	Name         string         `json:"name"`
	EventPattern map[string]any `json:"eventPattern"`
	Description  string         `json:"description,omitempty"`
	// State is ENABLED, if empty, or DISABLED.
	State   string   `json:"state,omitempty"`
	Targets []Target `json:"targets"`
}

// States of a rule.
const (
	Enabled  = "ENABLED"
	Disabled = "DISABLED"
)

// Target is a queue or a function.
type Target struct {
	// ID is the target's name in its rule; a rule of the world numbers its targets.
	ID  string `json:"id,omitempty"`
	ARN string `json:"arn"`
}

// Event is an event. The bus adds the rest of the envelope.
type Event struct {
	Source     string   `json:"source"`
	DetailType string   `json:"detailType"`
	Resources  []string `json:"resources,omitempty"`
	Detail     any      `json:"detail"`
}

// envelope is an event as a target receives it.
type envelope struct {
	Version    string   `json:"version"`
	ID         string   `json:"id"`
	DetailType string   `json:"detail-type"`
	Source     string   `json:"source"`
	Account    string   `json:"account"`
	Time       string   `json:"time"`
	Region     string   `json:"region"`
	Resources  []string `json:"resources"`
	Detail     any      `json:"detail"`
}

// Options are the initial state and the settings of a bus.
type Options struct {
	// Rules that exist from the beginning.
	Rules           []Rule
	Region, Account string
	Timeline        *timeline.Timeline
	Faults          *fault.Set
	Seed            uint64
	// Latency draws how long a delivery takes.
	Latency func(*rand.Rand) time.Duration
	// Deliver delivers an event to a target. The bus ignores its error, which means that the target does not exist.
	Deliver func(targetARN, body string) error
	// Saved is what the bus goes on from, instead of Rules. The caller loads the timeline.
	Saved *Saved
}

// Saved is all that a bus holds, as it is saved.
type Saved struct {
	Random []byte     `json:"random"`
	Rules  []*Rule    `json:"rules"`
	Recent []Delivery `json:"recent"`
}

// Bus delivers events. Use it from one goroutine at a time.
type Bus struct {
	options Options
	source  *rand.PCG
	random  *rand.Rand // draws from source
	rules   []*Rule    // by name
	recent  []Delivery
	arrival timeline.Kind[arrival]
}

// arrival is an event that reaches a target.
type arrival struct {
	Rule       string `json:"rule"`
	TargetARN  string `json:"targetArn"`
	DetailType string `json:"detailType"`
	Body       string `json:"body"`
}

// Delivery is an event on its way to a target.
type Delivery struct {
	Time       time.Time `json:"time"`
	Rule       string    `json:"rule"`
	TargetARN  string    `json:"targetArn"`
	DetailType string    `json:"detailType"`
	// Outcome is "" for delivered, "lost", or the error of the delivery.
	Outcome string `json:"outcome,omitempty"`
}

// maxRecent is the number of deliveries that the bus remembers.
const maxRecent = 1000

// New returns a bus with the rules of the world. It refuses patterns that it does not understand.
func New(o Options) (*Bus, error) {
	b := &Bus{options: o, source: rand.NewPCG(o.Seed, 0xeb)}
	b.random = rand.New(b.source)
	b.arrival = timeline.Define(o.Timeline, "events.arrival", b.arrive)
	if o.Saved != nil {
		return b, b.load(*o.Saved)
	}
	for _, rule := range o.Rules {
		rule.Targets = slices.Clone(rule.Targets)
		for i := range rule.Targets {
			rule.Targets[i].ID = cmp.Or(rule.Targets[i].ID, strconv.Itoa(i+1))
		}
		if err := b.put(&rule); err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.Name, err)
		}
	}
	return b, nil
}

// Save returns all that the bus holds. It shares memory with the bus: encode it before the next call.
func (b *Bus) Save() (Saved, error) {
	random, err := b.source.MarshalBinary()
	return Saved{Random: random, Rules: b.rules, Recent: b.recent}, err
}

func (b *Bus) load(saved Saved) error {
	for _, rule := range saved.Rules {
		if rule == nil {
			return errors.New("saved EventBridge: a rule is missing")
		}
		if err := b.put(rule); err != nil {
			return fmt.Errorf("saved EventBridge: rule %s: %w", rule.Name, err)
		}
	}
	b.recent = saved.Recent
	if err := b.source.UnmarshalBinary(saved.Random); err != nil {
		return fmt.Errorf("saved EventBridge: random: %w", err)
	}
	return nil
}

// Put sends an event to the targets of all rules that match, and returns its ID.
func (b *Bus) Put(e Event) string {
	o, id := b.options, b.id()
	at := o.Timeline.Now()
	body, err := json.Marshal(envelope{
		Version: "0", ID: id, DetailType: e.DetailType, Source: e.Source, Account: o.Account,
		Time: at.UTC().Format("2006-01-02T15:04:05Z"), Region: o.Region, Resources: append([]string{}, e.Resources...),
		Detail: e.Detail,
	})
	if err != nil {
		panic(fmt.Sprintf("events: a detail that is no JSON: %v", err))
	}
	var decoded map[string]any
	// It is known to be JSON.
	_ = json.Unmarshal(body, &decoded)
	for _, rule := range b.rules {
		if rule.State == Disabled || !matches(rule.EventPattern, decoded) {
			continue
		}
		for _, target := range rule.Targets {
			b.send(rule, target, e, string(body))
		}
	}
	return id
}

func (b *Bus) id() string {
	high, low := b.random.Uint64(), b.random.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", high>>32, high>>16&0xffff, high&0xfff, low>>52, low&0xffffffffffff)
}

// send delivers once, twice or never.
func (b *Bus) send(rule *Rule, target Target, e Event, body string) {
	o, sent := b.options, arrival{rule.Name, target.ARN, e.DetailType, body}
	if _, strikes := o.Faults.Draw(fault.LoseRequest, o.Timeline.Now(), ActionDeliver, rule.Name); strikes {
		b.note(sent, "lost")
		return
	}
	times := 1
	if _, strikes := o.Faults.Draw(fault.Duplicate, o.Timeline.Now(), ActionDeliver, rule.Name); strikes {
		times = 2
	}
	for range times {
		b.arrival.After(b.latency(rule), sent)
	}
}

func (b *Bus) arrive(a arrival) {
	outcome := ""
	if err := b.options.Deliver(a.TargetARN, a.Body); err != nil {
		outcome = err.Error()
	}
	b.note(a, outcome)
}

func (b *Bus) latency(rule *Rule) time.Duration {
	o := b.options
	wait := o.Latency(b.random)
	f, strikes := o.Faults.Draw(fault.Delay, o.Timeline.Now(), ActionDeliver, rule.Name)
	switch {
	case !strikes:
		return wait
	case f.Jitter:
		return wait + time.Duration(b.random.Int64N(int64(f.Delay)+1))
	default:
		return wait + f.Delay
	}
}

func (b *Bus) note(a arrival, outcome string) {
	b.recent = append(b.recent, Delivery{b.options.Timeline.Now().UTC(), a.Rule, a.TargetARN, a.DetailType, outcome})
	if len(b.recent) > maxRecent {
		b.recent = b.recent[1:]
	}
}

// Recent returns the last deliveries, oldest first.
func (b *Bus) Recent() []Delivery { return slices.Clone(b.recent) }

// State returns all rules by name.
func (b *Bus) State() []Rule {
	all := make([]Rule, len(b.rules))
	for i, rule := range b.rules {
		all[i] = *rule
		all[i].Targets = slices.Clone(rule.Targets)
	}
	return all
}
