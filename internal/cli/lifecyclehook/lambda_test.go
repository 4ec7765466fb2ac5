// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/lambda"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/inputs"
)

// programs is where bootstrap is built.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "lifecycle-hook"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(programs) // a temporary folder that stays does no harm
	os.Exit(code)
}

// bootstrap builds the function as docs/multus-node-groups.md says, for this machine.
var bootstrap = sync.OnceValues(func() (string, error) {
	program := filepath.Join(programs, "bootstrap")
	return program, inputs.Build(context.Background(), program, "github.com/multieni/multieni/cmd/lifecycle-hook", "-tags", "lambda.norpc")
})

const (
	account  = "123456789012"
	queueARN = "arn:aws:sqs:us-east-1:" + account + ":"
)

// deployed is what deploy/cloudformation/lifecycle-hook.yaml makes, around a group of instances in three zones.
func deployed(t *testing.T, size int) awssim.World {
	t.Helper()
	program, err := bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	heartbeat, served := 3600, "true"
	w := awssim.ExampleWorld()
	w.LaunchTemplates = []ec2.WorldLaunchTemplate{{LaunchTemplateName: "workers", LaunchTemplateData: ec2.LaunchTemplateData{
		ImageID: w.Images[0].ImageID, InstanceType: "m5.xlarge",
		TagSpecifications: []ec2.TagSpecification{{ResourceType: "instance", Tags: []ec2.Tag{{Key: "multus-ng", Value: &served}}}},
	}}}
	w.AutoScalingGroups = []autoscaling.WorldGroup{{
		AutoScalingGroupName: "workers", LaunchTemplate: autoscaling.LaunchTemplateSpecification{LaunchTemplateName: "workers", Version: "1"},
		MaxSize: size, DesiredCapacity: size, VPCZoneIdentifier: "subnet-0aa0000000000000a,subnet-0aa0000000000000b,subnet-0aa0000000000000c",
		LifecycleHooks: []autoscaling.HookSpecification{
			{LifecycleHookName: "multus", LifecycleTransition: autoscaling.Launching, HeartbeatTimeout: &heartbeat},
		},
	}}
	w.Queues = []sqs.WorldQueue{{QueueName: "events", Attributes: map[string]string{"VisibilityTimeout": "600"}}, {QueueName: "dead"}}
	target := []events.Target{{ARN: queueARN + "events"}}
	w.Rules = []events.Rule{
		{Name: "lifecycle", EventPattern: map[string]any{"source": []any{"aws.autoscaling"}, "detail": map[string]any{"AutoScalingGroupName": []any{"workers"}}}, Targets: target},
		{Name: "states", EventPattern: map[string]any{"source": []any{"aws.ec2"}}, Targets: target},
		{Name: "schedule", EventPattern: map[string]any{"source": []any{"aws.events"}}, Targets: target},
	}
	w.Functions = []lambda.Function{{FunctionName: "hook", Command: []string{program}, Timeout: 600, Concurrency: 10, Environment: map[string]string{
		"ClusterName": "c", "EksNodeGroupTagKey": "multus-ng", "LifecycleHooks": "multus", "OnFailure": "ABANDON", "useIPsFromStartOfSubnet": "true",
		"MultusSubnetsAz1": "subnet-0f59b4f14737be9ad", "MultusSubnetsAz2": "subnet-0bb0000000000000b", "MultusSubnetsAz3": "subnet-0bb0000000000000c",
		"MultusSecurityGroupIds": "sg-05da196f3314d4af8", "MultusInterfaceTags": "cnf=upf",
	}}}
	w.EventSourceMappings = []lambda.EventSourceMapping{{
		EventSourceARN: queueARN + "events", FunctionName: "hook", BatchSize: 5, FunctionResponseTypes: []string{lambda.ReportBatchItemFailures},
	}}
	return w
}

