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
	for _, e := range f.Environments {
		if e.Killed {
			continue
		}
		all++
		if e.Running == nil {
			idle++
		}
	}
	var names []string
	for range min(len(f.Waiting)-idle, f.concurrency()-all) {
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
	e := f.Environments[environmentName]
	if e == nil {
		return
	}
	if !e.Asked && !e.Killed && len(f.Waiting) > 0 {
		e.Running, f.Waiting = f.Waiting[0], f.Waiting[1:]
	}
	if e.Running != nil {
		m.finish(f, e, nil, reason)
	}
	delete(f.Environments, environmentName)
}

// Kill ends the invocation of an environment: its process is killed. It reports whether an environment of that name is
// alive.
func (m *Model) Kill(environmentName string) bool {
	for _, f := range m.functions {
		if e := f.Environments[environmentName]; e != nil && !e.Killed {
			e.Killed = true
			if e.Running != nil {
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
	return e != nil && !e.Killed
}

// IsKilled reports whether the process of an environment must be killed.
func (m *Model) IsKilled(environmentName string) bool {
	e := m.find(environmentName)
	return e != nil && e.Killed
}

func (m *Model) find(environmentName string) *environment {
	for _, f := range m.functions {
		if e := f.Environments[environmentName]; e != nil {
			return e
		}
	}
	return nil
}

func (m *Model) environment(f *function, name string) *environment {
	if f.Environments[name] == nil {
		f.Environments[name] = &environment{}
	}
	return f.Environments[name]
}

func (m *Model) asking(functionName, environmentName string) (*function, *environment, error) {
	f := m.functions[functionName]
	if f == nil {
		return nil, nil, apierror.New("Runtime.UnknownFunction",
			"awssim knows no function %q: name it in the world file", functionName)
	}
	e := m.environment(f, environmentName)
	if e.Killed {
		return nil, nil, apierror.New("Runtime.Killed", "The environment %s has been killed", environmentName)
	}
	e.Asked = true
	return f, e, nil
}

// Next returns the next invocation of an environment, or nil while there is none. An environment that requests one
// during an invocation has given that up.
func (m *Model) Next(functionName, environmentName string) (*Invocation, error) {
	f, e, err := m.asking(functionName, environmentName)
	if err != nil {
		return nil, err
	}
	if e.Running != nil {
		m.finish(f, e, nil, "Runtime.NoResponse")
	}
	if len(f.Waiting) == 0 {
		return nil, nil
	}
	e.Running, f.Waiting = f.Waiting[0], f.Waiting[1:]
	i := e.Running
	i.Deadline = m.timeline.Now().Add(f.timeout())
	m.events.deadline.At(i.Deadline, deadline{functionName, environmentName, i.ID, i.Attempt})
	return &Invocation{RequestID: i.ID, FunctionARN: f.ARN, Payload: i.Payload, Deadline: i.Deadline}, nil
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
	case e.Running == nil || e.Running.ID != requestID:
		return apierror.New("InvalidRequestID", "Invalid request ID")
	}
	m.finish(f, e, response, failure)
	return nil
}

func (m *Model) finish(f *function, e *environment, response json.RawMessage, failure string) {
	i := e.Running
	e.Running = nil
	if len(response) > 0 && !json.Valid(response) {
		// Lambda passes on what a function returns, but only JSON fits into the records.
		response, _ = json.Marshal(string(response))
	}
	if failure == "" {
		f.Counts.Succeeded++
	} else {
		f.Counts.Failed++
	}
	f.Recent = append(f.Recent, Outcome{m.timeline.Now().UTC(), i.ID, i.Attempt, failure, response})
	if len(f.Recent) > maxRecent {
		f.Recent = f.Recent[1:]
	}
	switch {
	case i.Mapping > 0:
		m.processed(i, response, failure)
	case failure != "":
		m.attempted(f, i)
	}
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
		all = append(all, State{f.Function, f.ARN, f.Counts, len(f.Waiting), len(f.Environments), slices.Clone(f.Recent)})
	}
	return all
}
