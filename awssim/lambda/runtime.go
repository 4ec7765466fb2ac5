// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lambda

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/apierror"
)

// Invocation is work for an environment.
type Invocation struct {
	RequestID   string
	FunctionARN string
	Payload     json.RawMessage
	Deadline    time.Time
}

// FunctionNames are all functions.
func (m *Model) FunctionNames() []string { return slices.Sorted(maps.Keys(m.functions)) }

// Settings are those of a function.
func (m *Model) Settings(name string) Function { return m.functions[name].Function }

// Begin returns the names of the environments that a function needs, in addition to its existing ones, for the
// invocations that wait. The caller must start them.
func (m *Model) Begin(functionName string) []string {
	f := m.functions[functionName]
	idle, all := 0, 0
	for _, e := range f.environments {
		if e.killed {
			continue
		}
		all++
		if e.running == nil {
			idle++
		}
	}
	var names []string
	for range min(len(f.pending)-idle, f.concurrency()-all) {
		name := fmt.Sprintf("ASIA%016X", m.random.Uint64())
		m.environment(f, name)
		names = append(names, name)
	}
	return names
}

// End removes an environment whose process has ended. Its invocation has failed; so has the one for which it was
// started, if it never requested work.
func (m *Model) End(functionName, environmentName, reason string) {
	f := m.functions[functionName]
	e := f.environments[environmentName]
	if e == nil {
		return
	}
	if !e.asked && !e.killed && len(f.pending) > 0 {
		e.running, f.pending = f.pending[0], f.pending[1:]
	}
	if e.running != nil {
		m.finish(f, e, nil, reason)
	}
	delete(f.environments, environmentName)
}

// Kill ends the invocation of an environment: its process is killed. It reports whether an environment of that name is
// alive.
func (m *Model) Kill(environmentName string) bool {
	for _, f := range m.functions {
		if e := f.environments[environmentName]; e != nil && !e.killed {
			e.killed = true
			if e.running != nil {
				m.finish(f, e, nil, "Runtime.ExitError")
			}
			return true
		}
	}
	return false
}

// IsAlive reports whether an environment with the name exists and is not killed.
func (m *Model) IsAlive(environmentName string) bool {
	e := m.find(environmentName)
	return e != nil && !e.killed
}

// IsKilled reports whether the process of an environment must be killed.
func (m *Model) IsKilled(environmentName string) bool {
	e := m.find(environmentName)
	return e != nil && e.killed
}

func (m *Model) find(environmentName string) *environment {
	for _, f := range m.functions {
		if e := f.environments[environmentName]; e != nil {
			return e
		}
	}
	return nil
}

func (m *Model) environment(f *function, name string) *environment {
	if f.environments[name] == nil {
		f.environments[name] = &environment{}
	}
	return f.environments[name]
}

func (m *Model) asking(functionName, environmentName string) (*function, *environment, error) {
	f := m.functions[functionName]
	if f == nil {
		return nil, nil, apierror.New("Runtime.UnknownFunction",
			"awssim knows no function %q: name it in the world file", functionName)
	}
	e := m.environment(f, environmentName)
	if e.killed {
		return nil, nil, apierror.New("Runtime.Killed", "The environment %s has been killed", environmentName)
	}
	e.asked = true
	return f, e, nil
}

// Next returns the next invocation of an environment, or nil while there is none. An environment that requests one
// during an invocation has given that up.
func (m *Model) Next(functionName, environmentName string) (*Invocation, error) {
	f, e, err := m.asking(functionName, environmentName)
	if err != nil {
		return nil, err
	}
	if e.running != nil {
		m.finish(f, e, nil, "Runtime.NoResponse")
	}
	if len(f.pending) == 0 {
		return nil, nil
	}
	e.running, f.pending = f.pending[0], f.pending[1:]
	i := e.running
	i.deadline = m.timeline.Now().Add(f.timeout())
	m.timeline.At(i.deadline, func() {
		if e.running == i {
			e.killed = true
			f.counts.TimedOut++
			m.finish(f, e, nil, "Sandbox.Timedout")
		}
	})
	return &Invocation{RequestID: i.id, FunctionARN: f.arn, Payload: i.payload, Deadline: i.deadline}, nil
}

// Respond ends an invocation successfully.
func (m *Model) Respond(functionName, environmentName, requestID string, response json.RawMessage) error {
	return m.answer(functionName, environmentName, requestID, response, "")
}

// Fail ends an invocation with an error.
func (m *Model) Fail(functionName, environmentName, requestID, failure string) error {
	return m.answer(functionName, environmentName, requestID, nil, failure)
}

func (m *Model) answer(
	functionName, environmentName, requestID string, response json.RawMessage, failure string,
) error {
	f, e, err := m.asking(functionName, environmentName)
	switch {
	case err != nil:
		return err
	case e.running == nil || e.running.id != requestID:
		return apierror.New("InvalidRequestID", "Invalid request ID")
	}
	m.finish(f, e, response, failure)
	return nil
}

func (m *Model) finish(f *function, e *environment, response json.RawMessage, failure string) {
	i := e.running
	e.running = nil
	if failure == "" {
		f.counts.Succeeded++
	} else {
		f.counts.Failed++
	}
	f.recent = append(f.recent, Outcome{m.timeline.Now().UTC(), i.id, i.attempt, failure, response})
	if len(f.recent) > maxRecent {
		f.recent = f.recent[1:]
	}
	i.done(response, failure)
}

// State is everything about a function.
type State struct {
	Function
	FunctionARN string `json:"functionArn"`
	Counts
	Pending      int       `json:"pending"`
	Environments int       `json:"environments"`
	Recent       []Outcome `json:"recent"`
}

// State returns all functions by name.
func (m *Model) State() []State {
	var all []State
	for _, name := range m.FunctionNames() {
		f := m.functions[name]
		all = append(all, State{f.Function, f.arn, f.counts, len(f.pending), len(f.environments), slices.Clone(f.recent)})
	}
	return all
}
