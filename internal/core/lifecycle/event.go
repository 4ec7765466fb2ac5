// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	// Launching instances wait in an Auto Scaling launch hook.
	Launching Kind = "Launching"
	// Terminating instances wait in an Auto Scaling terminate hook.
	Terminating Kind = "Terminating"
	// Running instances reached that state, regardless of how they were launched.
	Running Kind = "Running"
	// Stopped instances are shutting down or terminated.
	Stopped Kind = "Ended"
	// Scheduled triggers a scheduled check, because events get lost.
	Scheduled Kind = "Scheduled"
	// Ignored events are well-formed and need no action.
	Ignored Kind = "Irrelevant"
)

// Event is the content of a message: the instance to read, and the hook that may wait for it.
type Event struct {
	Kind Kind
	// Why says why an event is irrelevant.
	Why        string
	InstanceID string
	// Hook is set for Launching and Terminating.
	Hook HookRef
	// Account and Region are the origin; empty if the message does not have them.
	Account, Region string
	At              time.Time
}

// HookRef names one waiting lifecycle action.
type HookRef struct {
	Group, Name string
	// Token identifies the action; without one, the instance ID does (Auto Scaling API, CompleteLifecycleAction).
	Token string
}

// MalformedError means that a message has none of the known forms. A retry does not help.
type MalformedError struct{ Cause error }

// Error implements error.
func (e *MalformedError) Error() string {
	return "the message is no lifecycle event to handle: " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.Cause }

func malformed(format string, arguments ...any) error {
	return &MalformedError{fmt.Errorf(format, arguments...)}
}

// message has the fields that distinguish the forms of events.
type message struct {
	// EventBridge.
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Account    string          `json:"account"`
	Region     string          `json:"region"`
	Time       time.Time       `json:"time"`
	Detail     json.RawMessage `json:"detail"`
	// SNS.
	Type    string `json:"Type"`
	Message string `json:"Message"`
	// Auto Scaling's own notification.
	LifecycleTransition string `json:"LifecycleTransition"`
	Event               string `json:"Event"`
}

// hookDetail has the data of a hook, in the detail of an EventBridge event and in Auto Scaling's own notifications.
type hookDetail struct {
	LifecycleActionToken string
	AutoScalingGroupName string
	LifecycleHookName    string
	EC2InstanceID        string `json:"EC2InstanceId"`
	LifecycleTransition  string
	AccountID            string `json:"AccountId"`
	Time                 time.Time
}

// stateDetail is the detail of an EC2 state change.
type stateDetail struct {
	InstanceID string `json:"instance-id"`
	State      string `json:"state"`
}

const (
	launchTransition    = "autoscaling:EC2_INSTANCE_LAUNCHING"
	terminateTransition = "autoscaling:EC2_INSTANCE_TERMINATING"
	testNotification    = "autoscaling:TEST_NOTIFICATION"
)

// Decode reads a message in any of the forms in which lifecycle events arrive: an EventBridge event, Auto Scaling's
// own hook notification, its test notification, and each of them wrapped by SNS. Its error is a [MalformedError].
func Decode(body []byte) (Event, error) {
	m, err := parse(body)
	if err != nil {
		return Event{}, err
	}
	if m.Type == "Notification" && m.Message != "" {
		body = []byte(m.Message)
		if m, err = parse(body); err != nil {
			return Event{}, err
		}
	}
	switch {
	case m.Event == testNotification:
		return Event{Kind: Ignored, Why: "Auto Scaling tests whether notifications arrive"}, nil
	case m.LifecycleTransition != "":
		return hookEvent(body, message{})
	case m.Source == "aws.autoscaling":
		return autoScalingEvent(m)
	case m.Source == "aws.ec2" && m.DetailType == "EC2 Instance State-change Notification":
		return stateEvent(m)
	case m.Source == "aws.events" && m.DetailType == "Scheduled Event":
		return Event{Kind: Scheduled, Account: m.Account, Region: m.Region, At: m.Time}, nil
	case m.DetailType != "":
		return Event{Kind: Ignored, Why: fmt.Sprintf("%q of %q concerns no instance's life", m.DetailType, m.Source)}, nil
	default:
		return Event{}, malformed("it has neither detail-type, LifecycleTransition nor Event")
	}
}

func parse(body []byte) (message, error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return m, &MalformedError{err}
	}
	return m, nil
}

func autoScalingEvent(m message) (Event, error) {
	switch m.DetailType {
	case "EC2 Instance-launch Lifecycle Action", "EC2 Instance-terminate Lifecycle Action":
		return hookEvent(m.Detail, m)
	default:
		return Event{Kind: Ignored, Why: fmt.Sprintf("%q is not a lifecycle action", m.DetailType)}, nil
	}
}

func hookEvent(detail []byte, envelope message) (Event, error) {
	var d hookDetail
	if err := json.Unmarshal(detail, &d); err != nil {
		return Event{}, &MalformedError{err}
	}
	e := Event{
		InstanceID: d.EC2InstanceID,
		Hook:       HookRef{Group: d.AutoScalingGroupName, Name: d.LifecycleHookName, Token: d.LifecycleActionToken},
		Account:    envelope.Account, Region: envelope.Region, At: envelope.Time,
	}
	if envelope.Source == "" {
		e.Account, e.At = d.AccountID, d.Time
	}
	switch d.LifecycleTransition {
	case launchTransition:
		e.Kind = Launching
	case terminateTransition:
		e.Kind = Terminating
	default:
		return Event{Kind: Ignored, Why: fmt.Sprintf("%q is neither a launch nor a termination", d.LifecycleTransition)}, nil
	}
	if e.Hook.Group == "" || e.Hook.Name == "" {
		return Event{}, malformed("a lifecycle action without AutoScalingGroupName or LifecycleHookName")
	}
	return e.checked()
}

func stateEvent(m message) (Event, error) {
	var d stateDetail
	if err := json.Unmarshal(m.Detail, &d); err != nil {
		return Event{}, &MalformedError{err}
	}
	e := Event{InstanceID: d.InstanceID, Account: m.Account, Region: m.Region, At: m.Time}
	switch d.State {
	case "running":
		e.Kind = Running
	case "shutting-down", "terminated":
		e.Kind = Stopped
	default:
		return Event{Kind: Ignored, Why: fmt.Sprintf("nothing is to be done for an instance that is %s", d.State)}, nil
	}
	return e.checked()
}

// CheckPlace refuses an event of an account or region other than the given ones; an empty one matches any. Its error is
// a [MalformedError].
func (e Event) CheckPlace(account, region string) error {
	if account != "" && e.Account != "" && e.Account != account {
		return malformed("it is of account %s, and this handler of account %s: correct the rule or the queue "+
			"it comes from", e.Account, account)
	}
	if region != "" && e.Region != "" && e.Region != region {
		return malformed("it is of region %s, and this handler of region %s: correct the rule or the queue "+
			"it comes from", e.Region, region)
	}
	return nil
}

// instanceID matches the IDs of instances (EC2 user guide, "Resource IDs").
var instanceID = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

// checked refuses an event that names no instance.
func (e Event) checked() (Event, error) {
	if !instanceID.MatchString(e.InstanceID) {
		return Event{}, malformed("%q is not an instance ID", e.InstanceID)
	}
	return e, nil
}
