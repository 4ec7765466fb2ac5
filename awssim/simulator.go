// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/iam"
	"github.com/multieni/multieni/awssim/imds"
	"github.com/multieni/multieni/awssim/sqs"
)

// Options are the initial state and the settings of a simulator.
type Options struct {
	// World is the initial state of the account; see [ExampleWorld] and [LoadWorld].
	World World
	// State is a saved account that the simulator goes on from. World and Seed are then those of the state; its
	// [SavedState.Clock] goes on from the saved time.
	State *SavedState
	// StateFile is the file that POST /_sim/save writes; empty means that it is refused.
	StateFile string
	// Clock is the time; nil means [RealClock].
	Clock Clock
	// Behavior has the durations and switches of EC2; nil means [ec2.DefaultBehavior]. The zero ec2.Behavior takes no time
	// at all, which suits most tests.
	Behavior *ec2.Behavior
	// ServiceBehavior is the same for the services around EC2; nil means [DefaultServiceBehavior], and the zero value
	// again takes no time.
	ServiceBehavior *ServiceBehavior
	// Limits are the token buckets by action; nil means [DocumentedLimits]. An empty map means no throttling.
	Limits map[string]Bucket
	// Policies are the permissions of principals in EC2, by access key ID. A principal without a policy may do
	// everything. Signatures are not checked.
	Policies map[string]*iam.Policy
	// Seed of everything random. The same seed, world and calls give the same IDs, latencies and faults.
	Seed uint64
	// FunctionOutput receives the output of the programs of functions; nil discards it.
	FunctionOutput io.Writer
	// Logger gets a line per call, at debug level; nil means none.
	Logger *slog.Logger
}

// callStream is the stream of random numbers for the latencies of calls: other latencies do not depend on them.
const callStream = 0xca11

// Simulator is an account in a region. It is an http.Handler that speaks AWS's protocols, and under /_sim/ its own.
// All methods are safe for concurrent use.
type Simulator struct {
	options  Options
	clock    Clock
	log      *slog.Logger
	services services
	control  http.Handler
	runtime  http.Handler
	tokens   imds.Tokens
	// haveFunctions is closed when the first function exists, so that no goroutine looks for invocations before.
	haveFunctions chan struct{}
	firstFunction sync.Once

	mu       sync.Mutex // guards what follows
	account  *account
	throttle *throttle
	recorder *recorder
	requests uint64
	source   *rand.PCG
	random   *rand.Rand      // of the latencies of calls; draws from source
	changed  context.Context // ends at a change; nil while no client waits for one
	wake     context.CancelFunc
}

// New returns a simulator. Its error has all problems of the world.
func New(o Options) (*Simulator, error) {
	s := &Simulator{options: o.withDefaults(), log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		services: newServices(), haveFunctions: make(chan struct{})}
	s.clock = s.options.Clock
	state := s.options.State
	if state != nil {
		s.options.World, s.options.Seed = state.World, state.Seed
	}
	s.control, s.runtime = s.controlPlane(), s.runtimeAPI()
	if err := s.Reset(); err != nil {
		return nil, err
	}
	if s.options.State = nil; state != nil {
		return s, s.load(state)
	}
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = RealClock()
	}
	if o.Behavior == nil {
		behavior := ec2.DefaultBehavior()
		o.Behavior = &behavior
	}
	if o.ServiceBehavior == nil {
		behavior := DefaultServiceBehavior()
		o.ServiceBehavior = &behavior
	}
	if o.Limits == nil {
		o.Limits = DocumentedLimits()
	}
	return o
}

// Reset restores the initial world: all resources, buckets, counts and faults start again.
func (s *Simulator) Reset() error {
	now := s.clock.Now()
	account, err := newAccount(s.options, now)
	if err != nil {
		return fmt.Errorf("simulate AWS: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account = account
	s.source = rand.NewPCG(s.options.Seed, callStream)
	s.random = rand.New(s.source)
	s.throttle = newThrottle(s.options.Limits, *s.options.Behavior)
	s.recorder = newRecorder(now)
	if len(s.account.lambda.FunctionNames()) > 0 {
		s.noteFunctions()
	}
	s.tellPollers()
	return nil
}

// State returns the current state.
func (s *Simulator) State() ec2.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.ec2.State(s.call())
}

// StateAfter waits until the state has another revision than the given one, and returns it. Its error is the context's.
func (s *Simulator) StateAfter(ctx context.Context, revision uint64) (ec2.State, error) {
	var state ec2.State
	err := s.await(ctx, time.Time{}, func() bool {
		if s.account.ec2.Revision(s.call()) == revision {
			return false
		}
		state = s.account.ec2.State(s.call())
		return true
	})
	return state, err
}

// Shown returns an interface as describe calls show it now, or nil if they show none, without counting or throttling a
// call.
func (s *Simulator) Shown(networkInterfaceID string) *ec2.NetworkInterface {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.ec2.Shown(s.call(), networkInterfaceID)
}

// AutoScalingGroups returns all groups by name, with their instances, hooks and what these did.
func (s *Simulator) AutoScalingGroups() []autoscaling.GroupState {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.advance(s.clock.Now())
	return s.account.autoScaling.State()
}

// Queues returns all queues by name, with their messages.
func (s *Simulator) Queues() []sqs.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.advance(s.clock.Now())
	return s.account.sqs.State()
}

