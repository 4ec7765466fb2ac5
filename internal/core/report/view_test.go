// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

var update = flag.Bool("update", false, "write what is printed to testdata instead of comparing")

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const noSubnet = "none of the NodeENI's subnets is in the node's zone us-east-1b: they are subnet-0f59b4f14737be9ad (us-east-1a); " +
	"add a subnet of that zone to the NodeENI, or narrow its nodeSelector"

// attached is an interface as desired at a device index.
func attached(nodeENI string, device int) report.Interface {
	return report.Interface{
		Name: fmt.Sprintf("%s-%d", nodeENI, device), NodeENI: nodeENI, Phase: "Attached", ENIID: fmt.Sprintf("eni-0%016x", device), SubnetID: "subnet-0f59b4f14737be9ad", PrivateIP: "10.0.64.5",
		MAC: "02:00:00:00:00:01", Slot: eni.Slot{Device: device}, Asked: device,
		Link: &report.Link{State: "Ready", Name: "ens6", AltName: "eni-" + nodeENI, MTU: 9001},
	}
}

func blocked(nodeENI string) report.Interface {
	return report.Interface{Name: nodeENI + "-2", NodeENI: nodeENI, Phase: "Blocked", Reason: "NoSubnetInZone", Message: noSubnet, Slot: eni.Slot{Device: 2}, Asked: 2}
}

// node is a node with its interfaces; it is ready when all are attached.
func node(name, zone string, interfaces ...report.Interface) report.Node {
	n := report.Node{
		Name: name, InstanceID: "i-0a10000000000000a", Zone: zone, Type: "m5.xlarge", Labels: map[string]string{"ng": "multi-eni"},
		Interfaces: interfaces, Desired: len(interfaces), Ready: report.Condition{Status: "True", Reason: "InterfacesReady"},
	}
	for at, i := range interfaces {
		interfaces[at].Node = name
		if i.Phase == "Attached" {
			n.Attached++
		} else {
			n.Ready = report.Condition{Status: "False", Reason: i.Reason, Message: i.Message}
		}
	}
	return n
}

// nodeENI selects ng=multi-eni.
func nodeENI(name string, ready string, counts ...int) report.NodeENI {
	return report.NodeENI{
		Name: name, Created: now.Add(-90 * time.Minute), Selector: map[string]string{"ng": "multi-eni"}, Accepted: true,
		Ready: report.Condition{Type: "Ready", Status: ready, Reason: map[string]string{"True": "Attached", "False": "Blocked"}[ready]},
		Nodes: counts[0], Desired: counts[1], Attached: counts[2], Blocked: counts[1] - counts[2],
	}
}

func fleet() report.Fleet {
	plainNode := node("node-c1", "us-east-1c")
	plainNode.Labels = map[string]string{"ng": "other"}
	multus := nodeENI("multus-eni-config", "False", 3, 3, 2)
	multus.Conditions = []report.Condition{{Type: "SubnetsResolved", Status: "False", Reason: "NoSubnetInZone", Message: noSubnet}} // said once
	userPlane := nodeENI("user-plane", "True", 1, 1, 1)
	userPlane.Selector = map[string]string{"upf": "true"}
	both := node("node-a1", "us-east-1a", attached("multus-eni-config", 2), attached("user-plane", 3))
	both.Labels["upf"] = "true"
	return report.Fleet{
		NodeENIs: []report.NodeENI{multus, userPlane},
		Nodes: []report.Node{
			node("node-a2", "us-east-1a", attached("multus-eni-config", 2)),
			both,
			node("node-b1", "us-east-1b", blocked("multus-eni-config")), plainNode,
		},
	}
}

// large is a fleet of five thousand nodes. Every tenth node has no subnet in its zone.
func large() report.Fleet {
	f := report.Fleet{NodeENIs: []report.NodeENI{nodeENI("multus-eni-config", "False", 5000, 5000, 4500)}}
	for n := range 5000 {
		i := attached("multus-eni-config", 2)
		if n%10 == 0 {
			i = blocked("multus-eni-config")
		}
		f.Nodes = append(f.Nodes, node(fmt.Sprintf("ip-10-0-%d-%d.us-west-2.compute.internal", n/250, n%250), "us-east-1a", i))
	}
	return f
}

