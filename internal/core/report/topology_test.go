// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
)

// groups are the names of the nodes that a topology draws, by zone, with those of one group in one string.
func groups(t report.Topology) map[string][]string {
	all := map[string][]string{}
	for _, z := range t.Zones {
		for _, g := range z.Groups {
			all[z.Name] = append(all[z.Name], strings.Join(g.Nodes, " "))
		}
	}
	return all
}

// alike reports whether a topology draws a node with two interfaces, and the same node after a change, as one group.
func alike(change func(*report.Node)) bool {
	nodes := []report.Node{
		node("a", "us-east-1a", attached("multus", 1), attached("sig", 2)),
		node("b", "us-east-1a", attached("multus", 1), attached("sig", 2)),
	}
	change(&nodes[1])
	return len(groups(report.NewTopology(report.Fleet{Nodes: nodes}))["us-east-1a"]) == 1 &&
		len(report.NewTopology(report.Fleet{Nodes: nodes}).Zones) == 1
}

// Groups differ in what the drawing shows.
func TestNodesThatDifferInTheDrawingAreInSeparateGroups(t *testing.T) {
	for name, change := range map[string]func(*report.Node){
		"another zone":          func(n *report.Node) { n.Zone = "us-east-1b" },
		"another instance type": func(n *report.Node) { n.Type = "m5.large" },
		"an interface fewer":    func(n *report.Node) { n.Interfaces = n.Interfaces[:1] },
		"another card":          func(n *report.Node) { n.Interfaces[0].Slot.Card = 1 },
		"another device index":  func(n *report.Node) { n.Interfaces[0].Slot.Device = 3 },
		"another NodeENI":       func(n *report.Node) { n.Interfaces[0].NodeENI = "user-plane" },
		"another subnet":        func(n *report.Node) { n.Interfaces[0].SubnetID = "subnet-2" },
		"a blocked interface": func(n *report.Node) {
			n.Interfaces[0].Phase, n.Interfaces[0].Reason = "Blocked", "SubnetFull"
		},
		"drift":            func(n *report.Node) { n.Interfaces[0].Drift = []string{"subnet: a wanted, b there"} },
		"a link not ready": func(n *report.Node) { n.Interfaces[0].Link = &report.Link{State: "Missing"} },
	} {
		t.Run(name, func(t *testing.T) {
			if alike(change) {
				t.Error("the topology draws both nodes as one group")
			}
		})
	}
}

// Attributes that each node has of its own, and the order of the status, keep nodes together.
func TestNodesThatDifferOnlyInWhatIsNotDrawnAreOneGroup(t *testing.T) {
	for name, change := range map[string]func(*report.Node){
		"equal":                    func(*report.Node) {},
		"the ID of the instance":   func(n *report.Node) { n.InstanceID = "i-0b20000000000000b" },
		"labels":                   func(n *report.Node) { n.Labels = map[string]string{"ng": "other"} },
		"the ID of an interface":   func(n *report.Node) { n.Interfaces[0].ENIID = "eni-9" },
		"an address":               func(n *report.Node) { n.Interfaces[0].PrivateIP = "10.0.64.9" },
		"a MAC address":            func(n *report.Node) { n.Interfaces[0].MAC = "02:00:00:00:00:09" },
		"an ordinal":               func(n *report.Node) { n.Interfaces[0].Ordinal = 4 },
		"the name of a link":       func(n *report.Node) { n.Interfaces[0].Link.Name = "eth9" },
		"an agent that is not up":  func(n *report.Node) { n.Interfaces[0].Link = nil },
		"the order of interfaces":  func(n *report.Node) { slices.Reverse(n.Interfaces) },
		"a missing Ready":          func(n *report.Node) { n.Ready = report.Condition{} },
		"a pod's address":          func(n *report.Node) { n.Interfaces[0].Followed = []string{"10.0.64.77"} },
		"another requested device": func(n *report.Node) { n.Interfaces[0].Asked = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			if !alike(change) {
				t.Error("the topology draws the nodes as two groups")
			}
		})
	}
}

