// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault describes faults of the simulator: their kind, their time, and how often they strike.
//
// A [Fault] is data: its kind, the calls that it applies to, and how often it strikes. A [Set] holds the faults in
// force; the code that can cause the damage calls [Set.Draw] at the point where it would happen. The request-handling
// kinds (throttle, error, lost requests and replies, delay) are drawn by the HTTP server for any action, the others by
// the model of their service. This package does not know what a kind does.
//
// A set is deterministic: the same seed, faults and draws give the same strikes.
package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of a fault.
type Kind string

// Kinds of every action, drawn once per request.
const (
	// Throttle answers RequestLimitExceeded although the buckets are not empty.
	Throttle Kind = "throttle"
	// Error answers Code and Status (default InternalError, 500) without executing the call.
	Error Kind = "error"
	// LoseRequest closes the connection before the call is executed.
	LoseRequest Kind = "loseRequest"
	// LoseReply executes the call, then closes the connection.
	LoseReply Kind = "loseReply"
	// Delay delays the answer by Delay after the call was executed.
	Delay Kind = "delay"
	// Hang does not execute the call, and closes the connection after Delay (default one minute).
	Hang Kind = "hang"
	// WrongReply answers with Reply, which is not the answer to the call. The call is executed, unless Skip is set.
	WrongReply Kind = "wrongReply"
)

// Reply is a reply in place of the answer. All except Reset have status 200.
type Reply string

// Replies of proxies, other servers and broken connections.
const (
	// Empty is a body without content.
	Empty Reply = "empty"
	// HTML is a web page.
	HTML Reply = "html"
	// Foreign is the answer to another action.
	Foreign Reply = "foreign"
	// Cut is only the first half of the answer.
	Cut Reply = "cut"
	// Huge begins as the answer and has 50 MB.
	Huge Reply = "huge"
	// Reset is no answer: the connection is reset (TCP RST).
	Reset Reply = "reset"
)

// Replies returns all replies.
func Replies() []Reply { return []Reply{Empty, HTML, Foreign, Cut, Huge, Reset} }

// Kinds of EC2.
const (
	// StaleRead makes a describe call return the state of Age ago. With Jitter the age is different at each call, so that
	// an answer can be older than the one before it. With Resource only that resource is stale.
	StaleRead Kind = "staleRead"
	// HideNew hides the resource that the call creates for Age: every call that names it answers NotFound.
	HideNew Kind = "hideNew"
	// StuckAttaching keeps a new attachment in "attaching" until it is detached.
	StuckAttaching Kind = "stuckAttaching"
	// NoEffect accepts ModifyNetworkInterfaceAttribute and leaves the attribute unchanged, as if another program
	// reverted it at once.
	NoEffect Kind = "noEffect"
	// StuckDetaching keeps an attachment in "detaching" until it is detached by force.
	StuckDetaching Kind = "stuckDetaching"
	// InstanceDies terminates the instance just before AttachNetworkInterface checks it.
	InstanceDies Kind = "instanceDies"
	// SubnetFull answers that the subnet (Resource) has no free address.
	SubnetFull Kind = "subnetFull"
	// Quota answers that the account has too many interfaces, even if a client token would find one.
	Quota Kind = "quota"
	// LowerLimit limits an instance (Resource) to Limit interfaces, fewer than DescribeInstanceTypes returns.
	LowerLimit Kind = "lowerLimit"
	// InvalidateNextToken refuses the next page of a describe call.
	InvalidateNextToken Kind = "invalidateNextToken"
	// CardIndexBug is a bug of EC2 of October 2025: attaching without NetworkCardIndex is refused when the device index is
	// taken on any card (cilium/cilium#42512).
	CardIndexBug Kind = "cardIndexBug"
	// ForgetToken makes a repeated call with a client token execute again.
	ForgetToken Kind = "forgetToken"
)

// Kinds of messages and events. Their action is ReceiveMessage, with the queue's name as resource, or DeliverEvent,
// with that of the EventBridge rule; LoseRequest and Delay, which takes Jitter, are for DeliverEvent too.
const (
	// Duplicate delivers a second time: a message stays visible, an event arrives twice.
	Duplicate Kind = "duplicate"
	// Reorder delivers messages out of order.
	Reorder Kind = "reorder"
)

// Kinds that kill the Lambda function that makes the call. They do not affect other processes.
const (
	// KillBefore kills it before the call is executed.
	KillBefore Kind = "killBefore"
	// KillAfter kills it after the call is executed, and before it receives the answer.
	KillAfter Kind = "killAfter"
)

