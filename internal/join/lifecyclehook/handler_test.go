// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

const id = "i-1234567890abcdef0"

// environment is the environment of a handler, and records the handler's calls.
type environment struct {
	mu   sync.Mutex
	did  []string
	told []lifecyclehook.Handled
	// prepared are the instances that the observer received.
	prepared []lifecyclehook.Prepared
	tags     map[string]string
	// state is the state of the instance, outcome the outcome of its preparation, and takes the duration.
	state   eni.InstanceState
	outcome lifecycle.Outcome
	takes   time.Duration
	fails   error
	// waiting are the hooks in which the instance waits according to Auto Scaling, unless unsure is set.
	waiting []lifecycle.HookRef
	unsure  error
	// asked counts the requests to EC2 and Auto Scaling about the instance.
	asked int
	owned []eni.Interface
}

func (w *environment) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did = append(w.did, fmt.Sprintf(format, args...))
}

func (w *environment) DescribeInstance(_ context.Context, instanceID string) (eni.InstanceSnapshot, error) {
	w.mu.Lock()
	w.asked++
	w.mu.Unlock()
	return eni.InstanceSnapshot{Instance: eni.Instance{ID: instanceID, State: w.state, Tags: w.tags}}, nil
}

func (w *environment) TaggedInstances(_ context.Context, key, _ string) ([]eni.Instance, error) {
	if _, tagged := w.tags[key]; !tagged {
		return nil, nil
	}
	return []eni.Instance{{ID: id, State: w.state, Tags: w.tags}}, nil
}

func (w *environment) ListOwned(context.Context) ([]eni.Interface, time.Time, error) {
	return w.owned, time.Time{}, nil
}

func (w *environment) Complete(_ context.Context, hook lifecycle.HookRef, _ string, result lifecycle.Policy) error {
	w.note("complete %s %s", hook.Name, result)
	return nil
}

func (w *environment) Heartbeat(_ context.Context, hook lifecycle.HookRef, _ string) error {
	w.note("heartbeat %s", hook.Name)
	return nil
}

func (w *environment) Waiting(context.Context, string, lifecycle.Kind) ([]lifecycle.HookRef, error) {
	w.mu.Lock()
	w.asked++
	w.mu.Unlock()
	return w.waiting, w.unsure
}

func (w *environment) Ensure(ctx context.Context, r join.Request) (join.Result, error) {
	w.note("ensure")
	select {
	case <-time.After(w.takes):
	case <-ctx.Done():
		return join.Result{}, ctx.Err()
	}
	if w.outcome == lifecycle.Failed {
		w.note("undo unused=%t", r.NothingRunning(ctx))
	}
	result := join.Result{Result: lifecycle.Result{Outcome: w.outcome}, Attached: 2}
	if w.outcome == lifecycle.Failed {
		result.Reason = "SubnetFull"
	}
	return result, w.fails
}

func (w *environment) PrepareTermination(context.Context, string) error {
	w.note("part")
	return w.fails
}

func (w *environment) CleanUpTerminated(_ context.Context, instanceID string) error {
	w.note("bury %s", instanceID)
	return w.fails
}

// handler serves instances with the tag multus-ng of groups multus-*, and completes the hook multus-hook.
func (w *environment) handler() *lifecyclehook.Handler {
	return lifecyclehook.New(lifecyclehook.Options{
		Config: lifecycle.Config{
			Cluster: "c", Trigger: lifecycle.Trigger{TagKey: "multus-ng"}, Groups: []string{"multus-*"}, Hooks: []string{"multus-hook"}, OnFailure: lifecycle.Abandon,
		},
		Instances: w, AutoScaling: w, Joiner: w, Patience: time.Minute, Heartbeat: 20 * time.Second, Log: slog.New(slog.DiscardHandler),
		Observer: w,
	})
}

func (w *environment) Handled(h lifecyclehook.Handled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, h)
}

func (w *environment) Prepared(p lifecyclehook.Prepared) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prepared = append(w.prepared, p)
}

