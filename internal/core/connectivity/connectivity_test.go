// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/connectivity"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/core/report"
)

const (
	n3       = `{"plugins":[{"type":"ipvlan","master":"net-n3","ipam":{"type":"multieni-ipam","network":"n3"}},{"type":"multieni-routes"}]}`
	own      = `{"type":"ipvlan","master":"net-n3","ipam":{"type":"static"}}`
	ownRoute = `{"type":"ipvlan","master":"net-n3","ipam":{"type":"static","routes":[{"dst":"10.0.0.0/16"}]}}`
	ownSBR   = `{"plugins":[{"type":"ipvlan","master":"net-n3","ipam":{"type":"static"}},{"type":"sbr"}]}`
)

var upf = connectivity.PodName{Namespace: "upf", Name: "n3"}

// healthy are two pods of network n3 on two nodes, whose interfaces are in subnets of two zones.
func healthy() connectivity.Facts {
	group := eni.GroupRules{ID: "sg-1", Ingress: []eni.GroupRule{{Protocol: eni.AnyProtocol, Groups: []string{"sg-1"}}},
		Egress: []eni.GroupRule{{Protocol: eni.AnyProtocol, CIDRs: ranges("0.0.0.0/0", "::/0")}}}
	f := connectivity.Facts{
		Network: connectivity.Network{Name: "n3", NodeENI: "n3", Attachment: podnet.IPVLAN, Link: "net-n3"},
		EC2:     &connectivity.EC2{Interfaces: map[string]eni.Interface{}, Groups: map[string]eni.GroupRules{"sg-1": group}},
		Traffic: []connectivity.Traffic{{Protocol: connectivity.ICMP}},
	}
	for n, at := range []struct{ suffix, subnet, prefix, subnet6, prefix6, address, address6 string }{
		{"a", "10.0.1.0/24", "10.0.1.16/28", "2001:db8:1::/64", "2001:db8:1:0:1::/80", "10.0.1.17", "2001:db8:1:0:1::2"},
		{"b", "10.0.2.0/24", "10.0.2.32/28", "2001:db8:2::/64", "2001:db8:2:0:1::/80", "10.0.2.33", "2001:db8:2:0:1::3"},
	} {
		name := connectivity.PodName{Namespace: "upf", Name: "upf-" + at.suffix}
		f.Pods[n] = connectivity.Pod{
			PodName: name, Node: "node-" + at.suffix, Phase: "Running", Annotation: "n3",
			Status:      `[{"name":"aws-cni","ips":["10.9.0.1"]},{"name":"upf/n3","interface":"net1","ips":["` + at.address + `"]}]`,
			Definitions: map[connectivity.PodName]string{upf: n3},
			Report:      &connectivity.Report{Ready: true},
			Interface: &connectivity.Interface{
				ID: "eni-" + at.suffix, InstanceID: "i-" + at.suffix, Subnets: ranges(at.subnet, at.subnet6), Routes: ranges("10.0.0.0/16", "2001:db8::/32"),
			},
		}
		f.EC2.Interfaces["eni-"+at.suffix] = eni.Interface{
			ID: "eni-" + at.suffix, VPCID: "vpc-1", Groups: []string{"sg-1"}, SourceDestCheck: true, Status: eni.InUse,
			Addresses:  eni.Addresses{IPv4Prefixes: ranges(at.prefix), IPv6Prefixes: ranges(at.prefix6)},
			Attachment: &eni.Attachment{InstanceID: "i-" + at.suffix, Status: eni.AttachmentAttached},
		}
	}
	return f
}

