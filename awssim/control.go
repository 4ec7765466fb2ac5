// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/lambda"
	"github.com/multieni/multieni/awssim/sqs"
)

const controlHelp = `awssim: EC2, Auto Scaling, EventBridge, SQS and parameters of Systems Manager at /, functions of Lambda,
and about the simulation itself:

GET    /_sim/state                  everything that is true, whether describe calls show it already or not
GET    /_sim/calls                  calls per action: count, throttled, dry runs, errors by code, first and last time
POST   /_sim/calls/reset            count from zero
GET    /_sim/calls/recent           the last 1,000 calls with parameters, oldest first
POST   /_sim/instances              launch: {"instanceType":"m5.xlarge","availabilityZone":"us-east-1a","count":2,
                                    "name":"node","tags":{},"subnetId":"","securityGroupIds":[],"cni":{"warmENIs":1}}
DELETE /_sim/instances/{id}         terminate; POST …/stop and …/start also work
GET    /_sim/faults                 the faults in force, and how often each has struck
POST   /_sim/faults                 {"kind":"throttle","action":"AttachNetworkInterface","probability":0.5,
                                    "duration":"30s"}
                                    {"kind":"wrongReply","reply":"html","action":"CreateNetworkInterface","count":1}:
                                    the call is carried out, or not with "skip":true, and the client gets something
                                    else: empty, html, foreign (another action's answer), cut, huge (50 MB), reset (TCP)
DELETE /_sim/faults[/{id}]          end all, or one
POST   /_sim/events                 send an event: {"source":"aws.ec2","detailType":"…","detail":{}}
POST   /_sim/functions              {"functionName":"f","command":["/path/bootstrap"],"environment":{},"timeout":60}
POST   /_sim/event-source-mappings  {"eventSourceArn":"arn:aws:sqs:…","functionName":"f","batchSize":10}
POST   /_sim/save                   write all this into the file of awssim --state; a simulator that starts with the
                                    file goes on from there
POST   /_sim/reset                  back to the world file
GET    /_sim/healthz                200 when it serves
`

// controlPlane serves /_sim/.
func (s *Simulator) controlPlane() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sim/{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, controlHelp)
	})
	mux.HandleFunc("GET /_sim/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /_sim/state", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, s.everything())
	})
	mux.HandleFunc("GET /_sim/calls", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.Calls()) })
	mux.HandleFunc("GET /_sim/calls/recent", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, s.RecentCalls())
	})
	mux.HandleFunc("POST /_sim/calls/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.ResetCalls()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /_sim/instances", s.serveLaunch)
	mux.HandleFunc("DELETE /_sim/instances/{id}", forInstance(s.Terminate))
	mux.HandleFunc("POST /_sim/instances/{id}/stop", forInstance(s.Stop))
	mux.HandleFunc("POST /_sim/instances/{id}/start", forInstance(s.Start))
	mux.HandleFunc("GET /_sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, s.Faults())
	})
	mux.HandleFunc("POST /_sim/faults", s.serveAddFault)
	mux.HandleFunc("DELETE /_sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /_sim/faults/{id}", s.serveRemoveFault)
	mux.HandleFunc("POST /_sim/events", s.servePutEvent)
	mux.HandleFunc("POST /_sim/functions", adding(s.AddFunction))
	mux.HandleFunc("POST /_sim/event-source-mappings", adding(s.AddEventSourceMapping))
	mux.HandleFunc("POST /_sim/save", func(w http.ResponseWriter, _ *http.Request) { done(w, s.SaveFile()) })
	mux.HandleFunc("POST /_sim/reset", func(w http.ResponseWriter, _ *http.Request) { done(w, s.Reset()) })
	return mux
}

// everything is the answer of GET /_sim/state.
type everything struct {
	ec2.State
	AutoScalingGroups []autoscaling.GroupState `json:"autoScalingGroups,omitempty"`
	Queues            []sqs.State              `json:"queues,omitempty"`
	Rules             []events.Rule            `json:"rules,omitempty"`
	Deliveries        []events.Delivery        `json:"deliveries,omitempty"`
	Functions         []lambda.State           `json:"functions,omitempty"`
}

func (s *Simulator) everything() everything {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account
	return everything{a.ec2.State(s.call()), a.autoScaling.State(), a.sqs.State(), a.bus.State(), a.bus.Recent(),
		a.lambda.State()}
}

func (s *Simulator) servePutEvent(w http.ResponseWriter, r *http.Request) {
	var e events.Event
	if !read(w, r, &e) {
		return
	}
	s.PutEvent(e)
	w.WriteHeader(http.StatusNoContent)
}

// adding serves what adds something to the account.
func adding[T any](add func(T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var spec T
		if read(w, r, &spec) {
			done(w, add(spec))
		}
	}
}

func (s *Simulator) serveLaunch(w http.ResponseWriter, r *http.Request) {
	var spec ec2.WorldInstance
	if !read(w, r, &spec) {
		return
	}
	instances, err := s.Launch(spec)
	if err != nil {
		done(w, err)
		return
	}
	reply(w, http.StatusCreated, map[string]any{"instances": instances})
}

func forInstance(do func(id string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { done(w, do(r.PathValue("id"))) }
}

func (s *Simulator) serveAddFault(w http.ResponseWriter, r *http.Request) {
	var f fault.Fault
	if !read(w, r, &f) {
		return
	}
	added, err := s.AddFault(f)
	if err != nil {
		done(w, err)
		return
	}
	reply(w, http.StatusCreated, added)
}

func (s *Simulator) serveRemoveFault(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !s.RemoveFault(id) {
		reply(w, http.StatusNotFound, problem{Message: fmt.Sprintf("there is no fault %s", r.PathValue("id"))})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// problem is the body of a refusal.
type problem struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

// read decodes a request's JSON strictly; if that fails, it answers and returns false.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		reply(w, http.StatusBadRequest, problem{Message: err.Error()})
		return false
	}
	return true
}

// done answers a request without data.
func done(w http.ResponseWriter, err error) {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if refused, ok := errors.AsType[*apierror.Error](err); ok {
		reply(w, refused.Status, problem{refused.Code, refused.Message})
		return
	}
	reply(w, http.StatusBadRequest, problem{Message: err.Error()})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	// The client may have closed the connection.
	_ = encoder.Encode(body)
}
