// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/lambda"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/internal/cli/lifecyclehook"
	"github.com/multieni/multieni/ownership"
)

// TestMain lets this very program be the function that the simulated Lambda runs: nothing but the command.
func TestMain(m *testing.M) {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		command := lifecyclehook.New()
		command.SetArgs(nil)
		if err := command.ExecuteContext(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	account  = "123456789012"
	queueARN = "arn:aws:sqs:us-east-1:" + account + ":"
)

// deployed is what deploy/cloudformation/lifecycle-hook.yaml makes, around a group of instances in three zones.
func deployed(t *testing.T, size int) awssim.World {
	t.Helper()
	program, err := os.Executable()
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
	w.Functions = []lambda.Function{{FunctionName: "hook", Command: []string{program}, Timeout: 600, Concurrency: 3, Environment: map[string]string{
		"ClusterName": "c", "EksNodeGroupTagKey": "multus-ng", "LifecycleHooks": "multus", "OnFailure": "ABANDON", "useIPsFromStartOfSubnet": "true",
		"MultusSubnetsAz1": "subnet-0f59b4f14737be9ad", "MultusSubnetsAz2": "subnet-0bb0000000000000b", "MultusSubnetsAz3": "subnet-0bb0000000000000c",
		"MultusSecurityGroupIds": "sg-05da196f3314d4af8", "MultusInterfaceTags": "cnf=upf",
	}}}
	w.EventSourceMappings = []lambda.EventSourceMapping{{
		EventSourceARN: queueARN + "events", FunctionName: "hook", BatchSize: 5, FunctionResponseTypes: []string{lambda.ReportBatchItemFailures},
	}}
	return w
}

// The function as it is deployed, run for real by the simulated Lambda, which kills it at its calls, while EventBridge loses,
// repeats and reorders events and EC2 throttles.
func TestScaleOutByTheFunction(t *testing.T) {
	const size = 9
	sim, err := awssim.New(awssim.Options{World: deployed(t, size), Clock: awssim.ScaledClock(10), FunctionOutput: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []fault.Fault{
		{Kind: fault.KillAfter, Action: "CreateNetworkInterface", Count: 1}, {Kind: fault.KillBefore, Action: "AttachNetworkInterface", Count: 1},
		{Kind: fault.KillAfter, Action: "ModifyNetworkInterfaceAttribute", Count: 1},
		{Kind: fault.LoseRequest, Action: events.ActionDeliver, Resource: "lifecycle", Count: 1}, {Kind: fault.Duplicate, Action: events.ActionDeliver, Probability: 0.3},
		{Kind: fault.Throttle, Probability: 0.03},
	} {
		if _, err := sim.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	server, err := awssim.Listen(t.Context(), "127.0.0.1:0", sim)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	deadline, nextTick := time.Now().Add(4*time.Minute), time.Now().Add(30*time.Second)
	for inService(sim) < size {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are in service; the function is at %+v", inService(sim), size, sim.Functions()[0])
		}
		if time.Now().After(nextTick) {
			sim.PutEvent(events.Event{Source: "aws.events", DetailType: "Scheduled Event", Detail: map[string]any{}})
			nextTick = time.Now().Add(30 * time.Second)
		}
		time.Sleep(100 * time.Millisecond)
	}
	check(t, sim, size)
	for _, action := range sim.AutoScalingGroups()[0].LifecycleActions {
		if action.EndedBy != autoscaling.ByCall || action.Result != autoscaling.Continue {
			t.Errorf("the hook of %s ended by %s with %s", action.InstanceID, action.EndedBy, action.Result)
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

// check wants one interface for each instance, at device 1, and the addresses of each subnet to be those from its start.
func check(t *testing.T, sim *awssim.Simulator, size int) {
	t.Helper()
	of := map[string]int{}
	addresses := map[string][]netip.Addr{}
	for _, i := range sim.State().NetworkInterfaces {
		if i.Tags[ownership.TagCluster] == "" {
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