func ranges(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// define gives both pods a definition of the user with static addresses.
func define(f *connectivity.Facts, config string) {
	for i := range f.Pods {
		f.Pods[i].Definitions = map[connectivity.PodName]string{upf: config}
	}
}

// change replaces an interface in EC2.
func change(f *connectivity.Facts, id string, edit func(*eni.Interface)) {
	i := f.EC2.Interfaces[id]
	edit(&i)
	f.EC2.Interfaces[id] = i
}

func rule(f *connectivity.Facts, ingress ...eni.GroupRule) {
	group := f.EC2.Groups["sg-1"]
	group.Ingress = ingress
	f.EC2.Groups["sg-1"] = group
}

func TestTwoPodsReachEachOther(t *testing.T) {
	for name, edit := range map[string]func(*connectivity.Facts){
		"in subnets of two zones": func(*connectivity.Facts) {},
		"with both families": func(f *connectivity.Facts) {
			f.Pods[0].Status = `[{"name":"upf/n3","ips":["10.0.1.17","2001:db8:1:0:1::2"]}]`
			f.Pods[1].Status = `[{"name":"upf/n3","ips":["10.0.2.33","2001:db8:2:0:1::3"]}]`
		},
		"with the annotation as JSON": func(f *connectivity.Facts) {
			f.Pods[0].Annotation = `[{"name":"other"},{"Name":"n3","namespace":"upf","interface":"net1"}]`
		},
		"with other networks, a namespace and an interface name": func(f *connectivity.Facts) {
			f.Pods[0].Annotation = " other , upf/n3@net1"
		},
		"with an address that has its prefix length": func(f *connectivity.Facts) {
			f.Pods[0].Status = `[{"name":"n3","ips":["10.0.1.17/24"]}]`
		},
		"on one interface without a rule": func(f *connectivity.Facts) {
			rule(f)
			f.Pods[1].Interface, f.Pods[1].Node = f.Pods[0].Interface, f.Pods[0].Node
			f.Pods[1].Status = `[{"name":"upf/n3","ips":["10.0.1.18"]}]`
		},
		"with a definition of the user, by its routes": func(f *connectivity.Facts) { define(f, ownRoute) },
		"with a definition that has another name": func(f *connectivity.Facts) {
			f.Pods[0].Annotation = "mine"
			f.Pods[0].Definitions = map[connectivity.PodName]string{{Namespace: "upf", Name: "mine"}: ownRoute}
			f.Pods[0].Status = `[{"name":"upf/mine","ips":["10.0.1.17"]}]`
		},
		"without EC2": func(f *connectivity.Facts) { f.EC2 = nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			edit(&f)
			for _, check := range connectivity.Examine(f) {
				if check.Grade != report.OK {
					t.Errorf("%s: %s: %s", check.Check, check.Grade, check.Found)
				}
			}
		})
	}
}