// look is what EC2 returns for node-a1: the primary interface, one of the VPC CNI, and ours.
func look() *eni.InstanceSnapshot {
	at := func(id string, device int, tags map[string]string) eni.Interface {
		return eni.Interface{ID: id, SubnetID: "subnet-0aa0000000000000a", Tags: tags, Attachment: &eni.Attachment{
			InstanceID: "i-0a10000000000000a", Slot: eni.Slot{Device: device}, Status: eni.AttachmentAttached,
		}}
	}
	return &eni.InstanceSnapshot{Instance: eni.Instance{Type: "m5.xlarge"}, Interfaces: []eni.Interface{
		at("eni-0primary", 0, nil), at("eni-0cni", 1, map[string]string{"node.k8s.amazonaws.com/instance_id": "i-0a10000000000000a"}),
		at("eni-00000000000000002", 2, map[string]string{identity.TagNodeENI: "multus-eni-config"}),
	}}
}

func drafts(n int) []report.SimulatedNode {
	var all []report.SimulatedNode
	for i := range n {
		of := identity.Interface{NodeENI: "multus-eni-config", Node: fmt.Sprintf("node-%04d", i), InstanceID: "i-00000000000000001"}
		id := fmt.Sprintf("eni-%d", i)
		all = append(all, report.SimulatedNode{Node: of.Node, Outcome: forecast.Outcome{
			Calls: []plan.Call{
				plan.Create{Key: of, SubnetID: "subnet-0f59b4f14737be9ad", Slot: eni.Slot{Device: 2}},
				plan.Attach{Key: of, InterfaceID: id, Slot: eni.Slot{Device: 2}},
				plan.Change{Key: of, InterfaceID: id, To: plan.DeleteOnTermination{Enabled: true}},
			},
			Interfaces: []forecast.Interface{{State: plan.State{Key: of, Goal: plan.Serve, Phase: plan.Attached}}},
		}})
	}
	gone := identity.Interface{NodeENI: "multus-eni-config", Node: "old"}
	blocked := forecast.Interface{State: plan.State{Key: gone, Goal: plan.Serve, Phase: plan.Blocked, Problem: plan.Problem{Reason: plan.NoSubnetInZone, Message: noSubnet}}}
	return append(all,
		report.SimulatedNode{Node: "old", Outcome: forecast.Outcome{Calls: []plan.Call{
			plan.Detach{Key: gone, InterfaceID: "eni-9", Why: "the node's labels no longer match its NodeENI"},
			plan.Delete{Key: gone, InterfaceID: "eni-9", Why: "the node's labels no longer match its NodeENI"},
		}}},
		report.SimulatedNode{Node: "changed", Outcome: forecast.Outcome{Calls: []plan.Call{plan.Change{Key: gone, InterfaceID: "eni-8", To: plan.Groups{"sg-1"}}}}},
		report.SimulatedNode{Node: "other-zone", Outcome: forecast.Outcome{Interfaces: []forecast.Interface{blocked, blocked}}},
		report.SimulatedNode{Node: "drifted", Outcome: forecast.Outcome{Interfaces: []forecast.Interface{{
			State: plan.State{Key: gone, Goal: plan.Serve, Phase: plan.Attached, Interface: &eni.Interface{ID: "eni-7"}},
			Drift: []plan.Drift{{Field: "slot", Want: "card 0 device 3", Have: "card 0 device 2"}},
		}}}},
		report.SimulatedNode{Node: "same"},
	)
}

