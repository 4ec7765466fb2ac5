// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"net/netip"
	"testing"

	"github.com/multieni/multieni/awssim/ec2"
)

func TestWorldValidate(t *testing.T) {
	if err := smallWorld().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*ec2.World){
		"no region":             func(w *ec2.World) { w.Region = "" },
		"no zones":              func(w *ec2.World) { w.AvailabilityZones = nil },
		"no VPC ID":             func(w *ec2.World) { w.VPCs[0].VPCID = "" },
		"an ID twice":           func(w *ec2.World) { w.Subnets[1].SubnetID = w.Subnets[0].SubnetID },
		"unknown VPC":           func(w *ec2.World) { w.Subnets[0].VPCID = "vpc-x" },
		"unknown zone":          func(w *ec2.World) { w.Subnets[0].AvailabilityZone = "us-east-1z" },
		"overlapping subnets":   func(w *ec2.World) { w.Subnets[1].CIDRBlock = w.Subnets[0].CIDRBlock },
		"subnet outside VPC":    func(w *ec2.World) { w.Subnets[1].CIDRBlock = netip.MustParsePrefix("10.9.0.0/24") },
		"subnet too small":      func(w *ec2.World) { w.Subnets[1].CIDRBlock = netip.MustParsePrefix("10.0.16.0/29") },
		"IPv6 range not a /64":  func(w *ec2.World) { w.Subnets[1].IPv6CIDRBlock = netip.MustParsePrefix("2001:db8::/56") },
		"no IPv4 range":         func(w *ec2.World) { w.Subnets[1].CIDRBlock = netip.Prefix{} },
		"IPv6-only with IPv4":   func(w *ec2.World) { w.Subnets[0].IPv6Native = true },
		"IPv6-only and no IPv6": func(w *ec2.World) { w.Subnets[1].IPv6Native, w.Subnets[1].CIDRBlock = true, netip.Prefix{} },
		"unknown instance type": func(w *ec2.World) { w.Instances[0].InstanceType = "z9.nano" },
		"instance nowhere":      func(w *ec2.World) { w.Instances[0].SubnetID = "" },
		"unknown group":         func(w *ec2.World) { w.Instances[0].SecurityGroupIDs = []string{"sg-x"} },
		"an ID for two":         func(w *ec2.World) { w.Instances[0].Count = 2 },
		"interface nowhere":     func(w *ec2.World) { w.NetworkInterfaces[0].SubnetID = "" },
	} {
		t.Run(name, func(t *testing.T) {
			world := smallWorld()
			spoil(&world)
			if world.Validate() == nil {
				t.Error("is not noticed")
			}
			if _, err := ec2.New(ec2.Options{World: world}); err == nil {
				t.Error("is built")
			}
		})
	}
}