// Each case breaks one step.
func TestTheStepThatFailsIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*connectivity.Facts)
		step  string // the only one that is not OK
		grade report.Severity
		found string
		next  string
	}{
		"the pod does not exist": {
			func(f *connectivity.Facts) { f.Pods[0] = connectivity.Pod{PodName: f.Pods[0].PodName, Absent: true} },
			"pod of upf/upf-a", report.Failed, "no such pod", "kubectl get pods -n upf",
		},
		"the pod uses the network of its node": {
			func(f *connectivity.Facts) { f.Pods[0].HostNetwork = true },
			"pod of upf/upf-a", report.Failed, "no CNI plugin attaches it", "without hostNetwork",
		},
		"the pod is not scheduled": {
			func(f *connectivity.Facts) { f.Pods[0].Node, f.Pods[0].Phase = "", "Pending" },
			"pod of upf/upf-a", report.Failed, "no node yet", "kubectl describe pod -n upf upf-a",
		},
		"the pod has ended": {
			func(f *connectivity.Facts) { f.Pods[0].Phase = "Succeeded" },
			"pod of upf/upf-a", report.Failed, "Succeeded", "a pod that runs",
		},
		"no annotation": {
			func(f *connectivity.Facts) { f.Pods[0].Annotation = "" },
			"annotation of upf/upf-a", report.Failed, "the pod has no k8s.v1.cni.cncf.io/networks", "k8s.v1.cni.cncf.io/networks: n3",
		},
		"an annotation with other networks": {
			func(f *connectivity.Facts) { f.Pods[0].Annotation = "n4,n6" },
			"annotation of upf/upf-a", report.Failed, "n4,n6", "k8s.v1.cni.cncf.io/networks: n3",
		},
		"an annotation that Multus cannot read": {
			func(f *connectivity.Facts) { f.Pods[0].Annotation = "[{name: n3}]" },
			"annotation of upf/upf-a", report.Failed, "not valid", "Set it",
		},
		"no definition": {
			func(f *connectivity.Facts) { f.Pods[0].Definitions = nil },
			"definition of upf/upf-a", report.Failed, "no NetworkAttachmentDefinition upf/n3", "pods.namespaces of NodeENI n3",
		},
		"a definition that is no JSON": {
			func(f *connectivity.Facts) { f.Pods[0].Definitions = map[connectivity.PodName]string{upf: "theirs"} },
			"definition of upf/upf-a", report.Failed, "spec.config of upf/n3 is not valid", "kubectl eni nads n3",
		},
		"a definition of another link": {
			func(f *connectivity.Facts) {
				f.Pods[0].Definitions = map[connectivity.PodName]string{upf: strings.ReplaceAll(n3, "net-n3", "eth1")}
			},
			"definition of upf/upf-a", report.Failed, `attaches pods to link "eth1"`, "kubectl eni nads n3",
		},
		"a definition with the address of a device": {
			func(f *connectivity.Facts) {
				f.Pods[0].Definitions = map[connectivity.PodName]string{upf: `{"type":"host-device","pciBusID":"0000:00:06.0","ipam":{"type":"multieni-ipam","network":"n3"}}`}
			},
			"definition of upf/upf-a", report.Warning, "upf/n3 names no link", "kubectl eni nads n3",
		},
		"a definition with MACVLAN": {
			func(f *connectivity.Facts) {
				f.Pods[0].Definitions = map[connectivity.PodName]string{upf: strings.ReplaceAll(n3, "ipvlan", "macvlan")}
			},
			"definition of upf/upf-a", report.Failed, "EC2 delivers to the MAC address of the interface only", "Use ipvlan",
		},
		"a definition with addresses of another network": {
			func(f *connectivity.Facts) {
				f.Pods[0].Definitions = map[connectivity.PodName]string{upf: strings.ReplaceAll(n3, `"network":"n3"`, `"network":"n4"`)}
			},
			"definition of upf/upf-a", report.Failed, "takes addresses of network n4", "kubectl eni nads n3",
		},
		"a node without the interface": {
			func(f *connectivity.Facts) { f.Pods[0].Interface, f.Pods[0].Report = nil, nil },
			"network of upf/upf-a", report.Failed, "node node-a has no interface of NodeENI n3", "kubectl eni why node/node-a",
		},
		"an agent without pod networks": {
			func(f *connectivity.Facts) { f.Pods[0].Report = nil },
			"network of upf/upf-a", report.Failed, "does not report network n3", "pods.enabled=true",
		},
		"a node that takes no pod": {
			func(f *connectivity.Facts) {
				f.Pods[0].Report = &connectivity.Report{Reason: "LeasesLocked", Message: "process 7 has them"}
				f.Pods[0].Status = ""
			},
			"network of upf/upf-a", report.Failed, "LeasesLocked: process 7 has them", "docs/troubleshooting.md",
		},
		"a node that takes no further pod": {
			func(f *connectivity.Facts) {
				f.Pods[0].Report.Ready, f.Pods[0].Report.Reason = false, "NetworkDraining"
			},
			"network of upf/upf-a", report.Warning, "this one has its addresses", "docs/troubleshooting.md",
		},
		"a pod that Multus did not attach": {
			func(f *connectivity.Facts) { f.Pods[0].Status, f.Pods[0].Phase = "", "Pending" },
			"attachment of upf/upf-a", report.Failed, "Multus has not attached the pod", "kubectl describe pod -n upf upf-a",
		},
		"a pod that is older than its annotation": {
			func(f *connectivity.Facts) { f.Pods[0].Status = `[{"name":"aws-cni","ips":["10.9.0.1"]}]` },
			"attachment of upf/upf-a", report.Failed, "did not attach", "Restart the pod",
		},
		"a link without an address": {
			func(f *connectivity.Facts) { f.Pods[0].Status = `[{"name":"upf/n3"}]` },
			"attachment of upf/upf-a", report.Warning, "the pod brings up its own, or has none", "kubectl get floatingaddresses",
		},
		"a status that nobody can read": {
			func(f *connectivity.Facts) { f.Pods[0].Status = `{}` },
			"attachment of upf/upf-a", report.Failed, "not valid", "Restart the pod",
		},
		"an interface that EC2 does not have": {
			func(f *connectivity.Facts) { delete(f.EC2.Interfaces, "eni-a") },
			"address of upf/upf-a", report.Failed, "EC2 has no interface eni-a", "kubectl eni why node/node-a",
		},
		"an interface of another instance": {
			func(f *connectivity.Facts) {
				change(f, "eni-a", func(i *eni.Interface) { i.Attachment = &eni.Attachment{InstanceID: "i-c"} })
			},
			"address of upf/upf-a", report.Failed, "not show eni-a as attached to i-a", "kubectl eni node node-a",
		},
		"an address that no interface has": {
			func(f *connectivity.Facts) { change(f, "eni-a", func(i *eni.Interface) { i.IPv4Prefixes = nil }) },
			"address of upf/upf-a", report.Failed, "eni-a does not have 10.0.1.17", "Restart the pod",
		},
		"an address that the other interface has": {
			func(f *connectivity.Facts) {
				change(f, "eni-a", func(i *eni.Interface) { i.IPv4Prefixes = nil })
				change(f, "eni-b", func(i *eni.Interface) { i.IPv4Prefixes = ranges("10.0.1.16/28", "10.0.2.32/28") })
			},
			"address of upf/upf-a", report.Failed, "EC2 delivers 10.0.1.17 to eni-b, and not to eni-a", "Restart the pod",
		},
		"an own address that EC2 does not know": {
			func(f *connectivity.Facts) {
				define(f, ownRoute)
				change(f, "eni-a", func(i *eni.Interface) { i.IPv4Prefixes = nil })
			},
			"address of upf/upf-a", report.Failed, "source/destination check drops packets", "pods.floating of NodeENI n3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tc.edit(&f)
			single(t, connectivity.Examine(f), report.Check{Check: tc.step, Grade: tc.grade, Found: tc.found, Next: tc.next})
		})
	}
}

