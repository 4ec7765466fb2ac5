// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/test/size"
)

// The subnets in which the functions attach interfaces: two of the first zone, the first of them with IPv6.
const (
	nodeSubnet    = "subnet-0aa0000000000000a"
	multusSubnets = "subnet-0f59b4f14737be9ad,subnet-0cc0000000000000a"
	multusGroup   = "sg-05da196f3314d4af8"
)

// world is the example world with a group of one instance whose launch a hook holds, and a queue of the hook's events.
func world() awssim.World {
	w := awssim.ExampleWorld()
	heartbeat := 3600
	w.LaunchTemplates = []ec2.WorldLaunchTemplate{{
		LaunchTemplateName: "workers", LaunchTemplateData: ec2.LaunchTemplateData{ImageID: w.Images[0].ImageID, InstanceType: "m5.xlarge"},
	}}
	w.AutoScalingGroups = []autoscaling.WorldGroup{{
		AutoScalingGroupName: "workers", LaunchTemplate: autoscaling.LaunchTemplateSpecification{LaunchTemplateName: "workers", Version: "1"},
		MaxSize: 1, DesiredCapacity: 1, VPCZoneIdentifier: nodeSubnet,
		LifecycleHooks: []autoscaling.HookSpecification{{
			LifecycleHookName: "attach", LifecycleTransition: autoscaling.Launching, HeartbeatTimeout: &heartbeat,
		}},
	}}
	w.Queues = []sqs.WorldQueue{{QueueName: "hooks"}}
	w.Rules = []events.Rule{{
		Name:         "hooks",
		EventPattern: map[string]any{"detail-type": []any{"EC2 Instance-launch Lifecycle Action"}},
		Targets:      []events.Target{{ARN: "arn:aws:sqs:us-east-1:123456789012:hooks"}},
	}}
	return w
}

// serve starts a simulated AWS with its defaults, at a multiple of AWS's speed, and returns the environment of its
// clients. It switches off the default that one change in a hundred becomes visible only after seconds: waiters fail on
// that in AWS too.
func serve(t *testing.T, speed float64) []string {
	t.Helper()
	_, environment := simulate(t, speed)
	return environment
}

// simulate is serve, and returns the simulated AWS too.
func simulate(t *testing.T, speed float64) (*awssim.Simulator, []string) {
	t.Helper()
	behavior := ec2.DefaultBehavior()
	behavior.Visibility.TailShare = 0
	sim, err := awssim.New(awssim.Options{World: world(), Behavior: &behavior, Clock: awssim.ScaledClock(speed)})
	if err != nil {
		t.Fatal(err)
	}
	server, err := awssim.Listen(context.WithoutCancel(t.Context()), "127.0.0.1:0", sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return sim, append(os.Environ(), "AWS_ENDPOINT_URL="+server.URL(), "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any", "AWS_PAGER=", "PYTHONDONTWRITEBYTECODE=1")
}

// run runs a program against the simulated AWS, and fails the test with its output.
func run(t *testing.T, environment []string, program string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Env, command.Dir = environment, "testdata"
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// needBoto3 skips the test where boto3 is not installed.
func needBoto3(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import boto3").CombinedOutput(); err != nil {
		t.Skipf("boto3 is not installed (Debian's python3-boto3, or pip install boto3): %v: %s", err, out)
	}
}

// speeds returns the multiples of AWS's speed at which tests run.
func speeds() []float64 { return size.Of([]float64{20}, []float64{20}, []float64{1, 20}) }

// The functions that AWS published for Multus give an instance its interfaces while a hook holds it.
func TestPublishedFunctions(t *testing.T) {
	needBoto3(t)
	for _, speed := range speeds() {
		for _, kind := range []string{"managed", "guide", "plain"} {
			for _, addresses := range []string{"any", "static"} {
				t.Run(fmt.Sprintf("%s, %s addresses, speed %g", kind, addresses, speed), func(t *testing.T) {
					t.Parallel()
					t.Log(run(t, serve(t, speed), "python3", "function.py", kind, addresses, "hooks", multusSubnets, multusGroup))
				})
			}
		}
	}
}

// No answer has a member that the shape published by AWS lacks.
func TestAnswersHaveAWSsShapes(t *testing.T) {
	needBoto3(t)
	t.Log(run(t, serve(t, 20), "python3", "walk.py"))
}

// Waiters of the command line work right after a create.
func TestWaitersOfTheCommandLine(t *testing.T) {
	path, err := exec.LookPath("aws")
	if err != nil {
		t.Skipf("the command line of AWS is not installed (Debian's awscli): %v", err)
	}
	for _, speed := range speeds() {
		t.Run(fmt.Sprintf("speed %g", speed), func(t *testing.T) {
			environment := serve(t, speed)
			aws := func(arguments ...string) string {
				// Versions before 2.13 do not read the variable for the endpoint.
				return run(t, environment, path, append([]string{"--endpoint-url", endpoint(environment), "--output", "json", "ec2"}, arguments...)...)
			}
			var made struct {
				NetworkInterface struct{ NetworkInterfaceID string }
			}
			if err := json.Unmarshal([]byte(aws("create-network-interface", "--subnet-id", nodeSubnet)), &made); err != nil {
				t.Fatal(err)
			}
			id := made.NetworkInterface.NetworkInterfaceID
			aws("wait", "network-interface-available", "--network-interface-ids", id)
			aws("delete-network-interface", "--network-interface-id", id)
		})
	}
}

// User data with the command line gives its instance an interface.
func TestPublishedUserData(t *testing.T) {
	if _, err := exec.LookPath("aws"); err != nil {
		t.Skipf("the command line of AWS is not installed (Debian's awscli): %v", err)
	}
	for _, speed := range speeds() {
		for name, address := range map[string][]string{"any address": nil, "a static address": {"10.0.128.77"}} {
			t.Run(fmt.Sprintf("%s, speed %g", name, speed), func(t *testing.T) {
				t.Parallel()
				arguments := append([]string{"userdata.sh", "i-0a10000000000000a", "subnet-0cc0000000000000a", "sg-0aa00000000000001"}, address...)
				said := run(t, serve(t, speed), "bash", arguments...)
				if !strings.HasPrefix(said, "attached") || len(address) > 0 && !strings.Contains(said, address[0]) {
					t.Errorf("it says %q", said)
				}
			})
		}
	}
}
