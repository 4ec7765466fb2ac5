// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	bootstrap "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/lambda"
	"github.com/multieni/multieni/awssim/sqs"
)

// isFunction reports whether this process is the program of a function, and not a test.
func isFunction() bool { return os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" }

// serveFunction is that program: it does what the event says.
func serveFunction() {
	bootstrap.Start(func(ctx context.Context, payload json.RawMessage) (any, error) {
		var batch lambdaevents.SQSEvent
		if json.Unmarshal(payload, &batch) != nil || len(batch.Records) == 0 {
			return nil, obey(ctx, string(payload))
		}
		failures := lambdaevents.SQSEventResponse{BatchItemFailures: []lambdaevents.SQSBatchItemFailure{}}
		for _, record := range batch.Records {
			if obey(ctx, record.Body) != nil {
				failures.BatchItemFailures = append(failures.BatchItemFailures, lambdaevents.SQSBatchItemFailure{ItemIdentifier: record.MessageId})
			}
		}
		return failures, nil
	})
}

func obey(ctx context.Context, order string) error {
	switch {
	case strings.Contains(order, "fail"):
		return errors.New("as ordered")
	case strings.Contains(order, "hang"):
		select {} // also after the deadline: Lambda must kill it
	case strings.Contains(order, "crash"):
		os.Exit(3)
	}
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	_, err = sdk.NewFromConfig(settings, func(o *sdk.Options) { o.RetryMaxAttempts = 1 }).DescribeVpcs(ctx, &sdk.DescribeVpcsInput{})
	return err
}

const (
	queueARN    = "arn:aws:sqs:us-east-1:123456789012:"
	functionARN = "arn:aws:lambda:us-east-1:123456789012:function:test"
)

// withFunction returns a world with this program as a function, and a rule that invokes it.
func withFunction(t *testing.T, timeout int) awssim.World {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := awssim.ExampleWorld()
	w.Functions = []lambda.Function{{FunctionName: "test", Command: []string{program}, Timeout: timeout, DeadLetterTargetARN: queueARN + "dead"}}
	w.Queues = []sqs.WorldQueue{{QueueName: "dead"}, {QueueName: "work", Attributes: map[string]string{"VisibilityTimeout": "3600"}}}
	w.Rules = []events.Rule{{Name: "all", EventPattern: map[string]any{"source": []any{"test"}}, Targets: []events.Target{{ARN: functionARN}}}}
	return w
}

// outcomes runs the function for a number of invocations, and returns their results.
func outcomes(t *testing.T, sim *awssim.Simulator, count int) []lambda.Outcome {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for ; time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if recent := sim.Functions()[0].Recent; len(recent) >= count {
			return recent
		}
	}
	t.Fatalf("gave up; the function is at %+v", sim.Functions()[0])
	return nil
}

// fast is a clock that runs faster than real time, because Lambda waits for minutes.
func fast(w awssim.World) awssim.Options {
	o := instantly(w)
	o.Clock, o.Behavior = awssim.ScaledClock(120), &ec2.Behavior{}
	return o
}

func order(sim *awssim.Simulator, what string) {
	sim.PutEvent(events.Event{Source: "test", DetailType: "order", Detail: what})
}

func TestFunctionOfARule(t *testing.T) {
	for name, row := range map[string]struct {
		order   string
		timeout int
		fault   fault.Kind
		want    []string // by attempt; the first words of the failure
		dead    int
	}{
		"works":              {order: "work", want: []string{""}},
		"fails three times":  {order: "fail", want: []string{"errorString: as ordered", "errorString", "errorString"}, dead: 1},
		"crashes":            {order: "crash", want: []string{"Runtime.ExitError", "Runtime.ExitError", "Runtime.ExitError"}, dead: 1},
		"runs out of time":   {order: "hang", timeout: 10, want: []string{"Sandbox.Timedout"}},
		"killed before call": {order: "work", fault: fault.KillBefore, want: []string{"Runtime.ExitError", ""}},
		"killed after call":  {order: "work", fault: fault.KillAfter, want: []string{"Runtime.ExitError", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, _, _ := serve(t, fast(withFunction(t, cmp.Or(row.timeout, 900))))
			if row.fault != "" {
				if _, err := sim.AddFault(fault.Fault{Kind: row.fault, Action: "DescribeVpcs", Count: 1}); err != nil {
					t.Fatal(err)
				}
			}
			order(sim, row.order)
			for i, got := range outcomes(t, sim, len(row.want))[:len(row.want)] {
				if got.Attempt != i+1 || !strings.HasPrefix(got.Failure, row.want[i]) || (got.Failure == "") != (row.want[i] == "") {
					t.Errorf("attempt %d: %+v, want %q", i+1, got, row.want[i])
				}
			}
			if dead := sim.Queues()[0].Messages; len(dead) != row.dead {
				t.Errorf("%d dead letters, want %d", len(dead), row.dead)
			}
		})
	}
}

func TestFunctionOfAQueue(t *testing.T) {
	t.Parallel()
	w := withFunction(t, 900)
	w.EventSourceMappings = []lambda.EventSourceMapping{{
		EventSourceARN: queueARN + "work", FunctionName: "test", FunctionResponseTypes: []string{lambda.ReportBatchItemFailures},
	}}
	sim, _, _ := serve(t, fast(w))
	clientsAt("http://simulated", sim.Transport()).send(t, "work", "work", "fail", "work")
	for _, outcome := range outcomes(t, sim, 1) {
		if outcome.Failure != "" {
			t.Errorf("%+v", outcome)
		}
	}
	deadline := time.Now().Add(time.Minute)
	var left []string
	for ; time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		left = nil
		for _, message := range sim.Queues()[1].Messages {
			left = append(left, message.Body)
		}
		if len(left) == 1 {
			break
		}
	}
	if len(left) != 1 || left[0] != "fail" {
		t.Errorf("the queue has %q, want what failed", left)
	}
}
