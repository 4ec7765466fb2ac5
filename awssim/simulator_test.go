// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
)

// TestMain lets this program also run as a function.
func TestMain(m *testing.M) {
	if isFunction() {
		serveFunction()
	}
	goleak.VerifyTestMain(m)
}

// inProcess returns a simulator of the example world and a client that needs no network.
func inProcess(t *testing.T, options awssim.Options) (*awssim.Simulator, *sdk.Client) {
	t.Helper()
	options.World = awssim.ExampleWorld()
	sim, err := awssim.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return sim, sdk.New(sdk.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String("http://simulated"),
		Credentials:      credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:       &http.Client{Transport: sim.Transport()},
		RetryMaxAttempts: 1,
	})
}

func codeOf(err error) string {
	if refused, ok := errors.AsType[smithy.APIError](err); ok {
		return refused.ErrorCode()
	}
	if err != nil {
		return "?"
	}
	return ""
}

// burst makes n calls and counts the throttled ones.
func burst(t *testing.T, n int, call func() error) (throttled int) {
	t.Helper()
	for range n {
		switch code := codeOf(call()); code {
		case "RequestLimitExceeded":
			throttled++
		case "?":
			t.Fatal("the call failed altogether")
		}
	}
	return throttled
}

// TestCallsTakeTime deletes an interface while it is read: half of a call's time passes before EC2 does the work, and half of
// it after.
func TestCallsTakeTime(t *testing.T) {
	cases := map[string]struct {
		after time.Duration
		shown int
	}{
		"deleted before the reading is done": {400 * time.Millisecond, 0},
		"deleted after it":                   {600 * time.Millisecond, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client := inProcess(t, awssim.Options{Behavior: &ec2.Behavior{Calls: map[string]ec2.Latency{
					"DescribeNetworkInterfaces": {Min: time.Second},
				}}})
				made, err := client.CreateNetworkInterface(t.Context(), &sdk.CreateNetworkInterfaceInput{SubnetId: aws.String(subnetA)})
				if err != nil {
					t.Fatal(err)
				}
				id, begun := *made.NetworkInterface.NetworkInterfaceId, time.Now()
				time.AfterFunc(tc.after, func() {
					if _, err := client.DeleteNetworkInterface(t.Context(), &sdk.DeleteNetworkInterfaceInput{NetworkInterfaceId: &id}); err != nil {
						t.Error(err)
					}
				})
				shown, err := client.DescribeNetworkInterfaces(t.Context(), &sdk.DescribeNetworkInterfacesInput{
					Filters: []types.Filter{{Name: aws.String("network-interface-id"), Values: []string{id}}},
				})
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took != time.Second || len(shown.NetworkInterfaces) != tc.shown {
					t.Errorf("the reading took %s and shows %d, want 1s and %d", took, len(shown.NetworkInterfaces), tc.shown)
				}
			})
		})
	}
}

// TestCallLatencies compares the latencies of calls with the measured ones, and checks that every action takes some
// time.
func TestCallLatencies(t *testing.T) {
	latencies := ec2.CallLatencies()
	for _, o := range ec2.Operations() {
		if l := latencies[o.Name]; l.Min <= 0 || l.Max <= l.Min || l.Tail <= l.Max {
			t.Errorf("%s takes %v", o.Name, l)
		}
	}
	for action, seconds := range map[string]float64{
		"CreateNetworkInterface": 0.18, "AttachNetworkInterface": 0.74, "ModifyNetworkInterfaceAttribute": 0.22,
		"AssignPrivateIpAddresses": 0.35, "DescribeNetworkInterfaces": 0.15, "DescribeSubnets": 0.12,
	} {
		if l := latencies[action]; seconds < l.Min.Seconds() || seconds > l.Max.Seconds() {
			t.Errorf("%s was measured to take %g s, and takes %s to %s", action, seconds, l.Min, l.Max)
		}
	}
}

