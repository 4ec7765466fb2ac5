// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/cli/lifecyclehook"
)

// The command serves a queue with AWS's own client: it deletes every message that it handled, although messages are
// duplicated and out of order.
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
	environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"] = "a", secretKey
	for name, value := range environment {
		t.Setenv(name, value)
	}
	ctx, stop := context.WithCancel(t.Context())
	command := lifecyclehook.New()
	metrics := freeAddress(t)
	command.SetArgs([]string{"--queue-url", server.URL() + "/" + account + "/events", "--tick", "0", "--metrics-bind-address", metrics})
	log := &bytes.Buffer{}
	command.SetErr(io.MultiWriter(log, t.Output()))
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
	measured := scrape(t, "http://"+metrics+"/metrics")
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	check(t, sim, size)
	if log.Len() == 0 || strings.Contains(log.String(), secretKey) {
		t.Error("the log is empty, or tells a secret")
	}
	for _, metric := range []string{
		`multieni_lifecycle_events_total{kind="Launching",result="Ready"}`,
		`multieni_lifecycle_event_duration_seconds_count{kind="Launching"}`,
		`multieni_lifecycle_interfaces_attached_total`,
		`multieni_lifecycle_requests_total{action="CompleteLifecycleAction",code="",service="Auto Scaling"}`,
		`multieni_lifecycle_requests_total{action="DeleteMessage",code="",service="SQS"}`,
		`multieni_ec2_requests_total{action="AttachNetworkInterface",code=""}`,
	} {
		if measured[metric] < size {
			t.Errorf("%s is %v for %d instances", metric, measured[metric], size)
		}
	}
}

// secretKey must be in no log.
const secretKey = "a-secret-access-key"

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// scrape reads metrics as Prometheus does.
func scrape(t *testing.T, url string) map[string]float64 {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	values := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		at := strings.LastIndex(lines.Text(), " ")
		if value, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
			values[lines.Text()[:at]] = value
		}
	}
	return values
}