func leaks() report.Leaks {
	of := identity.Interface{Cluster: "c", UID: "uid-gone", NodeENI: "gone", Node: "node-a1", InstanceID: "i-00000000000000001"}
	of.Name = identity.ObjectName(of.NodeENI, of.InstanceID, of.Ordinal)
	owned := func(id string, made time.Duration, status eni.Status) eni.Interface {
		return eni.Interface{ID: id, SubnetID: "subnet-1", Status: status, Tags: of.Tags(now.Add(-made), nil)}
	}
	damaged := owned("eni-damaged", time.Hour, eni.Available)
	delete(damaged.Tags, identity.TagInterface)
	attached := func(id string, tags map[string]string) eni.Interface {
		return eni.Interface{ID: id, SubnetID: "subnet-1", Status: eni.InUse, Tags: tags, Attachment: &eni.Attachment{InstanceID: "i-00000000000000001"}}
	}
	prepared, edited := of, maps.Clone(damaged.Tags)
	prepared.UID = identity.NetworkUID("user-plane", 0, now)
	launched := map[string]string{identity.TagCluster: "c", identity.TagNodeTemplate: "workers"}
	return report.NewLeaks("c", []eni.Interface{
		attached("eni-launched-1", launched), attached("eni-launched-2", launched), attached("eni-launched-3", launched), attached("eni-launched-4", launched),
		{ID: "eni-left", SubnetID: "subnet-1", Status: eni.Available, Tags: launched}, attached("eni-prepared", prepared.Tags(now, nil)), attached("eni-edited", edited), attached("eni-stripped", of.Tags(now.Add(-time.Hour), nil)),
		owned("eni-old", time.Hour, eni.Available), owned("eni-young", time.Minute, eni.Available), damaged,
		attached("eni-recorded", of.Tags(now, nil)), {ID: "eni-foreign"},
	}, []report.KnownInterface{{Name: "other", UID: "other", ENIID: "eni-recorded"}}, now)
}