// hookEvent is a notification of a hook for the instance.
func hookEvent(transition, hook string) string {
	return fmt.Sprintf(`{"LifecycleTransition": "autoscaling:EC2_INSTANCE_%s", "AutoScalingGroupName": "multus-group", "LifecycleHookName": %q, "EC2InstanceId": %q, "LifecycleActionToken": "t"}`,
		transition, hook, id)
}

// named returns the hook that a notification names, as a hook in which the instance waits; nil for other events.
func named(body string) []lifecycle.HookRef {
	event, err := lifecycle.Decode([]byte(body))
	if err != nil || event.Hook.Name == "" {
		return nil
	}
	return []lifecycle.HookRef{{Group: event.Hook.Group, Name: event.Hook.Name}}
}

func stateChange(state string) string {
	return fmt.Sprintf(`{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {"instance-id": %q, "state": %q}}`, id, state)
}

const tick = `{"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}`

func TestHandle(t *testing.T) {
	served := map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "multus-group"}
	launching := hookEvent("LAUNCHING", "multus-hook")
	ownHook := []lifecycle.HookRef{{Group: "multus-group", Name: "multus-hook"}}
	for name, tc := range map[string]*struct {
		body string
		tags map[string]string
		environment
		// unconfirmed are hook events that Auto Scaling does not confirm.
		unconfirmed bool
		want        []string
		again       bool
	}{
		"a launch": {body: launching, tags: served, want: []string{"ensure", "complete multus-hook CONTINUE"}},
		"a launch that cannot be prepared": {body: launching, tags: served, environment: environment{outcome: lifecycle.Failed, waiting: ownHook},
			want: []string{"ensure", "undo unused=true", "complete multus-hook ABANDON"}},
		"a launch of long ago, redriven, takes nothing from an instance in service": {body: launching, tags: served, unconfirmed: true,
			environment: environment{outcome: lifecycle.Failed}, want: []string{"ensure", "undo unused=false"}},
		"a launch while Auto Scaling does not answer": {body: launching, tags: served, environment: environment{unsure: errors.New("throttled")}, again: true},
		"nor one of EKS's hook": {body: hookEvent("LAUNCHING", "Launch-LC-Hook"), tags: served,
			environment: environment{outcome: lifecycle.Failed, waiting: []lifecycle.HookRef{{Group: "multus-group", Name: "Launch-LC-Hook"}}},
			want:        []string{"ensure", "undo unused=false"}},
		"a forged launch in a listed group":             {body: launching, tags: map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "other"}, unconfirmed: true},
		"a forged launch of an instance of no interest": {body: launching, tags: map[string]string{"other": ""}, unconfirmed: true},
		"a launch in a hook of another group": {body: launching, tags: map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "other"},
			environment: environment{waiting: []lifecycle.HookRef{{Group: "other", Name: "multus-hook"}}}},
		"a forged termination": {body: hookEvent("TERMINATING", "multus-hook"), tags: served, unconfirmed: true},
		"a forged termination by a hook that does not exist": {body: hookEvent("TERMINATING", "multus-hook"), tags: served,
			environment: environment{waiting: []lifecycle.HookRef{{Group: "multus-group", Name: "other-hook"}}}},
		"a termination while Auto Scaling does not answer": {body: hookEvent("TERMINATING", "multus-hook"), environment: environment{unsure: errors.New("throttled")}, again: true},
		"a launch of an instance that ends":                {body: launching, tags: served, environment: environment{outcome: lifecycle.Gone}, want: []string{"ensure"}},
		"EKS's own hook is left alone":                     {body: hookEvent("LAUNCHING", "Launch-LC-Hook"), tags: served, want: []string{"ensure"}},
		"heartbeats while it takes long": {body: launching, tags: served, environment: environment{takes: 50 * time.Second},
			want: []string{"ensure", "heartbeat multus-hook", "heartbeat multus-hook", "complete multus-hook CONTINUE"}},
		"an instance without the tag is a success": {body: launching, tags: map[string]string{"other": ""}, want: []string{"complete multus-hook CONTINUE"}},
		"so is one without any tags":               {body: launching, want: []string{"complete multus-hook CONTINUE"}},
		"and one of another group":                 {body: stateChange("running"), tags: map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "other"}},
		"an instance that runs, of no group":       {body: stateChange("running"), tags: map[string]string{"multus-ng": ""}},
		"an instance that runs, when the hook's event was lost": {body: stateChange("running"), tags: served,
			environment: environment{waiting: []lifecycle.HookRef{{Group: "multus-group", Name: "multus-hook"}, {Group: "multus-group", Name: "Launch-LC-Hook"}}},
			want:        []string{"ensure", "complete multus-hook CONTINUE"}},
		"a tick finds whom events were lost for": {body: tick, tags: served,
			environment: environment{waiting: ownHook}, want: []string{"ensure", "complete multus-hook CONTINUE"}},
		"an instance that EC2 does not know yet":  {body: launching, tags: served, environment: environment{state: eni.InstanceMissing}, again: true},
		"an instance that has ended":              {body: launching, tags: served, environment: environment{state: eni.InstanceTerminated}},
		"no certainty in time":                    {body: launching, tags: served, environment: environment{fails: errors.New("throttled")}, want: []string{"ensure"}, again: true},
		"a termination":                           {body: hookEvent("TERMINATING", "multus-hook"), want: []string{"part", "complete multus-hook CONTINUE"}},
		"a termination is never kept waiting":     {body: hookEvent("TERMINATING", "multus-hook"), environment: environment{fails: errors.New("throttled")}, want: []string{"part", "complete multus-hook CONTINUE"}, again: true},
		"EKS's own hook at a termination":         {body: hookEvent("TERMINATING", "Terminate-LC-Hook"), want: []string{"part"}},
		"the end of an instance":                  {body: stateChange("terminated"), want: []string{"bury " + id}},
		"the end of an instance, as yet not seen": {body: stateChange("shutting-down"), environment: environment{fails: join.ErrInstanceRunning}, want: []string{"bury " + id}, again: true},
		"a test of notifications":                 {body: `{"Event": "autoscaling:TEST_NOTIFICATION"}`},
		"what is no event":                        {body: `{}`, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &tc.environment
				w.tags = tc.tags
				if w.state == "" {
					w.state = eni.InstanceRunning
				}
				if w.outcome == "" {
					w.outcome = lifecycle.Ready
				}
				if w.waiting == nil && !tc.unconfirmed {
					w.waiting = named(tc.body)
				}
				if err := w.handler().Handle(t.Context(), []byte(tc.body)); (err != nil) != tc.again {
					t.Errorf("the error is %v", err)
				}
				if diff := cmp.Diff(tc.want, w.did, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A function that is about to time out returns the event to its queue before it is killed.
func TestTimeRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &environment{
			state: eni.InstanceRunning, takes: time.Hour, tags: map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "multus-group"},
			waiting: named(hookEvent("LAUNCHING", "multus-hook")),
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := w.handler().Handle(ctx, []byte(hookEvent("LAUNCHING", "multus-hook")))
		if !errors.Is(err, lifecyclehook.ErrRetry) || ctx.Err() != nil {
			t.Errorf("%v; the context is over: %v", err, ctx.Err())
		}
	})
}

