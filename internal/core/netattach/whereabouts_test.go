// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package netattach_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/netattach"
)

func TestWhereaboutsDefinitions(t *testing.T) {
	prefix := netip.MustParsePrefix
	n3, second := netattach.Network{NodeENI: "n3"}, netattach.Network{NodeENI: "n3", Ordinal: 1}
	config := func(name, master, subnet, start, end string) string {
		return `{"cniVersion":"1.0.0","name":"` + name + `","plugins":[{"type":"ipvlan","master":"` + master + `","mode":"l2",` +
			`"ipam":{"type":"whereabouts","range":"` + subnet + `","range_start":"` + start + `","range_end":"` + end + `"}}]}`
	}
	got := netattach.WhereaboutsDefinitions([]netattach.Range{
		{n3, "us-east-1a", prefix("10.0.4.0/24"), prefix("10.0.4.128/25")},
		{n3, "us-east-1b", prefix("10.0.6.0/24"), prefix("10.0.6.0/25")},
		{n3, "us-east-1b", prefix("10.0.6.0/24"), prefix("10.0.6.192/27")},
		{second, "us-east-1b", prefix("10.0.7.0/24"), prefix("10.0.7.16/28")},
		{n3, "us-east-1c", prefix("10.0.8.0/24"), prefix("10.0.8.0/30")}, // EC2 keeps all of it
	})
	want := []netattach.Definition{
		{Name: "n3-us-east-1a", Config: config("n3-us-east-1a", "net-n3", "10.0.4.0/24", "10.0.4.128", "10.0.4.254")},
		{Name: "n3-us-east-1b", Config: config("n3-us-east-1b", "net-n3", "10.0.6.0/24", "10.0.6.4", "10.0.6.127")},
		{Name: "n3-us-east-1b-2", Config: config("n3-us-east-1b-2", "net-n3", "10.0.6.0/24", "10.0.6.192", "10.0.6.223")},
		{Name: "n3--1-us-east-1b", Config: config("n3--1-us-east-1b", "net-n3_1", "10.0.7.0/24", "10.0.7.16", "10.0.7.31")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}
