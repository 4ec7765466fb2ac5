// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// curl makes a request to the control plane.
func curl(t *testing.T, method, url, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestControlPlane(t *testing.T) {
	sim, _, url := serve(t, awssim.Options{Behavior: &ec2.Behavior{}})
	expect := func(method, path, body string, want int) string {
		t.Helper()
		status, answer := curl(t, method, url+path, body)
		if status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, status, want, answer)
		}
		return answer
	}
	if help := expect("GET", "/_sim/", "", 200); !strings.Contains(help, "/_sim/faults") {
		t.Errorf("help %q", help)
	}
	expect("GET", "/_sim/healthz", "", 200)
	expect("GET", "/_sim/nothing", "", 404)

	var launched struct{ Instances []struct{ InstanceID string } }
	answer := expect("POST", "/_sim/instances", `{"instanceType":"t3.medium","availabilityZone":"us-east-1b","count":2,"name":"n"}`, 201)
	if err := json.Unmarshal([]byte(answer), &launched); err != nil || len(launched.Instances) != 2 {
		t.Fatalf("%v: %s", err, answer)
	}
	one := "/_sim/instances/" + launched.Instances[0].InstanceID
	expect("POST", "/_sim/instances", `{"instanceType":"z9.nano","availabilityZone":"us-east-1b"}`, 400)
	expect("POST", "/_sim/instances", `{"colour":"red"}`, 400)
	expect("POST", one+"/stop", "", 204)
	expect("POST", one+"/start", "", 204)
	expect("DELETE", one, "", 204)
	expect("DELETE", "/_sim/instances/i-0000000000000dead", "", 400)

	added := expect("POST", "/_sim/faults", `{"kind":"throttle","action":"DescribeVpcs","duration":"1h"}`, 201)
	if !strings.Contains(added, `"id": 1`) || len(sim.Faults()) != 1 {
		t.Errorf("added %s", added)
	}
	expect("POST", "/_sim/faults", `{"kind":"fire"}`, 400)
	expect("GET", "/_sim/faults", "", 200)
	expect("DELETE", "/_sim/faults/7", "", 404)
	expect("DELETE", "/_sim/faults/1", "", 204)
	expect("DELETE", "/_sim/faults", "", 204)

	expect("GET", "/_sim/calls", "", 200)
	expect("GET", "/_sim/calls/recent", "", 200)
	expect("POST", "/_sim/calls/reset", "", 204)
	expect("POST", "/_sim/events", `{"source":"aws.ec2","detailType":"t","detail":{}}`, 204)
	expect("POST", "/_sim/events", `{"sauce":"aws.ec2"}`, 400)
	expect("POST", "/_sim/functions", `{"functionName":"f"}`, 204)
	expect("POST", "/_sim/functions", `{"functionName":"f"}`, 400)
	expect("POST", "/_sim/event-source-mappings", `{"eventSourceArn":"arn:aws:sqs:us-east-1:123456789012:none","functionName":"f"}`, 400)
	if state := expect("GET", "/_sim/state", "", 200); !strings.Contains(state, `"functionArn": "arn:aws:lambda:us-east-1:123456789012:function:f"`) {
		t.Error("the state has no functions")
	}
	expect("POST", "/_sim/reset", "", 204)
	if n := len(sim.State().Instances); n != 6 {
		t.Errorf("%d instances after the reset, want 6", n)
	}
}

// TestStateJSON checks the names that programs read.
func TestStateJSON(t *testing.T) {
	_, client, url := serve(t, awssim.Options{Behavior: &ec2.Behavior{}})
	created, err := client.CreateNetworkInterface(t.Context(), &sdk.CreateNetworkInterfaceInput{
		SubnetId: aws.String(subnetA),
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("network")}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.AttachNetworkInterface(t.Context(), &sdk.AttachNetworkInterfaceInput{
		NetworkInterfaceId: created.NetworkInterface.NetworkInterfaceId, InstanceId: aws.String(smallA), DeviceIndex: aws.Int32(2),
	}); err != nil {
		t.Fatal(err)
	}
	_, text := curl(t, "GET", url+"/_sim/state", "")
	var state struct {
		NetworkInterfaces, Instances []map[string]any
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	var found map[string]any
	for _, eni := range state.NetworkInterfaces {
		if eni["networkInterfaceId"] == *created.NetworkInterface.NetworkInterfaceId {
			found = eni
		}
	}
	attachment, _ := found["attachment"].(map[string]any)
	tags, _ := found["tags"].(map[string]any)
	addresses, _ := found["privateIpAddresses"].([]any)
	if attachment["deviceIndex"] != 2.0 || attachment["instanceId"] != smallA || tags["team"] != "network" || len(addresses) != 1 {
		t.Errorf("interface %v", found)
	}
	if len(state.Instances) != 6 || state.Instances[0]["instanceId"] != instanceA {
		t.Errorf("%d instances", len(state.Instances))
	}
}