// needs lists the kinds, with the field that each requires.
var needs = map[Kind]string{
	Throttle: "", Error: "", LoseRequest: "", LoseReply: "", Delay: "delay", Hang: "", WrongReply: "reply",
	StaleRead: "age", HideNew: "age", StuckAttaching: "", NoEffect: "", StuckDetaching: "", InstanceDies: "",
	SubnetFull: "", Quota: "",
	LowerLimit: "limit", InvalidateNextToken: "", CardIndexBug: "", ForgetToken: "", Duplicate: "", Reorder: "",
	KillBefore: "", KillAfter: "",
}

// MaxReadAge is the largest age of StaleRead.
const MaxReadAge = 5 * time.Minute

// Fault is a fault to inject. Times are simulated ones.
type Fault struct {
	// ID is set by [Set.Add], from 1.
	ID int `json:"id"`
	// Kind is the kind of the fault.
	Kind Kind `json:"kind"`

	// Action limits the fault to one action, such as "AttachNetworkInterface".
	Action string `json:"action,omitempty"`
	// Resource limits the fault to calls that name this ID.
	Resource string `json:"resource,omitempty"`
	// Probability is that of a strike at each chance; 0 means 1.
	Probability float64 `json:"probability,omitempty"`
	// Every n-th chance is a strike; 0 means each.
	Every int `json:"every,omitempty"`
	// Count is the number of strikes after which the fault ends; 0 means never.
	Count int `json:"count,omitempty"`
	// Duration is the time after Add at which the fault ends; 0 means never.
	Duration time.Duration `json:"-"`

	// Code, Status (HTTP) and Message are for Error.
	Code    string `json:"code,omitempty"`
	Status  int    `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	// Delay is for Delay and Hang.
	Delay time.Duration `json:"-"`
	// Age is for StaleRead and HideNew.
	Age time.Duration `json:"-"`
	// Jitter is for StaleRead, and for Delay of events: each has a random delay, up to the given one.
	Jitter bool `json:"jitter,omitempty"`
	// Limit is for LowerLimit.
	Limit int `json:"limit,omitempty"`
	// Reply and Skip are for WrongReply: the reply, and that the call is not executed.
	Reply Reply `json:"reply,omitempty"`
	Skip  bool  `json:"skip,omitempty"`

	// Chances and Strikes count what has happened so far.
	Chances int `json:"chances"`
	Strikes int `json:"strikes"`
}

// durations has the members of a fault's JSON that are written as in "1m30s".
type durations struct {
	Duration string `json:"duration,omitempty"`
	Delay    string `json:"delay,omitempty"`
	Age      string `json:"age,omitempty"`
}

// plain is a fault without its methods.
type plain Fault

// MarshalJSON writes durations as in "1m30s".
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		plain
		durations
	}{plain(f), durations{text(f.Duration), text(f.Delay), text(f.Age)}})
}

// UnmarshalJSON reads durations as in "1m30s" and refuses unknown members.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var read struct {
		plain
		durations
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("read fault: %w", err)
	}
	*f = Fault(read.plain)
	for _, d := range []struct {
		name, text string
		into       *time.Duration
	}{{"duration", read.durations.Duration, &f.Duration}, {"delay", read.durations.Delay, &f.Delay},
		{"age", read.durations.Age, &f.Age}} {
		if d.text == "" {
			continue
		}
		parsed, err := time.ParseDuration(d.text)
		if err != nil {
			return fmt.Errorf("read fault: %s: %w", d.name, err)
		}
		*d.into = parsed
	}
	return nil
}

func text(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Validate returns the problems of the fault itself.
func (f Fault) Validate() error {
	need, known := needs[f.Kind]
	has := map[string]bool{"": true, "age": f.Age > 0, "delay": f.Delay > 0, "limit": f.Limit > 0, "reply": f.Reply != ""}
	switch {
	case !known:
		return fmt.Errorf("unknown fault kind %q: use one of %s", f.Kind, strings.Join(Kinds(), ", "))
	case min(f.Every, f.Count, f.Limit) < 0 || min(f.Duration, f.Delay, f.Age) < 0:
		return fmt.Errorf("fault %s: every, count, limit, duration, delay and age cannot be negative", f.Kind)
	case !has[need]:
		return fmt.Errorf("fault %s needs %s", f.Kind, need)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("fault %s: probability %v is not between 0 and 1", f.Kind, f.Probability)
	case f.Kind == StaleRead && f.Age > MaxReadAge:
		return fmt.Errorf("fault %s: age %s is above %s, the oldest that is remembered", f.Kind, f.Age, MaxReadAge)
	case f.Reply != "" && !slices.Contains(Replies(), f.Reply):
		return fmt.Errorf("fault %s: unknown reply %q: use one of %q", f.Kind, f.Reply, Replies())
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("fault %s: status %d is not an HTTP error", f.Kind, f.Status)
	}
	return nil
}

// Kinds returns the names of all kinds, sorted.
func Kinds() []string {
	names := make([]string, 0, len(needs))
	for kind := range needs {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return names
}

// Set holds the faults in force. It is not safe for concurrent use.
type Set struct {
	source *rand.PCG
	random *rand.Rand // draws from source
	lastID int
	faults []*active
}

type active struct {
	Fault
	until time.Time // zero: without an end
}

// NewSet returns an empty set that draws from the seed.
func NewSet(seed uint64) *Set {
	source := rand.NewPCG(seed, 0xfa)
	return &Set{source: source, random: rand.New(source)}
}

// Saved is a set as it is saved.
type Saved struct {
	Random []byte       `json:"random"`
	LastID int          `json:"lastId"`
	Faults []SavedFault `json:"faults"`
}

// SavedFault is a fault as it is saved.
type SavedFault struct {
	Fault Fault     `json:"fault"`
	Until time.Time `json:"until,omitzero"` // zero: without an end
}

// Save returns the set as it is saved.
func (s *Set) Save() (Saved, error) {
	random, err := s.source.MarshalBinary()
	saved := Saved{Random: random, LastID: s.lastID, Faults: []SavedFault{}}
	for _, f := range s.faults {
		saved.Faults = append(saved.Faults, SavedFault{f.Fault, f.until})
	}
	return saved, err
}

// Load replaces the set with a saved one.
func (s *Set) Load(saved Saved) error {
	faults := make([]*active, len(saved.Faults))
	for i, f := range saved.Faults {
		if err := f.Fault.Validate(); err != nil {
			return err
		}
		faults[i] = &active{f.Fault, f.Until}
	}
	if err := s.source.UnmarshalBinary(saved.Random); err != nil {
		return fmt.Errorf("the faults' source of random numbers: %w", err)
	}
	s.lastID, s.faults = saved.LastID, faults
	return nil
}

// Add puts a fault in force from now on and returns it with its ID.
func (s *Set) Add(f Fault, now time.Time) (Fault, error) {
	if err := f.Validate(); err != nil {
		return Fault{}, err
	}
	s.lastID++
	f.ID, f.Chances, f.Strikes = s.lastID, 0, 0
	entry := &active{Fault: f}
	if f.Duration > 0 {
		entry.until = now.Add(f.Duration)
	}
	s.faults = append(s.faults, entry)
	return f, nil
}

// Remove ends a fault, and reports whether the ID existed.
func (s *Set) Remove(id int) bool {
	before := len(s.faults)
	s.faults = slices.DeleteFunc(s.faults, func(f *active) bool { return f.ID == id })
	return len(s.faults) < before
}

// Clear ends all faults.
func (s *Set) Clear() { s.faults = nil }

// List returns the faults in force, oldest first, with their counts.
func (s *Set) List(now time.Time) []Fault {
	list := []Fault{}
	for _, f := range s.faults {
		if !f.over(now) {
			list = append(list, f.Fault)
		}
	}
	return list
}

// Draw is a chance for faults of the kind to strike a call of the action that names the resources.
// It returns the first that does.
func (s *Set) Draw(kind Kind, now time.Time, action string, resources ...string) (Fault, bool) {
	for _, f := range s.faults {
		if f.Kind == kind && !f.over(now) && f.isFor(action, resources) && s.strikes(f) {
			return f.Fault, true
		}
	}
	return Fault{}, false
}

func (f *active) over(now time.Time) bool {
	return f.Count > 0 && f.Strikes >= f.Count || !f.until.IsZero() && !now.Before(f.until)
}

func (f *active) isFor(action string, resources []string) bool {
	return (f.Action == "" || f.Action == action) && (f.Resource == "" || slices.Contains(resources, f.Resource))
}

func (s *Set) strikes(f *active) bool {
	f.Chances++
	if f.Every > 0 && f.Chances%f.Every != 0 {
		return false
	}
	if f.Probability > 0 && s.random.Float64() >= f.Probability {
		return false
	}
	f.Strikes++
	return true
}