// The function as it is deployed and built prepares a hundred instances in three zones. It is killed at each of its
// calls, in the middle of a batch, while EventBridge loses, repeats and delays events, the queue repeats and reorders
// them, and EC2 throttles.
func TestScaleOutByTheFunction(t *testing.T) {
	const size = 100
	kills := killsOf(
		"CreateNetworkInterface", "ModifyNetworkInterfaceAttribute", "AttachNetworkInterface", "CompleteLifecycleAction",
	)
	for _, action := range []string{
		"DescribeInstances", "DescribeNetworkInterfaces", "DescribeInstanceTypes", "DescribeSubnets", "DescribeSecurityGroups", "GetSubnetCidrReservations",
	} {
		kills = append(kills, fault.Fault{Kind: fault.KillBefore, Action: action, Every: 3, Count: 1})
	}
	s := scaleOut(t, deployed(t, size), slices.Concat(kills, []fault.Fault{
		{Kind: fault.LoseRequest, Action: events.ActionDeliver, Resource: "lifecycle", Probability: 0.1},
		{Kind: fault.Duplicate, Action: events.ActionDeliver, Probability: 0.3},
		{Kind: fault.Delay, Action: events.ActionDeliver, Delay: 20 * time.Second, Jitter: true, Probability: 0.3},
		{Kind: fault.Duplicate, Action: "ReceiveMessage", Probability: 0.1},
		{Kind: fault.Reorder, Action: "ReceiveMessage", Probability: 0.3},
		{Kind: fault.Throttle, Probability: 0.03},
	})...)
	s.await(t, size, 5*time.Second)
	check(t, s.Simulator, size)
	s.completedOnce(t)
	calls := s.Calls()
	t.Logf("%d invocations failed of %d; %d calls that change EC2, %d of them throttled", s.Functions()[0].Failed,
		s.Functions()[0].Failed+s.Functions()[0].Succeeded, calls.Mutating.Count, calls.Mutating.Throttled)
	for _, f := range s.Faults() {
		if f.Strikes == 0 || strings.HasPrefix(string(f.Kind), "kill") {
			t.Errorf("%s of %s struck %d times", f.Kind, f.Action, f.Strikes)
		}
	}
}

// killsOf kills the function at its third call of each action before its effect, and at the 20th after it.
func killsOf(actions ...string) []fault.Fault {
	var kills []fault.Fault
	for _, action := range actions {
		kills = append(kills, fault.Fault{Kind: fault.KillBefore, Action: action, Every: 3, Count: 1}, fault.Fault{Kind: fault.KillAfter, Action: action, Every: 20, Count: 1})
	}
	return kills
}

// The calls that give an instance two interfaces and complete its hook, and how often each is made.
var changes = map[string]int{
	"CreateNetworkInterface": 2, "ModifyNetworkInterfaceAttribute": 4, "AttachNetworkInterface": 2, "CompleteLifecycleAction": 1,
}

// The function is killed at each call that changes something, before its effect or before its answer. The next event
// finishes the work, and nothing is created twice. A kill at a call that only reads is the same as one after the call
// before it.
func TestTheFunctionIsKilledAtEveryCall(t *testing.T) {
	type death struct {
		fault.Fault
		*scene
	}
	var deaths []death
	for _, action := range slices.Sorted(maps.Keys(changes)) {
		for n := range changes[action] {
			for _, kind := range []fault.Kind{fault.KillBefore, fault.KillAfter} {
				f := fault.Fault{Kind: kind, Action: action, Every: n + 1, Count: 1}
				w := deployed(t, 1)
				w.AutoScalingGroups[0].VPCZoneIdentifier = "subnet-0aa0000000000000a"
				w.Functions[0].Environment["MultusSubnetsAz1"] = "subnet-0f59b4f14737be9ad,subnet-abcdef1234567890"
				deaths = append(deaths, death{f, scaleOut(t, w, f)}) // all at once: they mostly wait
			}
		}
	}
	for _, d := range deaths {
		t.Run(fmt.Sprintf("%s %s %d", d.Kind, d.Action, d.Every), func(t *testing.T) {
			d.await(t, 1, time.Second)
			if failed := d.Functions()[0].Failed; failed != 1 || len(d.Faults()) > 0 {
				t.Errorf("%d invocations failed, and these faults have not struck: %v", failed, d.Faults())
			}
			want := []string{"subnet-0f59b4f14737be9ad 10.0.64.4 device 1", "subnet-abcdef1234567890 10.0.112.4 device 2"}
			if diff := cmp.Diff(want, d.has(t)); diff != "" {
				t.Errorf("interfaces (-want +got):\n%s", diff)
			}
			d.completedOnce(t)
		})
	}
}

// speed is the factor between simulated time and the time of the machine.
const speed = 20

