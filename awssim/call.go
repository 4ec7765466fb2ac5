// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/iam"
)

// request is a call, read from HTTP.
type request struct {
	action string
	// decode reads the parameters into the input of the operation.
	decode func(input any) *apierror.Error
	// parameters are those of the call as text, and resources the names that are among them.
	parameters map[string]string
	resources  []string
	userAgent  string
	// caller is the access key that the call is signed with. A function of Lambda has one for each environment.
	caller string
	// problem is set when the request could not be read.
	problem *apierror.Error
}

// answer is the result of a call.
type answer struct {
	output any
	err    *apierror.Error
	// lost is the reason why the client gets no answer; empty if it gets one.
	lost string
	// wrong is sent instead of the answer, if set.
	wrong fault.Reply
	// wait is how long the answer, or the loss of it, is held back.
	wait time.Duration
	// again makes another attempt at a long poll, until its time limit.
	again func() (output any, isDone bool)
	until time.Time
}

func (a answer) code() string {
	switch {
	case a.lost != "":
		return a.lost
	case a.wrong != "":
		return codeWrongReply
	case a.err != nil:
		return a.err.Code
	default:
		return ""
	}
}

// serveCall answers one call of a service.
func (s *Simulator) serveCall(w http.ResponseWriter, r *http.Request, of service) {
	call := of.protocol.read(r)
	call.caller, call.userAgent = accessKey(r), r.UserAgent()
	if call.problem == nil {
		call.problem = otherRegion(of, r, s.options.World.Region)
	}
	half := s.latency(of, call.action) / 2
	if half > 0 && s.clock.Sleep(r.Context(), half) != nil {
		return
	}
	requestID, a := s.answer(of, call)
	a.wait += half
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "call", slog.String("action", call.action), slog.String("code", a.code()),
		slog.String("requestId", requestID), slog.String("userAgent", call.userAgent))
	if a.again != nil {
		// A client that has closed the connection does not need the answer.
		if err := s.poll(r.Context(), &a); err != nil {
			return
		}
	}
	if a.wait > 0 {
		if err := s.clock.Sleep(r.Context(), a.wait); err != nil {
			return
		}
	}
	switch {
	case a.lost != "":
		panic(http.ErrAbortHandler) // net/http's way to close the connection without an answer
	case a.wrong != "":
		of.writeWrong(w, call.action, requestID, a)
	case a.err != nil:
		of.protocol.writeError(w, requestID, a.err)
	default:
		of.protocol.writeOutput(w, call.action, requestID, addressed(a.output, r))
	}
}

// addressed replaces the address in an answer with the one that the request was sent to.
func addressed(output any, r *http.Request) any {
	if located, ok := output.(interface{ At(endpoint string) any }); ok {
		return located.At(cmp.Or(r.URL.Scheme, "http") + "://" + cmp.Or(r.Host, r.URL.Host))
	}
	return output
}

// latency draws how long a call takes; 0 for those of services other than EC2.
func (s *Simulator) latency(of service, action string) time.Duration {
	latency, known := s.options.Behavior.Calls[action]
	if !known || of.name != serviceEC2 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return latency.Draw(s.random)
}

// signer is where a signature names its access key, and after the date the region and the service.
var signer = regexp.MustCompile(`Credential=([^/]+)/[^/]*/([^/]*)/([^/]+)/`)

// scope is what a signature is for.
type scope struct{ key, region, service string }

// scopeOf returns the scope of a call's signature; the zero value without one.
func scopeOf(r *http.Request) scope {
	if found := signer.FindStringSubmatch(r.Header.Get("Authorization")); found != nil {
		return scope{found[1], found[2], found[3]}
	}
	return scope{}
}

func accessKey(r *http.Request) string { return scopeOf(r).key }

func signedService(r *http.Request) string { return scopeOf(r).service }

// stsRegion is the region for which clients sign calls to the global endpoint of STS.
const stsRegion = "us-east-1"

// otherRegion refuses a call that is signed for another region than the world's; nil for the world's and without a
// signature. The codes are those with which AWS refuses a signature for another region than that of the endpoint.
func otherRegion(of service, r *http.Request, region string) *apierror.Error {
	signed := scopeOf(r).region
	if signed == "" || signed == region || of.name == serviceSTS && signed == stsRegion {
		return nil
	}
	status, code := http.StatusForbidden, "SignatureDoesNotMatch"
	switch of.protocol.(type) {
	case *ec2Protocol:
		status, code = http.StatusUnauthorized, "AuthFailure"
	case jsonProtocol:
		status, code = http.StatusBadRequest, "InvalidSignatureException"
	}
	return refusal(status, code, fmt.Sprintf("the request is signed for the region %[1]s, and this simulated AWS has "+
		"only the region %[2]s: set the client's region to %[2]s (AWS_REGION=%[2]s), or change the region of the world",
		signed, region))
}