func TestThrottling(t *testing.T) {
	page := func(o *sdk.DescribeNetworkInterfacesInput) { o.MaxResults = aws.Int32(1000) }
	describe := func(ctx context.Context, c *sdk.Client, change func(*sdk.DescribeNetworkInterfacesInput)) func() error {
		in := &sdk.DescribeNetworkInterfacesInput{}
		change(in)
		return func() error {
			_, err := c.DescribeNetworkInterfaces(ctx, in)
			return err
		}
	}
	attach := func(ctx context.Context, c *sdk.Client) func() error {
		return func() error {
			_, err := c.AttachNetworkInterface(ctx, &sdk.AttachNetworkInterfaceInput{
				NetworkInterfaceId: aws.String("eni-0000000000000dead"), InstanceId: aws.String(instanceA), DeviceIndex: aws.Int32(1),
			})
			return err
		}
	}
	terminateMany := func(ctx context.Context, c *sdk.Client) func() error {
		in := &sdk.TerminateInstancesInput{DryRun: aws.Bool(true)}
		for range 600 {
			in.InstanceIds = append(in.InstanceIds, instanceA)
		}
		return func() error {
			_, err := c.TerminateInstances(ctx, in)
			return err
		}
	}
	for name, row := range map[string]struct {
		call             func(context.Context, *sdk.Client) func() error
		capacity, refill int // calls of a full bucket, and calls a second
	}{
		"attach":          {attach, 50, 5},
		"describe, paged": {func(ctx context.Context, c *sdk.Client) func() error { return describe(ctx, c, page) }, 100, 20},
		"describe everything": {func(ctx context.Context, c *sdk.Client) func() error {
			return describe(ctx, c, func(*sdk.DescribeNetworkInterfacesInput) {})
		}, 50, 10},
		"describe by IDs alone": {func(ctx context.Context, c *sdk.Client) func() error {
			return describe(ctx, c, func(in *sdk.DescribeNetworkInterfacesInput) {
				in.NetworkInterfaceIds = []string{"eni-0000000000000dead"}
			})
		}, 50, 10},
		"a token per instance": {terminateMany, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client := inProcess(t, awssim.Options{})
				call := row.call(t.Context(), client)
				if got := burst(t, row.capacity+10, call); got != 10 {
					t.Errorf("full bucket: %d of %d throttled, want 10", got, row.capacity+10)
				}
				time.Sleep(time.Second)
				if got := burst(t, row.refill+10, call); got != 10 {
					t.Errorf("a second later: %d of %d throttled, want 10", got, row.refill+10)
				}
			})
		})
	}
}

func TestThrottledCallsCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := inProcess(t, awssim.Options{Behavior: &ec2.Behavior{ThrottledCallsCost: true}})
		call := func() error {
			_, err := client.DeleteNetworkInterface(t.Context(), &sdk.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String("eni-0000000000000dead")})
			return err
		}
		burst(t, 105, call)
		time.Sleep(time.Second)
		if got := burst(t, 1, call); got != 1 {
			t.Error("five throttled calls cost nothing")
		}
	})
}

func TestNoLimits(t *testing.T) {
	_, client := inProcess(t, awssim.Options{Limits: map[string]awssim.Bucket{}})
	if got := burst(t, 300, func() error {
		_, err := client.DescribeVpcs(t.Context(), &sdk.DescribeVpcsInput{})
		return err
	}); got != 0 {
		t.Errorf("%d throttled", got)
	}
}

// TestLimitsNameActions checks that the table names only existing actions.
func TestLimitsNameActions(t *testing.T) {
	known := map[string]bool{}
	limits := awssim.DocumentedLimits()
	for _, operation := range ec2.Operations() {
		known[operation.Name] = true
		if _, ok := limits[operation.Name]; !ok {
			t.Errorf("%s has no bucket", operation.Name)
		}
	}
	for name := range limits {
		if action, _, _ := strings.Cut(name, "/"); !known[action] {
			t.Errorf("bucket %s is of no action", name)
		}
	}
}