// single asserts that one step alone is not OK, and that its texts have those of want.
func single(t *testing.T, all report.Checks, want report.Check) {
	t.Helper()
	bad := slices.DeleteFunc(slices.Clone(all), func(c report.Check) bool { return c.Grade == report.OK })
	if len(bad) != 1 {
		t.Fatalf("%d steps are not in order, want 1: %+v", len(bad), bad)
	}
	if bad[0].Check != want.Check || bad[0].Grade != want.Grade {
		t.Errorf("%s is %s, want %s %s", bad[0].Check, bad[0].Grade, want.Check, want.Grade)
	}
	for text, part := range map[string]string{bad[0].Found: want.Found, bad[0].Next: want.Next} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in %q", part, text)
		}
	}
}

// Each case breaks one step of the way from the first pod to the second.
func TestTheWayThatFailsIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*connectivity.Facts)
		step  string
		grade report.Severity
		found string
		next  string
	}{
		"no route": {
			func(f *connectivity.Facts) { f.Pods[0].Interface.Routes = nil },
			"route from upf/upf-a to upf/upf-b", report.Warning, "Only sockets that are bound to 10.0.1.17", "pods.routes of NodeENI n3: {to: 10.0.2.0/24}",
		},
		"no route in a definition with source routing": {
			func(f *connectivity.Facts) {
				define(f, ownRoute)
				f.Pods[0].Definitions = map[connectivity.PodName]string{upf: ownSBR}
			},
			"route from upf/upf-a to upf/upf-b", report.Warning, "Only sockets that are bound", "the routes of the definition upf/n3",
		},
		"no route in a definition of the user": {
			func(f *connectivity.Facts) {
				define(f, ownRoute)
				f.Pods[0].Definitions = map[connectivity.PodName]string{upf: own}
			},
			"route from upf/upf-a to upf/upf-b", report.Failed, "outside of the subnet of the interface, 10.0.1.0/24", "10.0.2.0/24 to the routes of the definition upf/n3",
		},
		"no outbound rule": {
			func(f *connectivity.Facts) {
				f.EC2.Groups["sg-2"] = eni.GroupRules{Ingress: []eni.GroupRule{{Protocol: eni.AnyProtocol, Groups: []string{"sg-1"}}}}
				change(f, "eni-a", func(i *eni.Interface) { i.Groups = []string{"sg-2"} })
				rule(f, eni.GroupRule{Protocol: eni.AnyProtocol, Groups: []string{"sg-2"}})
			},
			"security groups from upf/upf-a to upf/upf-b", report.Failed, "no outbound rule of sg-2 on eni-a allows ICMP echo to 10.0.2.33", "groups of NodeENI n3",
		},
		"no inbound rule": {
			func(f *connectivity.Facts) {
				rule(f, eni.GroupRule{Protocol: eni.AnyProtocol, CIDRs: ranges("10.0.2.0/24")})
			},
			"security groups from upf/upf-a to upf/upf-b", report.Failed, "no inbound rule of sg-1 on eni-b allows ICMP echo from 10.0.1.17", "--port PORT/PROTOCOL",
		},
		"a rule with a prefix list": {
			func(f *connectivity.Facts) {
				rule(f, eni.GroupRule{Protocol: eni.AnyProtocol, CIDRs: ranges("10.0.2.0/24"), PrefixLists: []string{"pl-1"}})
			},
			"security groups from upf/upf-a to upf/upf-b", report.Warning, "a rule names a prefix list", "--ping",
		},
		"a group that EC2 does not show": {
			func(f *connectivity.Facts) {
				change(f, "eni-a", func(i *eni.Interface) { i.Groups = []string{"sg-1", "sg-x"} })
				rule(f, eni.GroupRule{Protocol: eni.AnyProtocol, CIDRs: ranges("10.0.1.0/24")})
			},
			"security groups from upf/upf-b to upf/upf-a", report.Warning, "does not show a group", "describe-security-group-rules",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tc.edit(&f)
			single(t, connectivity.Examine(f), report.Check{Check: tc.step, Grade: tc.grade, Found: tc.found, Next: tc.next})
		})
	}
}

