// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"context"
	"testing"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/cli/lifecyclehook"
)

// The command beside a queue, with AWS's own client of it: what was handled is deleted, though it came twice and out of order.
func TestScaleOutBesideAQueue(t *testing.T) {
	const size = 6
	world := deployed(t, size)
	environment := world.Functions[0].Environment
	world.Functions, world.EventSourceMappings = nil, nil
	sim, err := awssim.New(awssim.Options{World: world, Behavior: &ec2.Behavior{}, ServiceBehavior: &awssim.ServiceBehavior{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []fault.Kind{fault.Duplicate, fault.Reorder} {
		if _, err := sim.AddFault(fault.Fault{Kind: kind, Action: "ReceiveMessage", Probability: 0.3, Count: 5}); err != nil {
			t.Fatal(err)
		}
	}
	server, err := awssim.Listen(t.Context(), "127.0.0.1:0", sim)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	environment["AWS_ENDPOINT_URL"], environment["AWS_REGION"] = server.URL(), "us-east-1"
	environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"] = "a", "b"
	for name, value := range environment {
		t.Setenv(name, value)
	}
	ctx, stop := context.WithCancel(t.Context())
	command := lifecyclehook.New()
	command.SetArgs([]string{"--queue-url", server.URL() + "/" + account + "/events", "--tick", "0"})
	command.SetErr(t.Output())
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	left := func() int {
		for _, q := range sim.Queues() {
			if q.QueueName == "events" {
				return len(q.Messages)
			}
		}
		return 0
	}
	for deadline := time.Now().Add(time.Minute); inService(sim) < size || left() > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are in service, and %d messages are left", inService(sim), size, left())
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	check(t, sim, size)
}