func screens() map[string]string {
	page, narrow := report.Page{Width: 100}, report.Page{Width: 40}
	f := fleet()
	find := func(f report.Fleet, name string) report.Node { n, _ := f.Node(name); return n }
	wanted := func(name string) report.NodeENI { n, _ := f.NodeENI(name); return n }
	unseen := nodeENI("unseen", "", 0, 0, 0)
	unseen.Accepted = false
	notObserved := nodeENI("unobserved", "True", 2, 2, 0)
	notObserved.Deleting, notObserved.NotObserved = true, true
	nobody := nodeENI("nobody", "True", 0, 0, 0)
	nobody.Selector = map[string]string{"ng": "user-plane"}
	fargate := report.Node{Name: "fargate", Unserved: "providerID \"x\" names no EC2 instance"}
	held := f.Nodes[0].Interfaces[0]
	held.Deleting, held.Held, held.Phase, held.Pods = true, true, plan.Detaching, []string{"upf/upf-0", "upf/upf-1"}
	held.Reason, held.Message = "InUseByPods", "2 pods have addresses of eni-00000000000000002: upf/upf-0, upf/upf-1; delete or move them"
	rates := map[string]forecast.Rate{"AttachNetworkInterface": {Burst: 35, PerSecond: 3.5}}
	planned := report.NewPlanDiff(drafts(1200), rates)
	findings := report.Checks{
		{Check: "region", Grade: report.OK, Found: "us-west-2, by the configuration"},
		{Check: "subnet subnet-1", Grade: report.Warning, Found: "3 addresses free in us-west-2a", Next: "Add a further subnet to the NodeENIs that use it."},
		{Check: "VPC CNI", Grade: report.Failed, Found: "ENABLE_IMDS_ONLY_MODE is on", Next: "kubectl set env -n kube-system daemonset/aws-node ENABLE_IMDS_ONLY_MODE=false"},
	}
	adoptions := report.ImportPlan{
		Adopt:  []report.ImportedInterface{{ENIID: "eni-1", NodeENI: "multus", Node: "node-a1", Slot: "card 0 device 2"}},
		Passed: []report.SkippedInterface{{ENIID: "eni-2", Why: "it is not attached, so nothing says that it is this cluster's"}}, Objects: []string{"multus"},
	}
	return map[string]string{
		"why-fleet":          report.WhyFleet(f).Text(page),
		"why-fleet-narrow":   report.WhyFleet(f).Text(narrow),
		"why-fleet-colours":  report.WhyFleet(f).Text(report.Page{Width: 100, Colours: true}),
		"why-fleet-large":    report.WhyFleet(large()).Text(page),
		"why-fleet-empty":    report.WhyFleet(report.Fleet{Nodes: f.Nodes[3:]}).Text(page),
		"why-fleet-others":   report.WhyFleet(report.Fleet{NodeENIs: []report.NodeENI{unseen, notObserved, nobody}, Nodes: f.Nodes[3:]}).Text(page),
		"why-interface":      report.WhyInterface(f, f.Nodes[0].Interfaces[0]).Text(page),
		"why-interface-none": report.WhyInterface(f, f.Nodes[2].Interfaces[0]).Text(page),
		"why-interface-held": report.WhyInterface(f, held).Text(page),
		"why-nodeeni":        report.WhyNodeENI(f, wanted("multus-eni-config")).Text(page),
		"why-fine":           report.WhyNodeENI(f, wanted("user-plane")).Text(page),
		"why-unseen":         report.WhyNodeENI(f, unseen).Text(page),
		"why-not-observed":   report.WhyNodeENI(f, notObserved).Text(page),
		"why-nobody":         report.WhyNodeENI(f, nobody).Text(page),
		"why-node":           report.WhyNode(f, find(f, "node-b1")).Text(page),
		"why-node-other":     report.WhyNode(f, find(f, "node-c1")).Text(page),
		"why-node-first":     report.WhyNode(report.Fleet{Nodes: f.Nodes[3:]}, find(f, "node-c1")).Text(page),
		"why-fargate":        report.WhyNode(f, fargate).Text(page),
		"node":               report.NewNodeMap(find(f, "node-a1"), look(), eni.Limits{}, "").Text(report.Page{Width: 140}),
		"node-narrow":        report.NewNodeMap(find(f, "node-a1"), look(), eni.Limits{}, "").Text(narrow),
		"node-blocked":       report.NewNodeMap(find(f, "node-b1"), nil, eni.Limits{}, "no credentials").Text(page),
		"plan":               planned.Text(page),
		"plan-nothing":       report.NewPlanDiff(nil, rates).Text(page),
		"leaks":              leaks().Text(page),
		"leaks-none":         report.NewLeaks("c", nil, nil, now).Text(page),
		"doctor":             findings.Text(page),
		"import":             adoptions.Text(page),
		"topology":           report.NewTopology(f).Text(page),
		"topology-large":     report.NewTopology(large()).Text(page),
		"topology.svg":       report.NewTopology(f).SVG(),
		"subnets":            subnets().Text(page),
		"subnets-colours":    subnets().Text(report.Page{Width: 100, Colours: true}),
		"subnets-none":       report.Subnets{}.Text(page),
	}
}

func TestScreens(t *testing.T) {
	for name, got := range screens() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoLineIsLongerThanThePage(t *testing.T) {
	for name, text := range screens() {
		width := map[bool]int{true: 40, false: 100}[strings.HasSuffix(name, "-narrow")]
		if name == "node" || strings.HasSuffix(name, "-wide") || strings.HasSuffix(name, "-colours") || strings.HasSuffix(name, ".svg") {
			continue
		}
		for line := range strings.Lines(text) {
			// A single word that is longer than the page, such as an ID or a name, is not cut.
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && len(strings.Fields(line)) > 2 {
				t.Errorf("%s: %d characters: %s", name, n, line)
			}
		}
	}
}

func TestFiveThousandNodesFitAScreen(t *testing.T) {
	for _, text := range []string{report.WhyFleet(large()).Text(report.Page{Width: 100}), report.NewTopology(large()).Text(report.Page{}), report.NewPlanDiff(drafts(5000), nil).Text(report.Page{})} {
		if n := strings.Count(text, "\n"); n > 24 {
			t.Errorf("%d lines", n)
		}
	}
}

func TestJSONNamesWhatTheTextShows(t *testing.T) {
	content, err := json.Marshal(report.WhyFleet(fleet()))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Troubles []struct {
			Reason string
			Nodes  []string
		}
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Troubles) != 1 || got.Troubles[0].Reason != "NoSubnetInZone" || got.Troubles[0].Nodes[0] != "node-b1" {
		t.Errorf("%s", content)
	}
}

