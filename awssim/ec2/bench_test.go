// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
)

// fleet returns a model of 10,000 interfaces with the tags that a controller sets.
func fleet(b *testing.B) (*ec2.Model, ec2.Call) {
	b.Helper()
	world := smallWorld()
	world.Quotas.NetworkInterfaces = 20000
	m, call := start(b, world, ec2.Behavior{})
	for i := range 10000 {
		if _, err := m.CreateNetworkInterface(call, &ec2.CreateNetworkInterfaceInput{
			InterfaceSettings: ec2.InterfaceSettings{SubnetID: bigSubnet},
			TagSpecifications: []ec2.TagSpecification{{ResourceType: "network-interface", Tags: []ec2.Tag{
				tag("cluster", "one"), tag("node", fmt.Sprintf("node-%d", i/2)), tag("ordinal", fmt.Sprint(i%2)),
				tag("created-at", "2026-01-01T00:00:00Z"), tag("generation", "1"), tag("managed-by", "bench"),
			}}},
		}); err != nil {
			b.Fatal(err)
		}
	}
	return m, call
}

func BenchmarkDescribePageByTag(b *testing.B) {
	m, call := fleet(b)
	in := &ec2.DescribeNetworkInterfacesInput{Page: ec2.Page{
		Filters: []ec2.Filter{{Name: "tag:cluster", Values: []string{"one"}}}, MaxResults: new(1000),
	}}
	for b.Loop() {
		out, err := m.DescribeNetworkInterfaces(call, in)
		if err != nil || len(out.NetworkInterfaces) != 1000 {
			b.Fatal(len(out.NetworkInterfaces), err)
		}
	}
}

// BenchmarkSteps measures the life of one interface in a simulation.
func BenchmarkSteps(b *testing.B) {
	m, call := fleet(b)
	b.ReportAllocs()
	for b.Loop() {
		call.Now = call.Now.Add(time.Second)
		created, err := m.CreateNetworkInterface(call, create(subnetA))
		if err != nil {
			b.Fatal(err)
		}
		id := created.NetworkInterface.NetworkInterfaceID
		attached, err := m.AttachNetworkInterface(call, attach(id, instanceA, 0, 1))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.DetachNetworkInterface(call, &ec2.DetachNetworkInterfaceInput{AttachmentID: attached.AttachmentID}); err != nil {
			b.Fatal(err)
		}
		if _, err := m.DeleteNetworkInterface(call, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: id}); err != nil {
			b.Fatal(err)
		}
	}
}