// Karpenter's nodes and standalone instances have no group; they are served unless groups are listed.
func TestAnInstanceOfNoGroupIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &environment{state: eni.InstanceRunning, outcome: lifecycle.Ready, tags: map[string]string{"multus-ng": ""}}
		h := w.handler()
		h.Config.Groups = nil
		if err := h.Handle(t.Context(), []byte(stateChange("running"))); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"ensure"}, w.did); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A scheduled check cleans up after terminated instances. It reports networks that stay on other instances although no
// configuration lists them.
func TestATickLooksAtWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := func(instanceID, network string) eni.Interface {
			key := identity.Interface{Cluster: "c", UID: identity.NetworkUID(network, 0, time.Unix(1, 0)), Name: identity.ObjectName(network, instanceID, 0),
				NodeENI: network, Node: "n", InstanceID: instanceID}
			return eni.Interface{ID: "eni-1", Tags: key.Tags(time.Unix(1, 0), nil)}
		}
		var log bytes.Buffer
		w := &environment{
			state: eni.InstanceRunning, outcome: lifecycle.Ready, tags: map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "multus-group"},
			owned: []eni.Interface{of("i-0fffffffffffffff0", "old"), of(id, "old"), of(id, "old"), of(id, "removed"), of(id, "listed")},
		}
		h := w.handler()
		h.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		h.Config.Networks, h.Config.Removed = []lifecycle.Network{{Name: "listed"}}, []string{"removed"}
		if err := h.Handle(t.Context(), []byte(tick)); err != nil {
			t.Error(err)
		}
		slices.Sort(w.did)
		if diff := cmp.Diff([]string{"bury i-0fffffffffffffff0", "ensure"}, w.did); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "network=old interfaces=2") {
			t.Errorf("it warned of\n%s", &log)
		}
	})
}

