// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/lifecycle"
)

const launchDetail = `{
  "LifecycleActionToken": "87654321-4321-4321-4321-210987654321", "AutoScalingGroupName": "multus-group",
  "LifecycleHookName": "multus-hook", "EC2InstanceId": "i-1234567890abcdef0",
  "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "NotificationMetadata": "none",
  "Origin": "EC2", "Destination": "AutoScalingGroup"}`

const launchEvent = `{
  "version": "0", "id": "12345678-1234-1234-1234-123456789012", "detail-type": "EC2 Instance-launch Lifecycle Action",
  "source": "aws.autoscaling", "account": "123456789012", "time": "2026-01-02T03:04:05Z", "region": "us-west-2",
  "resources": ["arn:aws:autoscaling:us-west-2:123456789012:autoScalingGroup:x:autoScalingGroupName/multus-group"],
  "detail": ` + launchDetail + `}`

const terminateNotification = `{
  "Service": "AWS Auto Scaling", "Time": "2026-01-02T03:04:05.000Z", "RequestId": "r-1", "AccountId": "123456789012",
  "LifecycleActionToken": "token-1", "AutoScalingGroupName": "multus-group", "LifecycleHookName": "multus-hook",
  "EC2InstanceId": "i-12345678", "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING"}`

const testNotification = `{
  "AccountId": "123456789012", "RequestId": "r-1", "Service": "AWS Auto Scaling", "Time": "2026-01-02T03:04:05.000Z",
  "AutoScalingGroupName": "multus-group", "Event": "autoscaling:TEST_NOTIFICATION"}`

func stateChange(state string) string {
	return `{"detail-type": "EC2 Instance State-change Notification", "source": "aws.ec2", "account": "123456789012",
	  "time": "2026-01-02T03:04:05Z", "region": "us-west-2", "detail": {"instance-id": "i-1234567890abcdef0", "state": "` + state + `"}}`
}

// inTopic wraps a message like a topic without raw message delivery.
func inTopic(message string) string {
	text, _ := json.Marshal(message)
	return `{"Type": "Notification", "MessageId": "m-1", "TopicArn": "arn:aws:sns:us-west-2:123456789012:t", "Message": ` + string(text) + `}`
}

var happened = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func launching() lifecycle.Event {
	return lifecycle.Event{
		Kind: lifecycle.Launching, InstanceID: "i-1234567890abcdef0", Account: "123456789012", Region: "us-west-2", At: happened,
		Hook: lifecycle.HookRef{Group: "multus-group", Name: "multus-hook", Token: "87654321-4321-4321-4321-210987654321"},
	}
}

func TestDecode(t *testing.T) {
	terminating := lifecycle.Event{
		Kind: lifecycle.Terminating, InstanceID: "i-12345678", Account: "123456789012", At: happened,
		Hook: lifecycle.HookRef{Group: "multus-group", Name: "multus-hook", Token: "token-1"},
	}
	running := lifecycle.Event{Kind: lifecycle.Running, InstanceID: "i-1234567890abcdef0", Account: "123456789012", Region: "us-west-2", At: happened}
	ended := running
	ended.Kind = lifecycle.Stopped
	for name, tc := range map[string]struct {
		body string
		want lifecycle.Event
	}{
		"an EventBridge event":                       {launchEvent, launching()},
		"the same through a topic":                   {inTopic(launchEvent), launching()},
		"Auto Scaling's own notification":            {terminateNotification, terminating},
		"the same through a topic to a queue":        {inTopic(terminateNotification), terminating},
		"an instance that runs, whoever launched it": {stateChange("running"), running},
		"a schedule":                     {`{"detail-type": "Scheduled Event", "source": "aws.events", "time": "2026-01-02T03:04:05Z", "detail": {}}`, lifecycle.Event{Kind: lifecycle.Scheduled, At: happened}},
		"an instance that shuts down":    {stateChange("shutting-down"), ended},
		"an instance that is terminated": {stateChange("terminated"), ended},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lifecycle.Decode([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEventsThatAskForNothingAreNoErrors(t *testing.T) {
	for name, body := range map[string]string{
		"a test notification":              testNotification,
		"the same through a topic":         inTopic(testNotification),
		"a stopped instance can come back": stateChange("stopped"),
		"a pending instance is too early":  stateChange("pending"),
		"another event of Auto Scaling":    `{"detail-type": "EC2 Instance Launch Successful", "source": "aws.autoscaling", "detail": {}}`,
		"an event of another service":      `{"detail-type": "Object Created", "source": "aws.s3", "detail": {}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lifecycle.Decode([]byte(body))
			if err != nil || got.Kind != lifecycle.Ignored || got.Why == "" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestMalformedMessages(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":                         ``,
		"no JSON":                         `hello`,
		"no object":                       `[]`,
		"an object that says nothing":     `{}`,
		"no JSON in a topic's message":    inTopic("hello"),
		"a hook without an instance":      `{"LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "AutoScalingGroupName": "g", "LifecycleHookName": "h"}`,
		"a hook without its name":         `{"LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "EC2InstanceId": "i-12345678"}`,
		"an instance ID with a command":   `{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {"instance-id": "i-1; rm", "state": "running"}}`,
		"a detail of another type":        `{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": "x"}`,
		"a lifecycle action of no detail": `{"source": "aws.autoscaling", "detail-type": "EC2 Instance-launch Lifecycle Action"}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lifecycle.Decode([]byte(body))
			var malformed *lifecycle.MalformedError
			if !errors.As(err, &malformed) || got != (lifecycle.Event{}) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestDecodeNeverNamesWhatIsNoInstance checks that Decode accepts any message of a queue: it classifies the message or
// ignores it.
func TestDecodeNeverNamesWhatIsNoInstance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pieces := []string{launchEvent, launchDetail, terminateNotification, testNotification, stateChange("running")}
		body := []byte(rapid.SampledFrom(pieces).Draw(rt, "message"))
		for range rapid.IntRange(0, 20).Draw(rt, "changes") {
			body[rapid.IntRange(0, len(body)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		}
		e, err := lifecycle.Decode(body)
		if err == nil && e.Kind != lifecycle.Ignored && e.Kind != lifecycle.Scheduled && len(e.InstanceID) != 10 && len(e.InstanceID) != 19 {
			rt.Errorf("%+v out of %s", e, body)
		}
	})
}
