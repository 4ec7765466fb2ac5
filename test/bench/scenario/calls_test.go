// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/bench/scenario"
)

func TestReadsFor(t *testing.T) {
	since := time.Unix(1000, 0)
	call := func(after time.Duration, action, name, value string) awssim.RecentCall {
		return awssim.RecentCall{Time: since.Add(after), Action: action, Parameters: map[string]string{name: value}}
	}
	attached := func(id, instance string) *ec2.NetworkInterface {
		return &ec2.NetworkInterface{NetworkInterfaceID: id, Attachment: &ec2.Attachment{InstanceID: instance}}
	}
	reads := scenario.ReadsFor("i-1",
		[]*ec2.NetworkInterface{attached("eni-1", "i-1"), attached("eni-2", "i-2"), {NetworkInterfaceID: "eni-3"}},
		[]awssim.RecentCall{
			call(-1, "DescribeInstances", "Filter.1.Value.1", "i-1"), // too early
			call(0, "DescribeInstances", "Filter.1.Value.1", "i-1"),
			call(1, "DescribeNetworkInterfaces", "Filter.1.Value.7", "eni-1"),
			call(2, "DescribeNetworkInterfaces", "Filter.1.Value.1", "eni-2"),
			call(3, "DescribeNetworkInterfaces", "Filter.1.Value.1", "eni-3"),
			call(4, "AttachNetworkInterface", "InstanceId", "i-1"),
		}, since)
	if reads != 2 {
		t.Errorf("%d reads name i-1 or what is attached to it, want 2", reads)
	}
}
