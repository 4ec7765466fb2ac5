// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lambda

import (
	"fmt"
	"maps"
	"slices"

	"github.com/multieni/multieni/awssim/timeline"
)

// Saved is all that a model holds, as it is saved.
type Saved struct {
	Random    []byte               `json:"random"`
	Functions map[string]*function `json:"functions"` // by name
	Mappings  []*mapping           `json:"mappings"`
}

// Save returns all that the model holds. It shares memory with the model: encode it before the next call.
func (m *Model) Save() (Saved, error) {
	random, err := m.source.MarshalBinary()
	return Saved{Random: random, Functions: m.functions, Mappings: m.mappings}, err
}

// load fills a model that holds nothing.
func (m *Model) load(saved Saved) error {
	for name, f := range saved.Functions {
		if f == nil || f.FunctionName != name {
			return fmt.Errorf("saved Lambda: the function %q is incomplete", name)
		}
		if f.Environments == nil {
			f.Environments = map[string]*environment{}
		}
		for _, e := range f.Environments {
			if e == nil || e.Running != nil && e.Running.Mapping > len(saved.Mappings) {
				return fmt.Errorf("saved Lambda: an environment of the function %q is incomplete", name)
			}
		}
		isIncomplete := func(i *invocation) bool { return i == nil || i.Mapping > len(saved.Mappings) }
		if slices.ContainsFunc(f.Waiting, isIncomplete) {
			return fmt.Errorf("saved Lambda: an invocation of the function %q is incomplete", name)
		}
	}
	for _, p := range saved.Mappings {
		if p == nil || saved.Functions[p.FunctionName] == nil {
			return fmt.Errorf("saved Lambda: an event source mapping has no function")
		}
	}
	maps.Copy(m.functions, saved.Functions)
	m.mappings = saved.Mappings
	if err := m.source.UnmarshalBinary(saved.Random); err != nil {
		return fmt.Errorf("saved Lambda: random: %w", err)
	}
	return nil
}

// EndProcesses ends all environments whose processes a simulator starts: the processes of the simulator that saved the
// model are gone.
func (m *Model) EndProcesses(reason string) {
	for _, name := range m.FunctionNames() {
		f := m.functions[name]
		if len(f.Command) == 0 {
			continue
		}
		for _, environment := range slices.Sorted(maps.Keys(f.Environments)) {
			m.End(name, environment, reason)
		}
	}
}

// eventKinds are the kinds of events that Lambda plans.
type eventKinds struct {
	attempt  timeline.Kind[attempt]
	poll     timeline.Kind[int] // by the number of a mapping
	deadline timeline.Kind[deadline]
}

// deadline is the end of the time of an invocation.
type deadline struct {
	FunctionName string `json:"functionName"`
	Environment  string `json:"environment"`
	InvocationID string `json:"invocationId"`
	Attempt      int    `json:"attempt"`
}

func (m *Model) defineEvents() {
	m.events = eventKinds{
		attempt:  timeline.Define(m.timeline, "lambda.attempt", m.attempt),
		poll:     timeline.Define(m.timeline, "lambda.poll", m.pollFor),
		deadline: timeline.Define(m.timeline, "lambda.deadline", m.timeOut),
	}
}

// timeOut kills an environment whose invocation has not ended in time.
func (m *Model) timeOut(d deadline) {
	f := m.functions[d.FunctionName]
	if f == nil || f.Environments[d.Environment] == nil {
		return
	}
	e := f.Environments[d.Environment]
	if e.Running == nil || e.Running.ID != d.InvocationID || e.Running.Attempt != d.Attempt {
		return
	}
	e.Killed = true
	f.Counts.TimedOut++
	m.finish(f, e, nil, "Sandbox.Timedout")
}
