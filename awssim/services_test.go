// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	asg "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	queue "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/sqs"
)

// workers is a world with a group whose launches a hook holds, and a queue that receives the hook's events.
func workers(size int) awssim.World {
	w := awssim.ExampleWorld()
	heartbeat := 300
	w.LaunchTemplates = []ec2.WorldLaunchTemplate{{
		LaunchTemplateName: "workers", LaunchTemplateData: ec2.LaunchTemplateData{ImageID: w.Images[0].ImageID, InstanceType: "m5.xlarge"},
	}}
	w.AutoScalingGroups = []autoscaling.WorldGroup{{
		AutoScalingGroupName: "workers", LaunchTemplate: autoscaling.LaunchTemplateSpecification{LaunchTemplateName: "workers", Version: "1"},
		MaxSize: size, DesiredCapacity: size, VPCZoneIdentifier: "subnet-0aa0000000000000a,subnet-0aa0000000000000b,subnet-0aa0000000000000c",
		LifecycleHooks: []autoscaling.HookSpecification{{LifecycleHookName: "attach", LifecycleTransition: autoscaling.Launching, HeartbeatTimeout: &heartbeat}},
	}}
	w.Queues = []sqs.WorldQueue{{QueueName: "hooks", Attributes: map[string]string{"VisibilityTimeout": "60"}}}
	w.Rules = []events.Rule{{
		Name:         "hooks",
		EventPattern: map[string]any{"detail-type": []any{"EC2 Instance-launch Lifecycle Action"}},
		Targets:      []events.Target{{ARN: "arn:aws:sqs:us-east-1:123456789012:hooks"}},
	}}
	return w
}

// clients are SDK clients of a simulator in the process.
type clients struct {
	*asg.Client
	queue *queue.Client
}

func simulateServices(t *testing.T, options awssim.Options) (*awssim.Simulator, clients) {
	t.Helper()
	sim, err := awssim.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return sim, clientsAt("http://simulated", sim.Transport())
}

func clientsAt(url string, network http.RoundTripper) clients {
	at, who, over := &url, credentials.NewStaticCredentialsProvider("test", "test", ""), &http.Client{Transport: network}
	return clients{
		asg.New(asg.Options{Region: "us-east-1", BaseEndpoint: at, Credentials: who, HTTPClient: over, RetryMaxAttempts: 1}),
		queue.New(queue.Options{Region: "us-east-1", BaseEndpoint: at, Credentials: who, HTTPClient: over, RetryMaxAttempts: 1}),
	}
}

func (c clients) send(t *testing.T, name string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if _, err := c.queue.SendMessage(t.Context(), &queue.SendMessageInput{QueueUrl: &name, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
}

// instant are services that take no time.
var instant = awssim.Options{Behavior: &ec2.Behavior{}, ServiceBehavior: &awssim.ServiceBehavior{}}

func instantly(w awssim.World) awssim.Options {
	o := instant
	o.World = w
	return o
}

// receive returns the IDs of the instances in the next messages.
func (c clients) receive(t *testing.T, wait int32) (ids []string) {
	t.Helper()
	out, err := c.queue.ReceiveMessage(t.Context(), &queue.ReceiveMessageInput{
		QueueUrl: aws.String("hooks"), MaxNumberOfMessages: 10, WaitTimeSeconds: wait,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range out.Messages {
		var event struct {
			Detail struct{ EC2InstanceID string } `json:"detail"`
		}
		if err := json.Unmarshal([]byte(*message.Body), &event); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, event.Detail.EC2InstanceID)
	}
	return ids
}

func (c clients) complete(t *testing.T, instanceID string) error {
	t.Helper()
	_, err := c.CompleteLifecycleAction(t.Context(), &asg.CompleteLifecycleActionInput{
		AutoScalingGroupName: aws.String("workers"), LifecycleHookName: aws.String("attach"), InstanceId: &instanceID, LifecycleActionResult: aws.String("CONTINUE"),
	})
	return err
}

func TestScaleOutOverThreeZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, c := simulateServices(t, awssim.Options{World: workers(100)})
		seen := map[string]bool{}
		for began := time.Now(); len(seen) < 100 && time.Since(began) < 10*time.Minute; {
			for _, id := range c.receive(t, 20) {
				if !seen[id] {
					seen[id] = true
					if err := c.complete(t, id); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		time.Sleep(time.Minute) // until the last instance runs
		group := sim.AutoScalingGroups()[0]
		for _, a := range group.Activities {
			if a.StatusCode != "Successful" {
				t.Error(a.StatusMessage)
			}
		}
		zones := map[string]int{}
		for _, instance := range group.Instances {
			if instance.LifecycleState != autoscaling.InService {
				t.Errorf("%s is %s", instance.InstanceID, instance.LifecycleState)
			}
			zones[instance.AvailabilityZone]++
		}
		if zones["us-east-1a"] != 34 || zones["us-east-1b"] != 33 || zones["us-east-1c"] != 33 {
			t.Errorf("zones %v", zones)
		}
		for _, a := range group.LifecycleActions {
			if a.EndedBy != autoscaling.ByCall || a.Result != autoscaling.Continue || a.Refused != 0 {
				t.Errorf("action %+v", a)
			}
		}
	})
}

func TestDeliveryFaults(t *testing.T) {
	for name, row := range map[string]struct {
		fault fault.Fault
		holds func(ids []string) bool
	}{
		"none":      {fault.Fault{Kind: fault.Delay, Delay: time.Hour, Resource: "other rule"}, func(ids []string) bool { return len(ids) == 10 && len(distinct(ids)) == 10 }},
		"loss":      {fault.Fault{Kind: fault.LoseRequest, Every: 2}, func(ids []string) bool { return len(ids) == 5 }},
		"duplicate": {fault.Fault{Kind: fault.Duplicate, Resource: "hooks"}, func(ids []string) bool { return len(ids) == 20 && len(distinct(ids)) == 10 }},
		"delay": {fault.Fault{Kind: fault.Delay, Delay: 10 * time.Second, Jitter: true}, func(ids []string) bool {
			return len(ids) == 10 && !slices.Equal(ids, distinct(ids))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim, c := simulateServices(t, instantly(workers(10)))
				row.fault.Action = events.ActionDeliver
				if _, err := sim.AddFault(row.fault); err != nil {
					t.Fatal(err)
				}
				var ids []string
				for more := c.receive(t, 20); len(more) > 0; more = c.receive(t, 20) {
					ids = append(ids, more...)
				}
				if !row.holds(ids) {
					t.Errorf("got %d messages about %d instances", len(ids), len(distinct(ids)))
				}
			})
		})
	}
}

// distinct returns the distinct values, sorted, because instances do not launch in that order.
func distinct(ids []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

func TestQueueFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, c := simulateServices(t, instantly(workers(1)))
		if _, err := sim.AddFault(fault.Fault{Kind: fault.Duplicate, Action: "ReceiveMessage", Resource: "hooks", Count: 1}); err != nil {
			t.Fatal(err)
		}
		if first, second, third := c.receive(t, 0), c.receive(t, 0), c.receive(t, 0); len(first) != 1 || len(second) != 1 || len(third) != 0 {
			t.Errorf("got %v, %v and %v, want the message twice", first, second, third)
		}
	})
}

func TestLongPollEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := simulateServices(t, instantly(workers(1)))
		c.receive(t, 0)
		began := time.Now()
		for _, want := range []time.Duration{20 * time.Second, 40 * time.Second, time.Minute} {
			ids := c.receive(t, 20)
			isVisible := want == time.Minute // a minute after it was received
			if passed := time.Since(began); passed != want || (len(ids) == 1) != isVisible {
				t.Errorf("%v after %s, want the end after %s", ids, passed, want)
			}
		}
	})
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		sim, c := simulateServices(t, instantly(workers(1)))
		id := c.receive(t, 0)[0]
		for range 3 {
			time.Sleep(299 * time.Second)
			if _, err := c.RecordLifecycleActionHeartbeat(t.Context(), &asg.RecordLifecycleActionHeartbeatInput{
				AutoScalingGroupName: aws.String("workers"), LifecycleHookName: aws.String("attach"), InstanceId: &id,
			}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if err := c.complete(t, id); codeOf(err) != "ValidationError" {
			t.Errorf("too late, but got %v", err)
		}
		a := sim.AutoScalingGroups()[0].LifecycleActions[0]
		held := a.Ended.Sub(began)
		if a.EndedBy != autoscaling.ByTimeout || a.Result != autoscaling.Abandon || a.Heartbeats != 3 || a.Refused != 1 || held != (3*299+300)*time.Second {
			t.Errorf("after %s: %+v", held, a)
		}
	})
}

func TestEventsByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, c := simulateServices(t, instantly(workers(0)))
		sim.PutEvent(events.Event{
			Source: "aws.autoscaling", DetailType: "EC2 Instance-launch Lifecycle Action", Detail: map[string]any{"EC2InstanceId": "i-gone"},
		})
		if got := c.receive(t, 0); !slices.Equal(got, []string{"i-gone"}) {
			t.Errorf("got %v", got)
		}
		if d := sim.Deliveries(); len(d) != 1 || d[0].Outcome != "" || d[0].Rule != "hooks" {
			t.Errorf("deliveries %+v", d)
		}
	})
}

func TestOtherServicesDoNotCountAsEC2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, c := simulateServices(t, instantly(workers(1)))
		c.receive(t, 0)
		calls := sim.Calls()
		if calls.Mutating.Count+calls.NonMutating.Count != 0 || calls.Actions["ReceiveMessage"].Count != 1 {
			t.Errorf("calls %+v", calls)
		}
		if _, err := sim.AddFault(fault.Fault{Kind: fault.Throttle, Action: "ReceiveMessage"}); err != nil {
			t.Fatal(err)
		}
		_, err := c.queue.ReceiveMessage(t.Context(), &queue.ReceiveMessageInput{QueueUrl: aws.String("hooks")})
		if codeOf(err) != "RequestThrottled" || sim.Calls().Actions["ReceiveMessage"].Throttled != 1 {
			t.Error(fmt.Errorf("throttled: %w", err))
		}
	})
}
