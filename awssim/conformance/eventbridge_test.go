// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	bus "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
)

// subscribe sends the events of a pattern to a queue while the row runs.
func (q mailbox) subscribe(t *testing.T, pattern string) (rule string) {
	t.Helper()
	events := q.ec.eventBridge()
	rule = "conformance-" + rand.Text()
	_, err := events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &rule, EventPattern: &pattern})
	ok(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: &rule, Ids: []string{"queue"}})
		ok(t, err)
		_, err = events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: &rule})
		ok(t, err)
	})
	if !q.ec.simulated {
		q.permit(t)
	}
	_, err = events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: &rule, Targets: []bus.Target{{Id: aws.String("queue"), Arn: &q.arn}}})
	ok(t, err)
	return rule
}

// envelope is an event as a target gets it.
type envelope struct {
	ID         string   `json:"id"`
	DetailType string   `json:"detail-type"`
	Source     string   `json:"source"`
	Resources  []string `json:"resources"`
	Detail     struct {
		AutoScalingGroupName, LifecycleHookName, LifecycleActionToken, LifecycleTransition, Origin, Destination string

		EC2InstanceID string `json:"EC2InstanceId"`
		InstanceID    string `json:"instance-id"`
		State         string `json:"state"`
		Say           string `json:"say"`
	} `json:"detail"`
}

func decode[T any](t *testing.T, body string) T {
	t.Helper()
	var into T
	ok(t, json.Unmarshal([]byte(body), &into))
	return into
}

// event waits for the next event in the queue. EventBridge guarantees no delivery time.
func (q mailbox) event(t *testing.T) envelope {
	t.Helper()
	for range 10 {
		if message := q.receive(t, 20); message != nil {
			return decode[envelope](t, *message.Body)
		}
	}
	t.Fatal("no event came")
	return envelope{}
}

func TestEvents(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a lifecycle action is an event of its group", run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, hidden)
			g := ec.scale(t, 0, hooked("attach", launching, 7200, "ABANDON"))
			q.subscribe(t, fmt.Sprintf(`{"source":["aws.autoscaling"],"detail-type":["EC2 Instance-launch Lifecycle Action"],
				"detail":{"AutoScalingGroupName":[%q]}}`, g.name))
			g.desire(t, 1)
			event := q.event(t)
			id := g.awaitStates(t, "Pending:Wait")[0]
			d := event.Detail
			if d.EC2InstanceID != id || d.LifecycleHookName != "attach" || d.LifecycleTransition != launching || d.LifecycleActionToken == "" ||
				d.Origin != "EC2" || d.Destination != "AutoScalingGroup" || len(event.Resources) != 1 {
				t.Errorf("got %+v", event)
			}
		}},
		{name: "an instance's states are events", run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, hidden)
			q.subscribe(t, `{"source":["aws.ec2"],"detail":{"state":["running"]}}`)
			host := ec.instance(t)
			for event := q.event(t); event.Detail.InstanceID != *host.InstanceId; {
				event = q.event(t)
			}
		}},
		{name: "a program's event reaches the rules that it matches", run: func(t *testing.T, ec *endpoint) {
			q := ec.queue(t, hidden)
			q.subscribe(t, `{"source":[{"prefix":"conformance"}],"detail":{"say":[{"anything-but":"no"}],"more":[{"exists":false}]}}`)
			put(t, ec, `{"say":"no"}`, `{"say":"yes","more":1}`, `{"say":"yes"}`)
			if event := q.event(t); event.Detail.Say != "yes" || event.DetailType != "test" || event.ID == "" {
				t.Errorf("got %+v", event)
			}
			q.expectNone(t)
		}},
		{name: "a disabled rule sends nothing", run: func(t *testing.T, ec *endpoint) {
			q, later := ec.queue(t, hidden), ec.queue(t, hidden)
			rule := q.subscribe(t, `{"source":["conformance"]}`)
			later.subscribe(t, `{"source":["conformance"]}`)
			_, err := ec.eventBridge().DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: &rule})
			ok(t, err)
			put(t, ec, `{}`)
			later.event(t)
			q.expectNone(t)
		}},
		{name: "what is no pattern", strict: true, run: func(t *testing.T, ec *endpoint) {
			for _, pattern := range []string{`{"source":"aws.ec2"}`, `{"source":[{"sounds-like":"ec2"}]}`, `{`} {
				_, err := ec.eventBridge().PutRule(t.Context(), &eventbridge.PutRuleInput{Name: aws.String("conformance-none"), EventPattern: &pattern})
				expectRefusal(t, "InvalidEventPatternException", err)
			}
		}},
		{name: "a rule with targets is not deleted", strict: true, run: func(t *testing.T, ec *endpoint) {
			rule := ec.queue(t, hidden).subscribe(t, `{"source":["conformance"]}`)
			_, err := ec.eventBridge().DeleteRule(t.Context(), &eventbridge.DeleteRuleInput{Name: &rule})
			expectRefusal(t, "ValidationException", err)
		}},
		{name: "nobody speaks for AWS", strict: true, run: func(t *testing.T, ec *endpoint) {
			out, err := ec.eventBridge().PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: []bus.PutEventsRequestEntry{
				{Source: aws.String("aws.autoscaling"), DetailType: aws.String("test"), Detail: aws.String("{}")},
			}})
			ok(t, err)
			if out.FailedEntryCount != 1 || codeOfEntry(out) == "" {
				t.Errorf("got %+v", out.Entries)
			}
		}},
	})
}

func codeOfEntry(out *eventbridge.PutEventsOutput) string {
	return aws.ToString(out.Entries[0].ErrorCode)
}

func put(t *testing.T, ec *endpoint, details ...string) {
	t.Helper()
	in := &eventbridge.PutEventsInput{}
	for _, detail := range details {
		in.Entries = append(in.Entries, bus.PutEventsRequestEntry{Source: aws.String("conformance"), DetailType: aws.String("test"), Detail: &detail})
	}
	out, err := ec.eventBridge().PutEvents(t.Context(), in)
	ok(t, err)
	if out.FailedEntryCount != 0 {
		t.Fatalf("got %+v", out.Entries)
	}
}
