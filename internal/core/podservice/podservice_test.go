// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podservice_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/podservice"
)

// status returns the annotation that Multus writes for a pod with an address on eth0, and further entries.
func status(entries ...string) string {
	return `[{"name":"aws-cni","interface":"eth0","ips":["10.0.1.7"],"default":true}` + strings.Join(append([]string{""}, entries...), ",") + `]`
}

// entry returns an entry of the annotation for a definition.
func entry(definition string, ips ...string) string {
	return fmt.Sprintf(`{"name":%q,"interface":"net1","ips":["%s"],"mac":"02:00:00:00:00:01","dns":{}}`, definition, strings.Join(ips, `","`))
}

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestChoose(t *testing.T) {
	ipvlan := podservice.Given{Known: true, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.64.16/28"), netip.MustParsePrefix("2600:1f18::/80")}}
	single := podservice.Given{Known: true, Addresses: addresses("10.0.64.200")}
	for name, c := range map[string]struct {
		pod       podservice.Pod
		given     podservice.Given
		addresses []netip.Addr
		refused   []netip.Addr
	}{
		"an address of a prefix":                  {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.17"))}, ipvlan, addresses("10.0.64.17"), nil},
		"both families":                           {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.17", "2600:1f18::5"))}, ipvlan, addresses("10.0.64.17", "2600:1f18::5"), nil},
		"IPv4 in the form of IPv6":                {podservice.Pod{Status: status(entry("upf/n3", "::ffff:10.0.64.17"))}, ipvlan, addresses("10.0.64.17"), nil},
		"an address with its length":              {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.17/20"))}, ipvlan, addresses("10.0.64.17"), nil},
		"two attachments: the first counts":       {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.18"), entry("upf/n3", "10.0.64.17"))}, ipvlan, addresses("10.0.64.18"), nil},
		"a definition in another namespace":       {podservice.Pod{Status: status(entry("net/n3", "10.0.64.17"))}, ipvlan, addresses("10.0.64.17"), nil},
		"a definition of the user's own":          {podservice.Pod{Status: status(entry("upf/mine", "10.0.64.17"))}, ipvlan, addresses("10.0.64.17"), nil},
		"a definition without its namespace":      {podservice.Pod{Status: status(entry("n3", "10.0.64.99"))}, ipvlan, nil, addresses("10.0.64.99")},
		"the interface or a FloatingAddress":      {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.200"))}, single, addresses("10.0.64.200"), nil},
		"another network":                         {podservice.Pod{Status: status(entry("upf/n6", "10.0.96.17"))}, ipvlan, nil, nil},
		"the network of the cluster alone":        {podservice.Pod{Status: status()}, ipvlan, nil, nil},
		"the network of the cluster, as a prefix": {podservice.Pod{Status: strings.Replace(status(), "10.0.1.7", "10.0.64.17", 1)}, ipvlan, nil, nil},
		"Multus has not attached the pod":         {podservice.Pod{}, ipvlan, nil, nil},
		"no address":                              {podservice.Pod{Status: status(`{"name":"upf/n3","interface":"net1"}`)}, ipvlan, nil, nil},
		"a forged address":                        {podservice.Pod{Status: status(entry("upf/n3", "10.0.0.2"))}, ipvlan, nil, addresses("10.0.0.2")},
		"a forged address before the right one":   {podservice.Pod{Status: status(entry("upf/n3", "10.0.0.2", "10.0.64.17"))}, ipvlan, addresses("10.0.64.17"), addresses("10.0.0.2")},
		"a forged address that was published":     {podservice.Pod{Status: status(entry("upf/n3", "10.0.0.2")), Published: addresses("10.0.0.2")}, ipvlan, nil, addresses("10.0.0.2")},
		"a node without the network":              {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.17"))}, podservice.Given{Known: true}, nil, addresses("10.0.64.17")},
		"no state of the node, published":         {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.17")), Published: addresses("10.0.64.17")}, podservice.Given{}, addresses("10.0.64.17"), nil},
		"no state of the node, not published":     {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.17"))}, podservice.Given{}, nil, nil},
		"no state of the node, another published": {podservice.Pod{Status: status(entry("upf/n3", "10.0.64.17")), Published: addresses("10.0.64.18")}, podservice.Given{}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			choice := podservice.Choose("n3", c.pod, c.given)
			want := podservice.Choice{Addresses: c.addresses, Refused: c.refused}
			if diff := cmp.Diff(want, choice, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("choice (-want +got):\n%s", diff)
			}
		})
	}
}

// An annotation that cannot be read publishes what can be read of it, and says so.
func TestAnAnnotationThatCannotBeRead(t *testing.T) {
	given := podservice.Given{Known: true, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.64.16/28")}}
	for name, c := range map[string]struct {
		status string
		want   int
	}{
		"no JSON":    {"n3: 10.0.64.17", 0},
		"no list":    {`{"name":"upf/n3"}`, 0},
		"no address": {status(entry("upf/n6", "localhost"), entry("upf/n3", "10.0.64.17")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			choice := podservice.Choose("n3", podservice.Pod{Status: c.status}, given)
			if choice.Err == nil || len(choice.Addresses) != c.want {
				t.Errorf("the choice is %+v", choice)
			}
		})
	}
}

func TestProblem(t *testing.T) {
	service := podservice.Findings{
		NetworkKey: "networking.k8s.aws/pod-network", Network: "n3", SelectorKey: "networking.k8s.aws/pod-selector", Selector: "app=upf",
		Namespace: "upf", Families: "IPv4 or IPv6", Exists: true, Selected: 2, Published: 1,
	}
	with := func(change func(*podservice.Findings)) podservice.Findings {
		changed := service
		change(&changed)
		return changed
	}
	refused := func(n int) (all []podservice.Refusal) {
		for i := range n {
			all = append(all, podservice.Refusal{Namespace: "upf", Pod: fmt.Sprintf("upf-%d", n-i), Node: "node-a1", Addresses: addresses("10.0.0.2", "10.0.0.3")})
		}
		return all
	}
	for name, c := range map[string]struct {
		found  podservice.Findings
		reason string
		says   []string
		passes bool
	}{
		"none":                  {service, "", nil, false},
		"spec.selector":         {with(func(f *podservice.Findings) { f.Unsupported = "the Service has spec.selector" }), podservice.ServiceNotSupported, []string{"spec.selector", "networking.k8s.aws/pod-network"}, false},
		"a selector of no form": {with(func(f *podservice.Findings) { f.Selector, f.SelectorErr = "app=(", errors.New("found '('") }), podservice.InvalidPodSelector, []string{`"app=("`, "found '('", "such as app=upf"}, false},
		"a forged address":      {with(func(f *podservice.Findings) { f.Refused = refused(1) }), podservice.AddressNotOfTheNetwork, []string{"upf/upf-1", "10.0.0.2, 10.0.0.3", "network n3", "node node-a1"}, true},
		"three forged ones":     {with(func(f *podservice.Findings) { f.Refused = refused(3) }), podservice.AddressNotOfTheNetwork, []string{"upf/upf-1", "2 further pods"}, true},
		"an annotation without form": {with(func(f *podservice.Findings) {
			f.Refused = []podservice.Refusal{{Namespace: "upf", Pod: "upf-1", Node: "node-a1", Err: errors.New("unexpected end")}}
		}), podservice.AddressNotOfTheNetwork, []string{"cannot be read: unexpected end"}, true},
		"no such network":       {with(func(f *podservice.Findings) { f.Exists, f.Published = false, 0 }), podservice.PodNetworkNotFound, []string{"network n3", "networking.k8s.aws/pod-network"}, true},
		"its last pods stay":    {with(func(f *podservice.Findings) { f.Exists = false }), "", nil, false},
		"no pod on the network": {with(func(f *podservice.Findings) { f.Published = 0 }), podservice.NoPodOnNetwork, []string{"app=upf matches 2 running pods", "none has an IPv4 or IPv6 address of network n3", "k8s.v1.cni.cncf.io/networks: n3"}, true},
		"no pod":                {with(func(f *podservice.Findings) { f.Selected, f.Published = 0, 0 }), podservice.NoPodOnNetwork, []string{"namespace upf", "app=upf", "network n3"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			problem := c.found.Problem()
			if problem == nil {
				problem = &podservice.Problem{}
			}
			if problem.Reason != c.reason || problem.Passes != c.passes {
				t.Errorf("the problem is %+v, want %s, which passes: %t", problem, c.reason, c.passes)
			}
			if normal := name == "no pod"; problem.Normal != normal {
				t.Errorf("the problem can be intended: %t", problem.Normal)
			}
			for _, part := range c.says {
				if !strings.Contains(problem.Message, part) {
					t.Errorf("the message lacks %q: %s", part, problem.Message)
				}
			}
		})
	}
}

// The API server refuses an Event with a longer note.
func TestAMessageFitsIntoAnEvent(t *testing.T) {
	long := podservice.Findings{Network: "n3", Selector: strings.Repeat("x", 5000), SelectorErr: errors.New("too long")}
	if message := long.Problem().Message; len(message) > 1024 {
		t.Errorf("the message has %d bytes", len(message))
	}
}
