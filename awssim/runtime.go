// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/multieni/multieni/awssim/lambda"
)

// runtimePath is the path at which the environments of functions request work, each with its own name in the path.
const runtimePath = "/_lambda/{function}/{environment}/2018-06-01/runtime/"

// runtimeAPI serves Lambda's runtime API (Lambda developer guide, "Using the Lambda runtime API").
func (s *Simulator) runtimeAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+runtimePath+"invocation/next", s.serveNextInvocation)
	mux.HandleFunc("POST "+runtimePath+"invocation/{id}/response", s.forInvocation(
		func(m *lambda.Model, function, environment, id string, body []byte) error {
			return m.Respond(function, environment, id, body)
		}))
	mux.HandleFunc("POST "+runtimePath+"invocation/{id}/error", s.forInvocation(
		func(m *lambda.Model, function, environment, id string, body []byte) error {
			return m.Fail(function, environment, id, failure(body))
		}))
	mux.HandleFunc("POST "+runtimePath+"init/error", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted) // the process ends afterwards, and that is handled
	})
	return mux
}

// serveNextInvocation waits until there is work. A process that is killed gets no answer.
func (s *Simulator) serveNextInvocation(w http.ResponseWriter, r *http.Request) {
	var next *lambda.Invocation
	var refused error
	err := s.await(r.Context(), time.Time{}, func() bool {
		next, refused = s.account.lambda.Next(r.PathValue("function"), r.PathValue("environment"))
		return next != nil || refused != nil
	})
	switch {
	case err != nil:
		return // the process is gone
	case refused != nil:
		replyRuntime(w, http.StatusForbidden, refused)
		return
	}
	h := w.Header()
	h.Set("Lambda-Runtime-Aws-Request-Id", next.RequestID)
	h.Set("Lambda-Runtime-Invoked-Function-Arn", next.FunctionARN)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(s.machineTime(next.Deadline).UnixMilli(), 10))
	h.Set("Content-Type", "application/json")
	// If the process has ended meanwhile, its end is handled elsewhere.
	_, _ = w.Write(next.Payload)
}

// machineTime returns the real time of a simulated time: a program has only that clock.
func (s *Simulator) machineTime(t time.Time) time.Time {
	if scaled, ok := s.clock.(scaledClock); ok {
		return scaled.machine(t)
	}
	return t
}

func (s *Simulator) forInvocation(
	do func(m *lambda.Model, function, environment, id string, body []byte) error,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the process is gone
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		defer s.tellPollers()
		s.account.advance(s.clock.Now())
		if err := do(s.account.lambda, r.PathValue("function"), r.PathValue("environment"), r.PathValue("id"),
			body); err != nil {
			replyRuntime(w, http.StatusBadRequest, err)
			return
		}
		reply(w, http.StatusAccepted, map[string]string{"status": "OK"})
	}
}

func replyRuntime(w http.ResponseWriter, status int, err error) {
	refused := refusalOf(err)
	reply(w, status, map[string]string{"errorType": refused.Code, "errorMessage": refused.Message})
}

// failure is the error report of a function.
func failure(body []byte) string {
	var said struct{ ErrorType, ErrorMessage string }
	if json.Unmarshal(body, &said) != nil || said.ErrorType+said.ErrorMessage == "" {
		return "Runtime.Unknown"
	}
	return said.ErrorType + ": " + said.ErrorMessage
}
