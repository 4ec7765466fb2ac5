// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"fmt"
	"net/netip"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
)

// assign makes the call that the published address-management samples make for an address of a pod.
func (v *vpc) assign(t *testing.T, eni string, address netip.Addr) {
	t.Helper()
	reassign := true
	if _, err := v.ec2.AssignPrivateIpAddresses(t.Context(), &sdk.AssignPrivateIpAddressesInput{
		NetworkInterfaceId: &eni, PrivateIpAddresses: []string{address.String()}, AllowReassignment: &reassign,
	}); err != nil {
		t.Fatal(err)
	}
	if err := v.fabric.Sync(); err != nil {
		t.Fatal(err)
	}
}

// An IPAM plugin of the user chooses an address without EC2. The VPC delivers to the pod once EC2 has the address.
func TestAddressesOfAnotherIPAM(t *testing.T) {
	const routes = `"routes": [{"dst": "10.0.64.0/19"}]`
	for _, test := range []struct{ name, ipam, address string }{
		{"static", `{"type": "static", "addresses": [{"address": "10.0.64.200/20", "gateway": "10.0.64.1"}], ` + routes + `}`, "10.0.64.200"},
		{"host-local", `{"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.0.64.0/20", "rangeStart": "10.0.64.210",
			"rangeEnd": "10.0.64.219", "gateway": "10.0.64.1"}]], ` + routes + `}`, "10.0.64.210"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := newVPC(t)
			a, networkA := v.node(t, instanceA, subnetA)
			b, networkB := v.node(t, instanceB, subnetB)
			networkB.Routes = append(networkB.Routes, networkA.IPv4.Subnet)
			b.write(networkB)
			ipam := test.ipam
			if test.name == "host-local" {
				ipam = fmt.Sprintf(ipam, t.TempDir())
			}
			own := a.configuration("own", `{"type": "macvlan", "master": "net-n3", "mode": "bridge", "ipam": `+ipam+`}`)
			podA, podB := a.pod("own-a"), b.pod("upf-b")
			address := addresses(t, a.mustAdd(own, podA, "net1"))[0]
			if want := netip.MustParseAddr(test.address); address != want {
				t.Fatalf("the pod has %v, want %v", address, want)
			}
			b.mustAdd(b.shared("n3"), podB, "net1")

			if podB.pings(t, address) {
				t.Errorf("%v is answered, although EC2 does not know it", address)
			}
			v.assign(t, networkA.ENI, address)
			if !podB.pings(t, address) {
				t.Errorf("%v is not answered after EC2 has it on the node's interface", address)
			}
			a.del(own, podA, "net1")
			if podB.pings(t, address) {
				t.Errorf("%v is answered after its pod has gone", address)
			}
		})
	}
}