// answer computes the answer of a call, and counts the call.
func (s *Simulator) answer(of service, call request) (requestID string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellPollers()
	now := s.clock.Now()
	s.requests++
	requestID = fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.options.Seed), s.requests)
	operation := of.operations[call.action]
	a = s.carryOut(now, of, operation, call)
	s.recorder.add(RecentCall{
		Time: now, Action: cmp.Or(call.action, "(none)"), RequestID: requestID, Parameters: call.parameters,
		Code: a.code(), UserAgent: call.userAgent,
	}, of.sort(operation))
	return requestID, a
}

// carryOut reads the parameters and executes the call, unless a fault prevents it.
func (s *Simulator) carryOut(now time.Time, of service, operation operation, call request) answer {
	switch {
	case call.problem != nil:
		return answer{err: call.problem}
	case call.action == "":
		return answer{err: refusal(http.StatusBadRequest, "MissingAction", "The request must contain the parameter Action")}
	case operation.do == nil:
		return answer{err: refusal(http.StatusBadRequest, "InvalidAction",
			fmt.Sprintf("awssim does not model the action %s of %s", call.action, of.name))}
	}
	input := operation.newInput()
	if err := call.decode(input); err != nil {
		return answer{err: err}
	}
	if of.name == serviceEC2 && !s.allows(call.caller, s.account.ec2.Requests(call.action, input)) {
		return answer{err: refusal(http.StatusForbidden,
			"UnauthorizedOperation", "You are not authorized to perform this operation.")}
	}
	return s.throughFaults(now, of, operation, input, call)
}

// allows decides by the caller's policy. Its access key is the name of its session as well: that of a role on an
// instance has the instance's ID.
func (s *Simulator) allows(caller string, requests []iam.Request) bool {
	policy := s.options.Policies[caller]
	if policy == nil {
		return true
	}
	for _, r := range requests {
		r.Context["aws:userid"] = []string{"AROASIMULATED:" + caller}
	}
	return policy.Allows(requests...)
}

// throughFaults applies throttling and faults, and executes the call.
func (s *Simulator) throughFaults(now time.Time, of service, operation operation, input any, call request) answer {
	draw := func(kind fault.Kind) (fault.Fault, bool) {
		return s.account.faults.Draw(kind, now, operation.name, call.resources...)
	}
	isFunction := s.account.lambda.IsAlive(call.caller)
	kill := func(kind fault.Kind) bool {
		if !isFunction {
			return false
		}
		_, strikes := draw(kind)
		return strikes && s.account.lambda.Kill(call.caller)
	}

	if s.account.lambda.IsKilled(call.caller) || kill(fault.KillBefore) {
		return answer{lost: codeLostRequest}
	}
	if f, strikes := draw(fault.Hang); strikes {
		return answer{lost: codeLostRequest, wait: cmp.Or(f.Delay, time.Minute)}
	}
	if _, strikes := draw(fault.LoseRequest); strikes {
		return answer{lost: codeLostRequest}
	}
	if _, strikes := draw(fault.Throttle); strikes || !s.throttle.allows(now, operation.name, input) {
		throttled := of.throttled
		return answer{err: &throttled}
	}
	if f, strikes := draw(fault.Error); strikes {
		return answer{err: refusal(cmp.Or(f.Status, http.StatusInternalServerError), cmp.Or(f.Code, "InternalError"),
			cmp.Or(f.Message, "An internal error has occurred"))}
	}
	return s.throughLateFaults(now, operation, input, draw, kill)
}

// throughLateFaults executes the call, and applies faults to the answer.
func (s *Simulator) throughLateFaults(
	now time.Time, operation operation, input any, draw func(fault.Kind) (fault.Fault, bool), kill func(fault.Kind) bool,
) answer {
	wrong, strikes := draw(fault.WrongReply)
	if strikes && wrong.Skip {
		return answer{wrong: wrong.Reply, output: struct{}{}}
	}
	a := s.do(now, operation, input)
	if strikes {
		a.wrong, a.again = wrong.Reply, nil
	}
	if _, strikes := draw(fault.LoseReply); strikes || kill(fault.KillAfter) {
		a.lost = codeLostReply
	}
	if f, strikes := draw(fault.Delay); strikes {
		a.wait = f.Delay
	}
	return a
}

func (s *Simulator) do(now time.Time, operation operation, input any) answer {
	output, err := operation.do(s.account, now, input)
	if err != nil {
		return answer{err: refusalOf(err)}
	}
	a := answer{output: output}
	if operation.longPoll == nil || operation.isDone(output) {
		return a
	}
	if patience := operation.longPoll(s.account, input); patience > 0 {
		a.until = now.Add(patience)
		a.again = func() (any, bool) {
			output, err := operation.do(s.account, s.clock.Now(), input)
			if err != nil {
				return a.output, true // the resource of the long poll was deleted
			}
			return output, operation.isDone(output)
		}
	}
	return a
}

func refusal(status int, code, message string) *apierror.Error {
	return &apierror.Error{Code: code, Message: message, Status: status}
}