func TestWhatIsEmptyIsAListInJSON(t *testing.T) {
	for name, v := range map[string]any{
		"fleet": report.WhyFleet(report.Fleet{}), "topology": report.NewTopology(report.Fleet{}),
		"plan": report.NewPlanDiff(nil, nil), "leaks": report.NewLeaks("c", nil, nil, now),
	} {
		t.Run(name, func(t *testing.T) {
			content, err := json.Marshal(v)
			if err != nil || strings.Contains(string(content), "null") {
				t.Errorf("%s %v", content, err)
			}
		})
	}
}

func TestTheDrawingIsXML(t *testing.T) {
	f := fleet()
	f.Nodes[0].Name = "<&>"
	decoder := xml.NewDecoder(strings.NewReader(report.NewTopology(f).SVG()))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyWhatIsOldAndUnattachedIsCollected(t *testing.T) {
	if diff := cmp.Diff([]string{"eni-old"}, leaks().Collectable()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A sign in colour takes one column, as one without.
func TestWrappedLinesAreIndentedBelowTheirFirstWord(t *testing.T) {
	checks := report.Checks{{Check: "quota", Grade: report.OK, Found: "many words that do not fit a narrow page"}}
	const want = "\x1b[32m●\x1b[0m quota: many words\n  that do not fit a\n  narrow page\n\n1 in order, 0 warnings, 0 failed\n"
	if got := checks.Text(report.Page{Width: 20, Colours: true}); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestDriftIsToldInFull checks interfaces with and without another issue.
func TestDriftIsToldInFull(t *testing.T) {
	drift := []string{"subnet: a wanted, b there", "slot: 1 wanted, 2 there"}
	for name, tc := range map[string]struct {
		of   report.Interface
		want string
	}{
		"drifted": {report.Interface{Phase: "Attached", Drift: drift}, "differs in subnet: a wanted, b there, and in slot: 1 wanted, 2 there"},
		"with a reason of its own": {
			report.Interface{Phase: "Attached", Drift: drift, Reason: "Drifted", Message: "eni-1 differs"}, "eni-1 differs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := report.WhyFleet(report.Fleet{Nodes: []report.Node{{Name: "node-a1", Interfaces: []report.Interface{tc.of}}}})
			if len(s.Troubles) != 1 || s.Troubles[0].Message != tc.want {
				t.Errorf("%+v, want %q", s.Troubles, tc.want)
			}
		})
	}
}

// The NodeENI has the reason why its interface has no object.
func TestANodeWithoutTheObjectOfANodeENIIsNotFine(t *testing.T) {
	nodeENI := report.NodeENI{
		Name: "data", Generation: 2, Selector: map[string]string{"eni": "on"}, Accepted: true,
		Ready: report.Condition{Type: "Ready", Status: "False", Reason: "StateRefused", Message: "the API server refuses to store it"},
	}
	node := node("node-1", "us-east-1a", attached("other", 1))
	node.Labels = nodeENI.Selector
	fleet := report.Fleet{NodeENIs: []report.NodeENI{nodeENI}, Nodes: []report.Node{node}}
	why := report.WhyNode(fleet, node)
	if text := why.Text(report.Page{}); why.Fine || !strings.Contains(text, "has not begun") || !strings.Contains(text, "refuses to store") {
		t.Error(text)
	}
	node.Interfaces[0].NodeENI = "data"
	if why := report.WhyNode(fleet, node); !why.Fine {
		t.Error(why.Text(report.Page{}))
	}
}
