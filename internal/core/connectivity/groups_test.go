// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity_test

import (
	"testing"

	"github.com/multieni/multieni/internal/core/connectivity"
	"github.com/multieni/multieni/internal/core/eni"
)

// The only inbound rule of the group decides.
func TestARuleAllowsTraffic(t *testing.T) {
	everywhere := ranges("0.0.0.0/0", "::/0")
	port := func(protocol string, from, to int) eni.GroupRule {
		return eni.GroupRule{Protocol: protocol, FromPort: from, ToPort: to, CIDRs: everywhere}
	}
	for name, tc := range map[string]struct {
		traffic string // ICMP echo if empty
		rule    eni.GroupRule
		ipv6    bool
		want    bool
	}{
		"every protocol":                        {"", port(eni.AnyProtocol, eni.AnyPort, eni.AnyPort), false, true},
		"every type of ICMP":                    {"", port("icmp", eni.AnyPort, eni.AnyPort), false, true},
		"echo requests":                         {"", port("icmp", 8, eni.AnyPort), false, true},
		"echo requests with their code":         {"", port("icmp", 8, 0), false, true},
		"another type of ICMP":                  {"", port("icmp", 3, eni.AnyPort), false, false},
		"TCP instead of ICMP":                   {"", port("tcp", 0, 65535), false, false},
		"ICMP of IPv4 between IPv6 addresses":   {"", port("icmp", eni.AnyPort, eni.AnyPort), true, false},
		"ICMPv6":                                {"", port("icmpv6", eni.AnyPort, eni.AnyPort), true, true},
		"echo requests of ICMPv6":               {"", port("icmpv6", 128, 0), true, true},
		"a range with the port":                 {"8805/UDP", port("udp", 8000, 9000), false, true},
		"a range that begins after the port":    {"8805/UDP", port("udp", 8806, 9000), false, false},
		"a range that ends before the port":     {"8805/UDP", port("udp", 1, 8804), false, false},
		"the port of another protocol":          {"8805/UDP", port("tcp", 8805, 8805), false, false},
		"TCP by default":                        {"443", port("tcp", 443, 443), false, true},
		"the number of SCTP, without its ports": {"38412/sctp", port("132", eni.AnyPort, eni.AnyPort), false, true},
		"another number than that of SCTP":      {"38412/SCTP", port("50", eni.AnyPort, eni.AnyPort), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			rule(&f, tc.rule)
			if tc.ipv6 {
				f.Pods[0].Status = `[{"name":"upf/n3","ips":["2001:db8:1:0:1::2"]}]`
				f.Pods[1].Status = `[{"name":"upf/n3","ips":["2001:db8:2:0:1::3"]}]`
			}
			if tc.traffic != "" {
				traffic, err := connectivity.ParseTraffic(tc.traffic)
				if err != nil {
					t.Fatal(err)
				}
				f.Traffic = []connectivity.Traffic{traffic}
			}
			if failed := connectivity.Examine(f).Failed(); failed == tc.want {
				t.Errorf("%v: failed is %t", connectivity.Examine(f), failed)
			}
		})
	}
}

func TestTrafficThatIsNotValid(t *testing.T) {
	for _, text := range []string{"", "0", "65536", "-1", "http", "80/", "80/ICMP", "80/GRE", "80/TCP/UDP", " 80"} {
		if traffic, err := connectivity.ParseTraffic(text); err == nil {
			t.Errorf("%q is %v", text, traffic)
		}
	}
}
