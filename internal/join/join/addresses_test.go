// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
)

// TestAttachingIsAnnounced checks that the host learns of an interface before its link appears, so that it can prepare.
func TestAttachingIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		j := s.joiner()
		announced := map[string]string{}
		j.Attaching = func(_ context.Context, mac string) {
			for _, i := range s.sim.State().NetworkInterfaces {
				if i.MACAddress == mac {
					announced[mac] = i.Status
				}
			}
		}
		result := s.ensure(t.Context(), j, join.Request{})
		if len(result.Interfaces) != 2 || len(announced) != 2 {
			t.Errorf("%d interfaces, announced %v", len(result.Interfaces), announced)
		}
		for _, m := range result.Interfaces {
			if announced[m.Interface.MAC] != "available" {
				t.Errorf("%s was %q when it was announced", m.Interface.MAC, announced[m.Interface.MAC])
			}
		}
	})
}

// ipv6Of returns the IPv6 addresses of our interfaces in a subnet by their IPv4 addresses.
func (s *scene) ipv6Of(subnetID string) map[string]string {
	all := map[string]string{}
	for _, i := range s.sim.State().NetworkInterfaces {
		if i.SubnetID == subnetID && i.Tags[identity.TagCluster] != "" && len(i.IPv6Addresses) == 1 {
			all[i.PrivateIPAddress.String()] = i.IPv6Addresses[0].IPv6Address.String()
		}
	}
	return all
}

// TestIPv6FromTheStartOfTheSubnet checks useIPsFromStartOfSubnet: both addresses have the same offset in their blocks.
// If another interface has the IPv6 address at that offset, EC2 chooses one.
func TestIPv6FromTheStartOfTheSubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		j := s.joiner()
		s.ensure(t.Context(), j, join.Request{})
		second := s.launch("us-east-1a")
		s.ensure(t.Context(), j, join.Request{InstanceID: second})
		got := s.ipv6Of(subnetA)
		if len(got) != 2 || !strings.HasSuffix(got["10.0.64.4"], "::4") || !strings.HasSuffix(got["10.0.64.5"], "::5") {
			t.Errorf("got %v", got)
		}
		next := netip.MustParseAddr(strings.TrimSuffix(got["10.0.64.4"], "4") + "6")
		taken := s.cloud()
		if _, err := taken.CreateInterface(t.Context(), executor.CreateRequest{SubnetID: subnetA, Groups: []string{group}, PrimaryIPv4: netip.MustParseAddr("10.0.70.1"), IPv6: next}); err != nil {
			t.Fatal(err)
		}
		third := s.launch("us-east-1a")
		if result := s.ensure(t.Context(), s.joiner(), join.Request{InstanceID: third}); result.Outcome != lifecycle.Ready {
			t.Errorf("%+v", result.Result)
		}
		if got := s.ipv6Of(subnetA)["10.0.64.6"]; got == "" || got == next.String() {
			t.Errorf("beside an address that is taken it has %q", got)
		}
	})
}

func (s *scene) cloud() *awsec2.Client { return awsec2.New(s.cfg, awsec2.Options{Cluster: "c"}) }