// Deliveries returns what EventBridge last sent to targets, up to 1,000, oldest first.
func (s *Simulator) Deliveries() []events.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.advance(s.clock.Now())
	return s.account.bus.Recent()
}

// PutEvent sends an event through EventBridge, also with a source of AWS.
func (s *Simulator) PutEvent(e events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.advance(s.clock.Now())
	s.account.put(e)
	s.tellPollers()
}

// Calls returns the counts of calls since the beginning, or since ResetCalls.
func (s *Simulator) Calls() Calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recorder.calls()
}

// ResetCalls sets all counts to zero.
func (s *Simulator) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorder = newRecorder(s.clock.Now())
}

// RecentCalls returns the last calls, up to 1,000, oldest first.
func (s *Simulator) RecentCalls() []RecentCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recorder.last()
}

// Launch creates instances, without counting or throttling a call.
func (s *Simulator) Launch(spec ec2.WorldInstance) ([]*ec2.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellPollers()
	return s.account.ec2.Launch(s.call(), spec)
}

// Terminate begins to terminate an instance, without counting or throttling a call.
func (s *Simulator) Terminate(instanceID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellPollers()
	_, err := s.account.ec2.TerminateInstances(s.call(), &ec2.InstancesInput{InstanceIDs: []string{instanceID}})
	return err
}

// Stop begins to stop an instance, without counting or throttling a call.
func (s *Simulator) Stop(instanceID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellPollers()
	_, err := s.account.ec2.StopInstances(s.call(),
		&ec2.StopInstancesInput{InstancesInput: ec2.InstancesInput{InstanceIDs: []string{instanceID}}})
	return err
}

// Start begins to start a stopped instance, without counting or throttling a call.
func (s *Simulator) Start(instanceID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellPollers()
	_, err := s.account.ec2.StartInstances(s.call(), &ec2.InstancesInput{InstanceIDs: []string{instanceID}})
	return err
}

// AddFault puts a fault in force and returns it with its ID.
func (s *Simulator) AddFault(f fault.Fault) (fault.Fault, error) {
	if f.Action != "" && f.Action != actionMetadata && f.Action != events.ActionDeliver && !s.services.models(f.Action) {
		return fault.Fault{}, fmt.Errorf("fault %s: awssim does not model the action %q", f.Kind, f.Action)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.faults.Add(f, s.clock.Now())
}

// RemoveFault ends a fault, and reports whether the ID existed.
func (s *Simulator) RemoveFault(id int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.faults.Remove(id)
}

// ClearFaults ends all faults.
func (s *Simulator) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.faults.Clear()
}

// Faults returns the faults in force, with how often each has struck.
func (s *Simulator) Faults() []fault.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.faults.List(s.clock.Now())
}

// ServeHTTP answers AWS calls at /, the simulator's own ones under /_sim/, and requests of functions for work under
// /_lambda/. Package imds has the paths of the instances' metadata services.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if service, ok := s.metadataRequest(r); ok {
		service.ServeHTTP(w, r)
		return
	}
	switch {
	case r.URL.Path == "/":
		s.serveCall(w, r, s.services.of(r))
	case strings.HasPrefix(r.URL.Path, "/_lambda/"):
		s.runtime.ServeHTTP(w, r)
	case !strings.HasPrefix(r.URL.Path, "/_sim") && signedService(r) != "":
		s.serveCall(w, r, unmodelledService(r))
	default:
		s.control.ServeHTTP(w, r)
	}
}

func (s *Simulator) call() ec2.Call { return ec2.Call{Now: s.clock.Now()} }
