// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"fmt"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// A node template declares a second interface, n3, in a subnet of its own. That subnet is in one zone, so there is a
// launch template for this zone alone. An instance type with one interface is not eligible.
func ExampleRender() {
	in := func(id, zone string) eni.Subnet {
		return eni.Subnet{ID: id, Zone: zone, VPCID: "vpc-1", FreeIPv4: 200}
	}
	n := launchtemplate.NodeTemplate{
		Name: "upf", UID: "uid-1", Cluster: "blue",
		Network: launchtemplate.Network{
			Subnets: []eni.Subnet{in("subnet-a", "us-east-1a"), in("subnet-b", "us-east-1b")}, Groups: []string{"sg-1"},
		},
		Interfaces: []launchtemplate.Interface{
			{Slot: eni.Primary, DeleteOnTermination: true},
			{
				Name: "n3", Slot: eni.Slot{Device: 1}, DeleteOnTermination: true,
				Subnets: []eni.Subnet{in("subnet-n3", "us-east-1a")}, Groups: []string{"sg-n3"},
			},
		},
		Image: launchtemplate.Image{ID: "ami-1"}, UserData: "#!/bin/sh\njoin",
	}
	types := []launchtemplate.InstanceType{
		{Name: "m5.large", Limits: eni.Limits{Cards: []int{3}, Interfaces: 3, IPv4: 10, IPv6: 10}},
		{Name: "x1.single", Limits: eni.Limits{Cards: []int{1}, Interfaces: 1, IPv4: 10}},
	}
	r := launchtemplate.Render(n, types, nil)
	for _, template := range r.Templates {
		fmt.Println(n.TemplateName(template))
		for _, i := range template.Interfaces {
			fmt.Println(" ", i, i.Groups)
		}
		fmt.Println("  chosen for n3:", launchtemplate.ChosenSubnets(template.Data)[eni.Slot{Device: 1}])
	}
	for _, z := range r.Zones {
		fmt.Printf("%s %t %q\n", z.Zone, z.Eligible, z.Message)
	}
	for _, v := range r.Types {
		fmt.Printf("%s %t %q\n", v.Name, v.Eligible(), v.Message)
	}
	// Output:
	// multieni/16477688/upf/us-east-1a
	//   the interface at card 0 device 0 [sg-1]
	//   interface "n3" (card 0 device 1) [sg-n3]
	//   chosen for n3: subnet-n3
	// us-east-1a true ""
	// us-east-1b false "interface \"n3\" (card 0 device 1) has no subnet in it of VPC vpc-1"
	// m5.large true ""
	// x1.single false "network card 0 takes 1 interfaces, and 2 are declared"
}
