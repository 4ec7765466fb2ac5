// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/internal/query"
)

// The version of EC2's API, and the namespace of its answers.
const (
	ec2Version   = "2016-11-15"
	ec2Namespace = "http://ec2.amazonaws.com/doc/" + ec2Version + "/"
)

// answer is what a call came to.
type answer struct {
	output any
	err    *ec2.Error
	// lost is why the client gets no answer, if it gets none.
	lost string
	// wait is how long the answer, or the loss of it, is held back.
	wait time.Duration
}

func (a answer) code() string {
	switch {
	case a.lost != "":
		return a.lost
	case a.err != nil:
		return a.err.Code
	default:
		return ""
	}
}

// serveEC2 answers one call of the EC2 API.
func (s *Simulator) serveEC2(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.writeError(w, "", refusal(http.StatusBadRequest, "MalformedQueryString", err.Error()))
		return
	}
	action := r.Form.Get("Action")
	requestID, a := s.answer(action, r.Form, r.UserAgent())
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "call", slog.String("action", action), slog.String("code", a.code()),
		slog.String("requestId", requestID), slog.String("userAgent", r.UserAgent()))
	if a.wait > 0 {
		// A client that has gone away does not need the answer.
		if err := s.clock.Sleep(r.Context(), a.wait); err != nil {
			return
		}
	}
	switch {
	case a.lost != "":
		panic(http.ErrAbortHandler) // net/http's way to close the connection without an answer
	case a.err != nil:
		s.writeError(w, requestID, a.err)
	default:
		s.writeOutput(w, action, requestID, a.output)
	}
}

// answer finds out what to answer, and counts the call.
func (s *Simulator) answer(action string, form url.Values, userAgent string) (requestID string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.requests++
	requestID = fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.options.Seed), s.requests)
	operation, a := s.carryOut(now, action, form)
	s.recorder.add(RecentCall{
		Time: now, Action: cmp.Or(action, "(none)"), RequestID: requestID, Parameters: flat(form), Code: a.code(), UserAgent: userAgent,
	}, operation.IsMutating)
	return requestID, a
}

func (s *Simulator) carryOut(now time.Time, action string, form url.Values) (ec2.Operation, answer) {
	operation, known := s.operations[action]
	switch {
	case action == "":
		return operation, answer{err: refusal(http.StatusBadRequest, "MissingAction", "The request must contain the parameter Action")}
	case !known:
		return operation, answer{err: refusal(http.StatusBadRequest, "InvalidAction",
			fmt.Sprintf("awssim does not model the action %s of EC2", action))}
	case form.Get("Version") != ec2Version:
		return operation, answer{err: refusal(http.StatusBadRequest, "NoSuchVersion",
			fmt.Sprintf("awssim models version %s of the EC2 API, not %q", ec2Version, form.Get("Version")))}
	}
	input := operation.NewInput()
	if err := query.Decode(form, input); err != nil {
		return operation, answer{err: decodeError(action, err)}
	}
	return operation, s.throughFaults(now, operation, input, form)
}

// throughFaults throttles, lets faults interfere, and does what was asked.
func (s *Simulator) throughFaults(now time.Time, operation ec2.Operation, input any, form url.Values) answer {
	resources := values(form)
	draw := func(kind fault.Kind) (fault.Fault, bool) {
		return s.faults.Draw(kind, now, operation.Name, resources...)
	}

	if f, strikes := draw(fault.Hang); strikes {
		return answer{lost: codeLostRequest, wait: cmp.Or(f.Delay, time.Minute)}
	}
	if _, strikes := draw(fault.LoseRequest); strikes {
		return answer{lost: codeLostRequest}
	}
	if _, strikes := draw(fault.Throttle); strikes || !s.throttle.allows(now, operation.Name, input) {
		return answer{err: refusal(http.StatusServiceUnavailable, codeThrottled, "Request limit exceeded.")}
	}
	if f, strikes := draw(fault.Error); strikes {
		return answer{err: refusal(cmp.Or(f.Status, http.StatusInternalServerError), cmp.Or(f.Code, "InternalError"),
			cmp.Or(f.Message, "An internal error has occurred"))}
	}
	a := s.do(now, operation, input)
	if _, strikes := draw(fault.LoseReply); strikes {
		a.lost = codeLostReply
	}
	if f, strikes := draw(fault.Delay); strikes {
		a.wait = f.Delay
	}
	return a
}

func (s *Simulator) do(now time.Time, operation ec2.Operation, input any) answer {
	output, err := operation.Do(s.model, ec2.Call{Now: now}, input)
	if err == nil {
		return answer{output: output}
	}
	if refused, ok := errors.AsType[*ec2.Error](err); ok {
		return answer{err: refused}
	}
	return answer{err: refusal(http.StatusInternalServerError, "InternalError", err.Error())}
}

func refusal(status int, code, message string) *ec2.Error {
	return &ec2.Error{Code: code, Message: message, Status: status}
}

func decodeError(action string, err error) *ec2.Error {
	if unknown, ok := errors.AsType[*query.UnknownParameterError](err); ok {
		return refusal(http.StatusBadRequest, "UnknownParameter",
			fmt.Sprintf("The parameter %s is not recognized: EC2 does not have it in %s, or awssim does not model it", unknown.Parameter, action))
	}
	return refusal(http.StatusBadRequest, "InvalidParameterValue", err.Error())
}

// flat is the parameters of a call, for the ring of recent calls.
func flat(form url.Values) map[string]string {
	parameters := map[string]string{}
	for name := range form {
		if name != "Action" && name != "Version" {
			parameters[name] = form.Get(name)
		}
	}
	return parameters
}

// values is everything that a call says, among it the IDs that it names.
func values(form url.Values) []string {
	var all []string
	for _, given := range form {
		all = append(all, given...)
	}
	slices.Sort(all)
	return all
}

func (s *Simulator) writeOutput(w http.ResponseWriter, action, requestID string, output any) {
	var body bytes.Buffer
	fmt.Fprintf(&body, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<%sResponse xmlns="%s"><requestId>%s</requestId>`,
		action, ec2Namespace, requestID)
	s.encoder.Encode(&body, output)
	fmt.Fprintf(&body, "</%sResponse>", action)
	writeXML(w, http.StatusOK, body.Bytes())
}

func (s *Simulator) writeError(w http.ResponseWriter, requestID string, err *ec2.Error) {
	var body bytes.Buffer
	body.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Response><Errors><Error><Code>")
	writeText(&body, err.Code)
	body.WriteString("</Code><Message>")
	writeText(&body, err.Message)
	fmt.Fprintf(&body, "</Message></Error></Errors><RequestID>%s</RequestID></Response>", requestID)
	writeXML(w, err.Status, body.Bytes())
}

func writeText(body *bytes.Buffer, text string) {
	// EscapeText fails only when its writer does, and a buffer does not.
	_ = xml.EscapeText(body, []byte(text))
}

func writeXML(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(status)
	// A client that has gone away is no concern of ours.
	_, _ = w.Write(body)
}