// scene is a simulated AWS in which a group launches its instances.
type scene struct {
	*awssim.Simulator
	deadline time.Time
}

func scaleOut(t *testing.T, w awssim.World, faults ...fault.Fault) *scene {
	t.Helper()
	services := awssim.DefaultServiceBehavior()
	services.AutoScaling.HookWhilePending = true // the function must wait until the instance runs
	sim, err := awssim.New(awssim.Options{
		World: w, Behavior: new(ec2.LaggingBehavior()), ServiceBehavior: &services, Clock: awssim.ScaledClock(speed), FunctionOutput: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if _, err := sim.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	server, err := awssim.Listen(t.Context(), "127.0.0.1:0", sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return &scene{sim, time.Now().Add(2 * time.Minute)}
}

// await waits until so many instances are in service. A schedule sends a tick now and then, by the clock of the
// machine.
func (s *scene) await(t *testing.T, size int, tick time.Duration) {
	t.Helper()
	next := time.Now().Add(tick)
	for ; inService(s.Simulator) < size; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(s.deadline) {
			t.Fatalf("%d of %d are in service; the function is at %+v", inService(s.Simulator), size, s.Functions()[0])
		}
		if time.Now().After(next) {
			s.PutEvent(events.Event{Source: "aws.events", DetailType: "Scheduled Event", Detail: map[string]any{}})
			next = time.Now().Add(tick)
		}
	}
}

// completedOnce checks that a call of the function completed the hook of each instance, and that no call came too late.
func (s *scene) completedOnce(t *testing.T) {
	t.Helper()
	waited := map[string]int{}
	for _, action := range s.AutoScalingGroups()[0].LifecycleActions {
		waited[action.InstanceID]++
		if action.EndedBy != autoscaling.ByCall || action.Result != autoscaling.Continue {
			t.Errorf("the hook of %s ended by %s with %s", action.InstanceID, action.EndedBy, action.Result)
		}
	}
	for id, times := range waited {
		if times != 1 {
			t.Errorf("%s waited in its hook %d times", id, times)
		}
	}
}

func inService(sim *awssim.Simulator) int {
	n := 0
	for _, i := range sim.AutoScalingGroups()[0].Instances {
		if i.LifecycleState == autoscaling.InService {
			n++
		}
	}
	return n
}

// has describes our interfaces: subnet, address, and slot or status.
func (s *scene) has(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, i := range s.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == "" {
			continue
		}
		where := i.Status
		if a := i.Attachment; a != nil {
			where = fmt.Sprintf("device %d", a.DeviceIndex)
			if !a.DeleteOnTermination || i.SourceDestCheck || i.Tags["cnf"] != "upf" {
				t.Errorf("%s goes with its instance: %t; source/dest check: %t; tags: %v", i.NetworkInterfaceID, a.DeleteOnTermination, i.SourceDestCheck, i.Tags)
			}
		}
		all = append(all, fmt.Sprintf("%s %s %s", i.SubnetID, i.PrivateIPAddress, where))
	}
	slices.Sort(all)
	return all
}

// check requires one interface for each instance, at device 1, with the first addresses of each subnet.
func check(t *testing.T, sim *awssim.Simulator, size int) {
	t.Helper()
	of := map[string]int{}
	addresses := map[string][]netip.Addr{}
	for _, i := range sim.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == "" {
			continue
		}
		if i.Attachment == nil || i.Attachment.DeviceIndex != 1 || !i.Attachment.DeleteOnTermination || i.SourceDestCheck || i.Tags["cnf"] != "upf" {
			t.Errorf("%s is %s, %+v", i.NetworkInterfaceID, i.Status, i.Attachment)
			continue
		}
		of[i.Attachment.InstanceID]++
		addresses[i.SubnetID] = append(addresses[i.SubnetID], i.PrivateIPAddress)
	}
	for id, n := range of {
		if n != 1 {
			t.Errorf("%s has %d interfaces", id, n)
		}
	}
	if len(of) != size || len(addresses) != 3 {
		t.Errorf("%d instances have interfaces, in %d zones", len(of), len(addresses))
	}
	for subnet, got := range addresses {
		slices.SortFunc(got, netip.Addr.Compare)
		for n, address := range got {
			if last := address.As4()[3]; int(last) != 4+n {
				t.Errorf("%s has the addresses %v", subnet, got)
			}
		}
	}
}