func TestRequestFaults(t *testing.T) {
	create := &sdk.CreateNetworkInterfaceInput{SubnetId: aws.String(subnetA)}
	for name, row := range map[string]struct {
		fault fault.Fault
		code  string
		made  bool
		takes time.Duration
	}{
		"throttle":     {fault.Fault{Kind: fault.Throttle}, "RequestLimitExceeded", false, 0},
		"error":        {fault.Fault{Kind: fault.Error, Code: "UnauthorizedOperation", Status: 403}, "UnauthorizedOperation", false, 0},
		"any error":    {fault.Fault{Kind: fault.Error}, "InternalError", false, 0},
		"lose request": {fault.Fault{Kind: fault.LoseRequest}, "?", false, 0},
		"lose reply":   {fault.Fault{Kind: fault.LoseReply}, "?", true, 0},
		"delay":        {fault.Fault{Kind: fault.Delay, Delay: 5 * time.Second}, "", true, 5 * time.Second},
		"hang":         {fault.Fault{Kind: fault.Hang, Delay: 30 * time.Second}, "?", false, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim, client := inProcess(t, awssim.Options{})
				row.fault.Count = 1
				if _, err := sim.AddFault(row.fault); err != nil {
					t.Fatal(err)
				}
				began, before := time.Now(), len(sim.State().NetworkInterfaces)
				_, err := client.CreateNetworkInterface(t.Context(), create)
				made := len(sim.State().NetworkInterfaces) > before
				if codeOf(err) != row.code || made != row.made || time.Since(began) != row.takes {
					t.Errorf("%v after %s, made: %t", err, time.Since(began), made)
				}
				if _, err := client.CreateNetworkInterface(t.Context(), create); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

func TestHangEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, client := inProcess(t, awssim.Options{})
		if _, err := sim.AddFault(fault.Fault{Kind: fault.Hang}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := client.DescribeVpcs(ctx, &sdk.DescribeVpcsInput{}); err == nil || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestFaultOfUnknownAction(t *testing.T) {
	sim, _ := inProcess(t, awssim.Options{})
	if _, err := sim.AddFault(fault.Fault{Kind: fault.Throttle, Action: "AttachEverything"}); err == nil {
		t.Error("accepted")
	}
}

func TestLostReplyOverTheNetwork(t *testing.T) {
	sim, client, _ := serve(t, awssim.Options{})
	if _, err := sim.AddFault(fault.Fault{Kind: fault.LoseReply, Count: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := client.CreateTags(t.Context(), &sdk.CreateTagsInput{Resources: []string{subnetA}, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})
	if codeOf(err) != "?" {
		t.Errorf("got %v, want a broken connection", err)
	}
	if calls := sim.Calls().Mutating; calls.Count != 1 || calls.Failed != 1 {
		t.Errorf("calls %+v", calls)
	}
}

func TestCalls(t *testing.T) {
	sim, client := inProcess(t, awssim.Options{Limits: map[string]awssim.Bucket{"DeleteNetworkInterface": {Capacity: 1}}})
	ctx := t.Context()
	remove := func(dryRun bool) {
		_, _ = client.DeleteNetworkInterface(ctx, &sdk.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String("eni-0000000000000dead"), DryRun: &dryRun})
	}
	remove(false)
	remove(false)
	_, _ = client.CreateNetworkInterface(ctx, &sdk.CreateNetworkInterfaceInput{SubnetId: aws.String(subnetA), DryRun: aws.Bool(true)})
	_, _ = client.DescribeVpcs(ctx, &sdk.DescribeVpcsInput{})
	got := sim.Calls()
	deleted := got.Actions["DeleteNetworkInterface"]
	switch {
	case got.Mutating != awssim.Tally{Count: 3, Throttled: 1, Failed: 1}, got.NonMutating != awssim.Tally{Count: 1}:
		t.Errorf("calls %+v", got)
	case deleted.Count != 2, deleted.Errors["InvalidNetworkInterfaceID.NotFound"] != 1, deleted.Errors["RequestLimitExceeded"] != 1:
		t.Errorf("deletes %+v", deleted)
	case got.Actions["CreateNetworkInterface"].DryRun != 1, deleted.FirstAt.After(deleted.LastAt):
		t.Errorf("calls %+v", got)
	}
	recent := sim.RecentCalls()
	if len(recent) != 4 || recent[0].Parameters["NetworkInterfaceId"] != "eni-0000000000000dead" || !strings.Contains(recent[0].UserAgent, "aws-sdk-go-v2") {
		t.Errorf("recent %+v", recent)
	}
	sim.ResetCalls()
	if got := sim.Calls(); got.Mutating.Count != 0 || len(got.Actions) != 0 {
		t.Errorf("after the reset %+v", got)
	}
}

func TestRecentCallsAreARing(t *testing.T) {
	sim, client := inProcess(t, awssim.Options{Limits: map[string]awssim.Bucket{}})
	for range 1001 {
		_, _ = client.DescribeVpcs(t.Context(), &sdk.DescribeVpcsInput{})
	}
	recent := sim.RecentCalls()
	if len(recent) != 1000 || recent[0].Time.After(recent[999].Time) || recent[0].RequestID >= recent[999].RequestID {
		t.Errorf("%d calls, from %s to %s", len(recent), recent[0].RequestID, recent[len(recent)-1].RequestID)
	}
}

func TestEveryCallIsLogged(t *testing.T) {
	var log bytes.Buffer
	_, client := inProcess(t, awssim.Options{Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	_, _ = client.DeleteNetworkInterface(t.Context(), &sdk.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String("eni-0000000000000dead")})
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line["action"] != "DeleteNetworkInterface" || line["code"] != "InvalidNetworkInterfaceID.NotFound" {
		t.Errorf("%v: %s", err, log.String())
	}
}

func TestScaledClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := awssim.ScaledClock(20)
		began, real := clock.Now(), time.Now()
		if err := clock.Sleep(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if simulated, slept := clock.Now().Sub(began), time.Since(real); simulated != time.Minute || slept != 3*time.Second {
			t.Errorf("%s in %s, want a minute in 3 s", simulated, slept)
		}
	})
}

func TestReset(t *testing.T) {
	sim, client := inProcess(t, awssim.Options{Behavior: &ec2.Behavior{}})
	before := sim.State()
	if _, err := client.CreateNetworkInterface(t.Context(), &sdk.CreateNetworkInterfaceInput{SubnetId: aws.String(subnetA)}); err != nil {
		t.Fatal(err)
	}
	if err := sim.Reset(); err != nil {
		t.Fatal(err)
	}
	after := sim.State()
	if len(after.NetworkInterfaces) != len(before.NetworkInterfaces) || after.NetworkInterfaces[0].NetworkInterfaceID != before.NetworkInterfaces[0].NetworkInterfaceID || sim.Calls().Mutating.Count != 0 {
		t.Error("not as at the beginning")
	}
}

func TestLoadWorld(t *testing.T) {
	read := func(text string) error {
		_, err := awssim.LoadWorld(strings.NewReader(text))
		return err
	}
	good := "region: us-east-1\navailabilityZones: [{zoneName: us-east-1a, zoneId: use1-az1}]\n"
	if err := read(good); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"unknown member":    good + "colour: red\n",
		"a member twice":    good + "region: x\n",
		"no YAML":           "{",
		"an address":        good + "vpcs: [{vpcId: vpc-1, cidrBlock: 10.0}]\n",
		"something missing": "region: us-east-1\n",
	} {
		if read(text) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestExampleWorld(t *testing.T) {
	world, err := awssim.LoadWorldFile("worlds/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(world.Instances) != 6 || len(awssim.ExampleWorld().Instances) != 6 {
		t.Errorf("%d instances, want 6", len(world.Instances))
	}
}