// What is wrong both ways is said both ways.
func TestBothWaysFail(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*connectivity.Facts)
		found string
	}{
		"two VPCs": {
			func(f *connectivity.Facts) { change(f, "eni-b", func(i *eni.Interface) { i.VPCID = "vpc-2" }) },
			"VPC vpc-2",
		},
		"no family in common": {
			func(f *connectivity.Facts) { f.Pods[1].Status = `[{"name":"upf/n3","ips":["2001:db8:2:0:1::3"]}]` },
			"of different families",
		},
		"no rule": {func(f *connectivity.Facts) { rule(f) }, "no inbound rule"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tc.edit(&f)
			ways := map[string]bool{}
			for _, check := range connectivity.Examine(f) {
				if check.Grade == report.Failed && strings.Contains(check.Found, tc.found) {
					_, way, _ := strings.Cut(check.Check, " from ")
					ways[way] = true
				}
			}
			want := []string{"upf/upf-a to upf/upf-b", "upf/upf-b to upf/upf-a"}
			if got := slices.Sorted(maps.Keys(ways)); !slices.Equal(got, want) {
				t.Errorf("it fails from %v", got)
			}
		})
	}
}

// A failed step of one pod leaves out the later ones of this pod and those between the pods, not those of the other.
func TestStepsThatDependOnAFailedOneAreLeftOut(t *testing.T) {
	f := healthy()
	f.Pods[0].Annotation = ""
	var got []string
	for _, check := range connectivity.Examine(f) {
		got = append(got, check.Check)
	}
	want := []string{
		"pod of upf/upf-a", "annotation of upf/upf-a", "pod of upf/upf-b", "annotation of upf/upf-b", "definition of upf/upf-b",
		"network of upf/upf-b", "attachment of upf/upf-b", "address of upf/upf-b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the steps are %v, want %v", got, want)
	}
}

func TestWithoutMultusNoDefinitionIsLookedFor(t *testing.T) {
	f := healthy()
	f.NoMultus = true
	define(&f, "")
	for _, check := range connectivity.Examine(f) {
		if check.Grade == report.Failed && !strings.Contains(check.Next, "Install Multus") {
			t.Errorf("%s: %s", check.Check, check.Next)
		}
	}
	if !connectivity.Examine(f).Failed() {
		t.Error("no step fails")
	}
}
