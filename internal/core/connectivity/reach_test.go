// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/connectivity"
	"github.com/multieni/multieni/internal/core/report"
)

func TestReach(t *testing.T) {
	for name, tc := range map[string]struct {
		output string
		grade  report.Severity
		found  string
		next   string
	}{
		"iputils": {
			"PING 10.0.2.33 (10.0.2.33) from 10.0.1.17 : 56(84) bytes of data.\n\n--- 10.0.2.33 ping statistics ---\n3 packets transmitted, 3 received, 0% packet loss, time 2003ms\n",
			report.OK, "3 packets were answered from 10.0.1.17 to 10.0.2.33", "",
		},
		"BusyBox": {
			"PING 10.0.2.33 (10.0.2.33): 56 data bytes\n\n--- 10.0.2.33 ping statistics ---\n3 packets transmitted, 3 packets received, 0% packet loss\n",
			report.OK, "3 packets were answered", "",
		},
		"some answers": {
			"4 packets transmitted, 3 received, 25% packet loss, time 3003ms", report.Warning, "3 of 4 packets", "Repeat the check",
		},
		"no answer": {
			"6 packets transmitted, 0 packets received, 100% packet loss\ncommand terminated with exit code 1\n", report.Failed, "no answer to 6 packets", "network ACLs",
		},
		"errors from a router": {
			"From 10.0.1.1 icmp_seq=1 Destination Host Unreachable\n3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 2044ms", report.Failed, "no answer to 3 packets",
			"network ACLs",
		},
		"no ping in the image": {
			`exec: "ping": executable file not found in $PATH` + "\ncommand terminated with exit code 126\n", report.Warning, "executable file not found",
			"kubectl debug -n upf upf-a -it --image=busybox --profile=netadmin -- ping -c 3 -I 10.0.1.17 10.0.2.33",
		},
		"no permission": {`Error from server (Forbidden): pods "upf-a" is forbidden`, report.Warning, "is forbidden", "create pods/exec in namespace upf"},
		"nothing":       {"", report.Warning, "ping printed nothing", "pods/exec"},
	} {
		t.Run(name, func(t *testing.T) {
			got := connectivity.Reach(connectivity.Ping{
				From: connectivity.PodName{Namespace: "upf", Name: "upf-a"}, To: connectivity.PodName{Namespace: "upf", Name: "upf-b"},
				Source: netip.MustParseAddr("10.0.1.17"), Destination: netip.MustParseAddr("10.0.2.33"), Output: tc.output,
			})
			if got.Check != "ping from upf/upf-a to upf/upf-b" || got.Grade != tc.grade {
				t.Errorf("%s is %s, want %s", got.Check, got.Grade, tc.grade)
			}
			if !strings.Contains(got.Found, tc.found) || !strings.Contains(got.Next, tc.next) {
				t.Errorf("found %q, next %q", got.Found, got.Next)
			}
		})
	}
}

func TestPingsGoBothWaysInEachFamily(t *testing.T) {
	f := healthy()
	f.Pods[0].Status = `[{"name":"upf/n3","ips":["2001:db8:1:0:1::2","10.0.1.17"]}]`
	f.Pods[1].Status = `[{"name":"upf/n3","ips":["10.0.2.33","2001:db8:2:0:1::3"]}]`
	var got []string
	for _, p := range connectivity.Pings(f) {
		got = append(got, p.From.Name+" "+p.Source.String()+" "+p.Destination.String())
	}
	want := []string{
		"upf-a 10.0.1.17 10.0.2.33", "upf-a 2001:db8:1:0:1::2 2001:db8:2:0:1::3", "upf-b 10.0.2.33 10.0.1.17", "upf-b 2001:db8:2:0:1::3 2001:db8:1:0:1::2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.Pods[0].Status = ""
	if pings := connectivity.Pings(f); len(pings) > 0 {
		t.Errorf("%d pings without an address", len(pings))
	}
}

func TestChoose(t *testing.T) {
	pod := func(name string) connectivity.PodName {
		return connectivity.PodName{Namespace: "upf", Name: name}
	}
	for name, tc := range map[string]struct {
		onNodes map[string][]connectivity.PodName
		want    []string
	}{
		"different nodes": {map[string][]connectivity.PodName{"a": {pod("1"), pod("2")}, "b": {pod("3")}}, []string{"1", "3"}},
		"one node":        {map[string][]connectivity.PodName{"a": {pod("2"), pod("1")}, "b": nil}, []string{"1", "2"}},
		"one pod twice":   {map[string][]connectivity.PodName{"a": {pod("1"), pod("1")}}, nil},
		"none":            {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			if pair, ok := connectivity.Choose(tc.onNodes); ok {
				got = []string{pair[0].Name, pair[1].Name}
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