func TestTopologyIsOrderedByZoneThenSizeThenName(t *testing.T) {
	one, two := attached("multus", 1), attached("multus", 2)
	unconcerned := node("a0", "us-east-1a")
	got := groups(report.NewTopology(report.Fleet{Nodes: []report.Node{
		node("b1", "us-east-1b", one), node("a5", "us-east-1a", two), node("a4", "us-east-1a", attached("multus", 3)),
		node("a9", "us-east-1a", one), node("a7", "us-east-1a", one), unconcerned,
	}}))
	want := map[string][]string{"us-east-1a": {"a7 a9", "a4", "a5"}, "us-east-1b": {"b1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTopologyIsJSON also has the order of the interfaces: by card, by device index, then by NodeENI.
func TestTopologyIsJSON(t *testing.T) {
	at := func(nodeENI string, card, device int) report.Interface {
		i := attached(nodeENI, device)
		i.Slot.Card, i.SubnetID = card, "subnet-1"
		return i
	}
	waiting := report.Interface{NodeENI: "multus", Phase: "Blocked", Reason: "SubnetFull", Slot: eni.Slot{Device: 2}}
	bare := node("b", "us-east-1b")
	topology := report.NewTopology(report.Fleet{Nodes: []report.Node{
		bare, node("a", "us-east-1a", at("sig", 1, 0), at("sig", 0, 2), waiting, at("user-plane", 0, 1)),
	}})
	const want = `{"zones":[{"name":"us-east-1a","groups":[{"nodes":["a"],"instanceType":"m5.xlarge","interfaces":[` +
		`{"networkCardIndex":0,"deviceIndex":1,"nodeENI":"user-plane","subnetID":"subnet-1","state":"attached"},` +
		`{"networkCardIndex":0,"deviceIndex":2,"nodeENI":"multus","state":"SubnetFull"},` +
		`{"networkCardIndex":0,"deviceIndex":2,"nodeENI":"sig","subnetID":"subnet-1","state":"attached"},` +
		`{"networkCardIndex":1,"deviceIndex":0,"nodeENI":"sig","subnetID":"subnet-1","state":"attached"}]}]}]}`
	lines := func(text string) []string { return strings.SplitAfter(text, ",{") }
	got := regexp.MustCompile(`\n *`).ReplaceAllString(asJSON(t, topology), "")
	if diff := cmp.Diff(lines(want), lines(strings.ReplaceAll(got, `": `, `":`))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The state of an interface is its phase, or the reason why it is not as desired. Its sign says who acts next.
func TestTheStateOfAnInterfaceInTheTopology(t *testing.T) {
	with := func(change func(*report.Interface)) report.Interface {
		i := attached("multus", 2)
		change(&i)
		return i
	}
	for name, tc := range map[string]struct {
		of          report.Interface
		sign, state string
		class       string
	}{
		"as desired":      {attached("multus", 2), "●", "attached", "good"},
		"EC2 attaches it": {with(func(i *report.Interface) { i.Phase = "Attaching" }), "◐", "InProgress", "busy"},
		"a reason that resolves by itself": {
			with(func(i *report.Interface) { i.Phase, i.Reason = "Pending", "Throttled" }), "◐", "Throttled", "busy",
		},
		"a reason that needs a user": {
			with(func(i *report.Interface) { i.Phase, i.Reason = "Blocked", "SlotTaken" }), "✗", "SlotTaken", "bad",
		},
		"drift": {with(func(i *report.Interface) { i.Drift = []string{"subnet"} }), "✗", "Drifted", "bad"},
		"the agent configures the link": {
			with(func(i *report.Interface) { i.Link = &report.Link{State: "Configuring"} }), "◐", "LinkConfiguring", "busy",
		},
		"the kernel refuses the link": {
			with(func(i *report.Interface) { i.Link = &report.Link{State: "Refused"} }), "✗", "LinkRefused", "bad",
		},
	} {
		t.Run(name, func(t *testing.T) {
			topology := report.NewTopology(report.Fleet{Nodes: []report.Node{node("a", "z", tc.of)}})
			want := "z\n  a (m5.xlarge)\n    " + tc.sign + "   card 0 device 2   multus   subnet-0f59b4f14737be9ad   " +
				tc.state + "\n"
			if diff := cmp.Diff(want, topology.Text(report.Page{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			circle := fmt.Sprintf(`class="%s"><title>%s</title></circle>`, tc.class, tc.state)
			if svg := topology.SVG(); !strings.Contains(svg, circle) {
				t.Errorf("no %s in %s", circle, svg)
			}
		})
	}
}

func TestTopologyText(t *testing.T) {
	untyped := node("b1", "us-east-1b", attached("multus", 1))
	untyped.Type = ""
	absent := node("gone", "", attached("multus", 1))
	absent.Absent, absent.Type = true, ""
	many := func(n int) (nodes []report.Node) {
		for i := range n {
			nodes = append(nodes, node(fmt.Sprintf("a%d", i), "us-east-1a", attached("multus", 1)))
		}
		return nodes
	}
	const line = "    ●   card 0 device 1   multus   subnet-0f59b4f14737be9ad   attached\n"
	for name, tc := range map[string]struct {
		nodes []report.Node
		page  report.Page
		want  string
	}{
		"no node":              {nil, report.Page{}, "No node has interfaces of a NodeENI.\n"},
		"no node with NodeENI": {[]report.Node{node("a", "z")}, report.Page{}, "No node has interfaces of a NodeENI.\n"},
		"a node without type":  {[]report.Node{untyped}, report.Page{}, "us-east-1b\n  b1 (unknown type)\n" + line},
		"interfaces without a Node": {
			[]report.Node{absent}, report.Page{}, "unknown zone\n  gone (unknown type)\n" + line,
		},
		"five nodes are all named": {many(5), report.Page{}, "us-east-1a\n  a0, a1, a2, a3, a4 (m5.xlarge)\n" + line},
		"six are not":              {many(6), report.Page{}, "us-east-1a\n  a0, a1, a2, a3 and 2 more (m5.xlarge)\n" + line},
		"six on a wide page": {
			many(6), report.Page{Wide: true}, "us-east-1a\n  a0, a1, a2, a3, a4, a5 (m5.xlarge)\n" + line,
		},
		"a narrow page leaves the subnet out": {
			many(1), report.Page{Width: 60}, "us-east-1a\n  a0 (m5.xlarge)\n    ●   card 0 device 1   multus   attached\n",
		},
		"the zone is a heading": {
			[]report.Node{node("a", "z", attached("multus", 1))}, report.Page{Colours: true},
			"\x1b[1mz\x1b[0m\n  a (m5.xlarge)\n" + strings.Replace(line, "    ●", "\x1b[32m    ●\x1b[0m", 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := report.NewTopology(report.Fleet{Nodes: tc.nodes}).Text(tc.page)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// drawing is what an SVG has of shapes and texts.
type drawing struct {
	Width  int `xml:"width,attr"`
	Height int `xml:"height,attr"`
	Boxes  []struct {
		X      int `xml:"x,attr"`
		Y      int `xml:"y,attr"`
		Width  int `xml:"width,attr"`
		Height int `xml:"height,attr"`
	} `xml:"rect"`
	Texts []struct {
		X     int    `xml:"x,attr"`
		Y     int    `xml:"y,attr"`
		Class string `xml:"class,attr"`
		Text  string `xml:",chardata"`
	} `xml:"text"`
	Signs []struct {
		X int `xml:"cx,attr"`
		Y int `xml:"cy,attr"`
	} `xml:"circle"`
}

func parseSVG(t interface{ Fatal(...any) }, svg string) drawing {
	var d drawing
	if err := xml.Unmarshal([]byte(svg), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// texts of a class in the drawing; "" are the names of NodeENIs.
func (d drawing) texts(class string) (all []string) {
	for _, text := range d.Texts {
		if text.Class == class {
			all = append(all, text.Text)
		}
	}
	return all
}

func TestTheDrawingNamesNodesAndInterfaces(t *testing.T) {
	const eks = "ip-192-168-100-200.us-west-2.compute.internal"
	cut := node(eks, "us-west-2a", attached("a-nodeeni-with-a-long-name", 1))
	second, third := cut, cut
	second.Name, third.Name = strings.Replace(eks, "100-200", "100-201", 1), strings.Replace(eks, "100-200", "100-202", 1)
	long := node("a-", "z", attached("multus", 1))
	long.Interfaces[0].SubnetID = "subnet-0f59b4f14737be9ad0"
	absent := node("gone", "", blocked("multus"))
	absent.Type = ""
	for name, tc := range map[string]struct {
		nodes                      []report.Node
		zones, titles, enis, facts []string
	}{
		"a node and its interface": {
			[]report.Node{node("a", "z", attached("multus", 1))}, []string{"z"}, []string{"a"}, []string{"multus"},
			[]string{"m5.xlarge", "card 0 device 1", "subnet-0f59b4f14737be9ad"},
		},
		"a long name is cut": {
			[]report.Node{cut}, []string{"us-west-2a"}, []string{"ip-192-168-100-200.us-west-2.compute.inte…"},
			[]string{"a-nodeeni-with-a-long…"}, []string{"m5.xlarge", "card 0 device 1", "subnet-0f59b4f14737be9ad"},
		},
		"a long name leaves room for the number of nodes": {
			[]report.Node{cut, second, third}, []string{"us-west-2a"}, []string{"ip-192-168-100-200.us-west-2.com… + 2 more"},
			[]string{"a-nodeeni-with-a-long…"}, []string{"m5.xlarge", "card 0 device 1", "subnet-0f59b4f14737be9ad"},
		},
		"two nodes": {
			[]report.Node{node("b", "z", attached("multus", 1)), node("a", "z", attached("multus", 1))}, []string{"z"},
			[]string{"a + 1 more"}, []string{"multus"}, []string{"m5.xlarge", "card 0 device 1", "subnet-0f59b4f14737be9ad"},
		},
		"a long subnet is cut": {
			[]report.Node{long}, []string{"z"}, []string{"a-"}, []string{"multus"},
			[]string{"m5.xlarge", "card 0 device 1", "subnet-0f59b4f14737be9a…"},
		},
		"without a subnet, the state": {
			[]report.Node{absent}, []string{"unknown zone"}, []string{"gone"}, []string{"multus"},
			[]string{"", "card 0 device 2", "NoSubnetInZone"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := parseSVG(t, report.NewTopology(report.Fleet{Nodes: tc.nodes}).SVG())
			want := [][]string{tc.zones, tc.titles, tc.enis, tc.facts}
			got := [][]string{d.texts("zone"), d.texts("node"), d.texts(""), d.texts("fact")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheDrawingOfNoNodeIsEmpty(t *testing.T) {
	got := parseSVG(t, report.NewTopology(report.Fleet{}).SVG())
	if diff := cmp.Diff(drawing{Width: 540, Height: 20}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each box is within the drawing, none covers another one, and each has its texts and signs inside.
func TestTheDrawingHasRoomForAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		topology := report.NewTopology(anyFleet(rt))
		d := parseSVG(rt, topology.SVG())
		inBox := func(x, y, box int) bool {
			b := d.Boxes[box]
			return b.X < x && x < b.X+b.Width && b.Y < y && y < b.Y+b.Height
		}
		for n, b := range d.Boxes {
			if b.X < 0 || b.Y < 0 || b.X+b.Width > d.Width || b.Y+b.Height > d.Height {
				rt.Fatalf("box %+v is outside of %d by %d", b, d.Width, d.Height)
			}
			for _, other := range d.Boxes[:n] {
				if b.X < other.X+other.Width && other.X < b.X+b.Width &&
					b.Y < other.Y+other.Height && other.Y < b.Y+b.Height {
					rt.Fatalf("box %+v covers %+v", b, other)
				}
			}
		}
		groups, ports := 0, 0
		for _, z := range topology.Zones {
			for _, g := range z.Groups {
				for _, sign := range d.Signs[ports : ports+len(g.Interfaces)] {
					if !inBox(sign.X, sign.Y, groups) {
						rt.Fatalf("sign %+v of %v is outside of its box %+v", sign, g.Nodes, d.Boxes[groups])
					}
				}
				ports += len(g.Interfaces)
				groups++
			}
		}
		outside := 0
		for _, text := range d.Texts {
			within := 0
			for box := range d.Boxes {
				if inBox(text.X, text.Y, box) {
					within++
				}
			}
			if within == 0 {
				outside++
			}
		}
		if len(d.Boxes) != groups || len(d.Signs) != ports || outside != len(topology.Zones) {
			rt.Fatalf("%d boxes, %d signs and %d texts outside of boxes, want %d, %d and the names of %d zones", len(d.Boxes),
				len(d.Signs), outside, groups, ports, len(topology.Zones))
		}
	})
}

func ExampleNewTopology() {
	storage := func(node string, device int) report.Node {
		return report.Node{Name: node, Zone: "us-east-1a", Type: "m5.large", Interfaces: []report.Interface{
			{NodeENI: "storage", Phase: "Attached", SubnetID: "subnet-1", Slot: eni.Slot{Device: device}},
		}}
	}
	fleet := report.Fleet{Nodes: []report.Node{storage("node-3", 2), storage("node-2", 1), storage("node-1", 1)}}
	fmt.Print(report.NewTopology(fleet).Text(report.Page{}))
	// Output:
	// us-east-1a
	//   node-1, node-2 (m5.large)
	//     ●   card 0 device 1   storage   subnet-1   attached
	//   node-3 (m5.large)
	//     ●   card 0 device 2   storage   subnet-1   attached
}
