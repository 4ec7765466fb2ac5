// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/lifecycle"
)

// hook is Auto Scaling's own notification of a transition, with further fields.
func hook(transition, fields string) string {
	return `{"LifecycleTransition": "autoscaling:` + transition + `", "EC2InstanceId": "i-12345678"` + fields + `}`
}

// fromBridge is an event of EventBridge.
func fromBridge(source, detailType, detail string) string {
	return `{"source": "` + source + `", "detail-type": "` + detailType + `", "account": "123456789012",
	  "region": "us-west-2",
	  "time": "2026-01-02T03:04:05Z", "detail": ` + detail + `}`
}

// TestWhyAnEventIsIgnored compares the reasons that the log has for events without work, so that a user finds a rule
// that matches too much.
func TestWhyAnEventIsIgnored(t *testing.T) {
	const group = `, "AutoScalingGroupName": "g", "LifecycleHookName": "h"`
	for name, tc := range map[string]struct{ body, want string }{
		"a test of Auto Scaling": {testNotification, "Auto Scaling tests whether notifications arrive"},
		"a stopping instance": {
			stateChange("stopping"), "nothing is to be done for an instance that is stopping",
		},
		"a hook of another transition": {
			hook("EC2_INSTANCE_REFRESH", group), `"autoscaling:EC2_INSTANCE_REFRESH" is neither a launch nor a termination`,
		},
		"the same as an event": {
			fromBridge("aws.autoscaling", "EC2 Instance-launch Lifecycle Action", hook("X", group)),
			`"autoscaling:X" is neither a launch nor a termination`,
		},
		"a launch without a hook": {
			fromBridge("aws.autoscaling", "EC2 Instance Launch Successful", "{}"),
			`"EC2 Instance Launch Successful" is not a lifecycle action`,
		},
		"another event of EC2": {
			fromBridge("aws.ec2", "EC2 Spot Instance Interruption Warning", "{}"),
			`"EC2 Spot Instance Interruption Warning" of "aws.ec2" concerns no instance's life`,
		},
		"another event of EventBridge": {
			fromBridge("aws.events", "Put Events", "{}"), `"Put Events" of "aws.events" concerns no instance's life`,
		},
		"a state change of another service": {
			fromBridge("my.app", "EC2 Instance State-change Notification", `{"instance-id": "i-12345678", "state": "running"}`),
			`"EC2 Instance State-change Notification" of "my.app" concerns no instance's life`,
		},
		"a schedule of another service": {
			fromBridge("my.app", "Scheduled Event", "{}"), `"Scheduled Event" of "my.app" concerns no instance's life`,
		},
		"a lifecycle action of another service": {
			fromBridge("my.app", "EC2 Instance-launch Lifecycle Action", hook("EC2_INSTANCE_LAUNCHING", group)),
			`"EC2 Instance-launch Lifecycle Action" of "my.app" concerns no instance's life`,
		},
		"a notification with no type of a topic": {
			`{"Message": "{}", "detail-type": "x", "source": "y"}`, `"x" of "y" concerns no instance's life`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lifecycle.Decode([]byte(tc.body))
			if diff := cmp.Diff(lifecycle.Event{Kind: lifecycle.Ignored, Why: tc.want}, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestPlaceOfAnEvent compares events whose account, region and time come from different parts of a message.
func TestPlaceOfAnEvent(t *testing.T) {
	const group = `, "AutoScalingGroupName": "g", "LifecycleHookName": "h"`
	const own = group + `, "AccountId": "999999999999", "Time": "2020-01-01T00:00:00Z"`
	ref := lifecycle.HookRef{Group: "g", Name: "h"}
	launching := lifecycle.Event{Kind: lifecycle.Launching, InstanceID: "i-12345678", Hook: ref}
	placed := launching
	placed.Account, placed.Region, placed.At = "123456789012", "us-west-2", happened
	terminating := placed
	terminating.Kind = lifecycle.Terminating
	for name, tc := range map[string]struct {
		body string
		want lifecycle.Event
	}{
		"a notification without a place": {hook("EC2_INSTANCE_LAUNCHING", group), launching},
		"an event, whose envelope says the place": {
			fromBridge("aws.autoscaling", "EC2 Instance-launch Lifecycle Action", hook("EC2_INSTANCE_LAUNCHING", own)), placed,
		},
		"a termination": {
			fromBridge("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", hook("EC2_INSTANCE_TERMINATING", own)),
			terminating,
		},
		"the transition counts, not the type of the event": {
			fromBridge("aws.autoscaling", "EC2 Instance-launch Lifecycle Action", hook("EC2_INSTANCE_TERMINATING", own)),
			terminating,
		},
		"a schedule": {
			fromBridge("aws.events", "Scheduled Event", "{}"),
			lifecycle.Event{Kind: lifecycle.Scheduled, Account: "123456789012", Region: "us-west-2", At: happened},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lifecycle.Decode([]byte(tc.body))
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestErrorsOfMalformedMessages compares the log messages about events for which a retry does not help.
func TestErrorsOfMalformedMessages(t *testing.T) {
	const begin = "the message is no lifecycle event to handle: "
	const names = begin + "a lifecycle action without AutoScalingGroupName or LifecycleHookName"
	state := func(id string) string {
		detail := `{"instance-id": "` + id + `", "state": "terminated"}`
		return fromBridge("aws.ec2", "EC2 Instance State-change Notification", detail)
	}
	for name, tc := range map[string]struct{ body, want string }{
		"no fields": {"{}", begin + "it has neither detail-type, LifecycleTransition nor Event"},
		"a topic without text": {
			`{"Type": "Notification"}`, begin + "it has neither detail-type, LifecycleTransition nor Event",
		},
		"a hook without names":  {hook("EC2_INSTANCE_LAUNCHING", ""), names},
		"a hook without group":  {hook("EC2_INSTANCE_LAUNCHING", `, "LifecycleHookName": "h"`), names},
		"a hook without name":   {hook("EC2_INSTANCE_TERMINATING", `, "AutoScalingGroupName": "g"`), names},
		"an ID of 9 digits":     {state("i-123456789"), begin + `"i-123456789" is not an instance ID`},
		"an ID of 18 digits":    {state("i-1234567890abcdef01"), begin + `"i-1234567890abcdef01" is not an instance ID`},
		"an ID in capitals":     {state("i-1234567A"), begin + `"i-1234567A" is not an instance ID`},
		"an ID of a volume":     {state("vol-12345678"), begin + `"vol-12345678" is not an instance ID`},
		"an ID after a space":   {state(" i-12345678"), begin + `" i-12345678" is not an instance ID`},
		"an ID before a letter": {state("i-12345678x"), begin + `"i-12345678x" is not an instance ID`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lifecycle.Decode([]byte(tc.body))
			if err == nil || err.Error() != tc.want || got != (lifecycle.Event{}) {
				t.Errorf("got %+v, %v; want %s", got, err, tc.want)
			}
		})
	}
}