func TestLambdaNamesWhatIsToComeAgain(t *testing.T) {
	w := &environment{state: eni.InstanceRunning, outcome: lifecycle.Ready, tags: map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "multus-group"}}
	payload, _ := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "1", Body: hookEvent("LAUNCHING", "multus-hook")}, {MessageId: "2", Body: "no event"}, {MessageId: "3", Body: stateChange("terminated")},
	}})
	response, err := w.handler().Lambda(t.Context(), payload)
	text, _ := json.Marshal(response)
	if want := `{"batchItemFailures":[{"itemIdentifier":"2"}]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	if response, err := w.handler().Lambda(t.Context(), []byte(stateChange("running"))); response != nil || err != nil {
		t.Errorf("an event by itself: %v, %v", response, err)
	}
}

// queue is a queue in which each message becomes visible again when its time is over.
type queue struct {
	mu       sync.Mutex
	messages map[string]time.Time
	did      []string
}

func (q *queue) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	deadline := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		q.mu.Lock()
		for body, visible := range q.messages {
			if !time.Now().Before(visible) {
				q.messages[body] = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
				q.mu.Unlock()
				return &sqs.ReceiveMessageOutput{Messages: []types.Message{{Body: aws.String(body), ReceiptHandle: aws.String(body), MessageId: aws.String(body)}}}, nil
			}
		}
		q.mu.Unlock()
		if !time.Now().Before(deadline) {
			return &sqs.ReceiveMessageOutput{}, nil
		}
		time.Sleep(time.Second)
	}
}

func (q *queue) ChangeMessageVisibility(_ context.Context, in *sqs.ChangeMessageVisibilityInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages[*in.ReceiptHandle] = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
	return &sqs.ChangeMessageVisibilityOutput{}, nil
}

func (q *queue) DeleteMessage(_ context.Context, in *sqs.DeleteMessageInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.messages, *in.ReceiptHandle)
	q.did = append(q.did, "delete "+*in.ReceiptHandle)
	return &sqs.DeleteMessageOutput{}, nil
}

func TestMessagesAreDeletedOnlyWhenTheyWereHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{messages: map[string]time.Time{"good": {}, "slow": {}, "bad": {}}}
		var mu sync.Mutex
		handled := map[string]int{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		consumer := lifecyclehook.Consumer{Queue: q, URL: "q", AtOnce: 2, Log: slog.New(slog.DiscardHandler), Handle: func(_ context.Context, body []byte) error {
			mu.Lock()
			handled[string(body)]++
			mu.Unlock()
			switch string(body) {
			case "slow":
				time.Sleep(5 * time.Minute)
			case "bad":
				return errors.New("not yet")
			}
			return nil
		}}
		if err := consumer.Serve(ctx); err != nil {
			t.Error(err)
		}
		slices.Sort(q.did)
		if got := strings.Join(q.did, ", "); got != "delete good, delete slow" {
			t.Error(got)
		}
		if handled["good"] != 1 || handled["slow"] != 1 || handled["bad"] < 8 {
			t.Errorf("handled: %v", handled)
		}
	})
}
