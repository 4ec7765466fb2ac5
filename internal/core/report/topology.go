// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// Topology is a fleet by zone, in which equal nodes are drawn once.
type Topology struct {
	Zones []Zone `json:"zones"`
}

// Zone is one availability zone.
type Zone struct {
	Name   string  `json:"name"`
	Groups []Group `json:"groups"`
}

// Group is the nodes of a zone that have the same type and the same interfaces in the same slots.
type Group struct {
	Nodes      []string `json:"nodes"`
	Type       string   `json:"instanceType,omitempty"`
	Interfaces []Port   `json:"interfaces"`
}

// Port is one interface of every node of a group.
type Port struct {
	Card    int    `json:"networkCardIndex"`
	Device  int    `json:"deviceIndex"`
	NodeENI string `json:"nodeENI"`
	Subnet  string `json:"subnetID,omitempty"`
	State   string `json:"state"`
	style   terminal.Style
}

// NewTopology groups the nodes that a NodeENI concerns by zone and equality.
func NewTopology(f Fleet) Topology {
	zones := map[string]map[string]*Group{}
	for _, n := range f.sorted().Nodes {
		if !n.concerned() {
			continue
		}
		g := Group{Type: n.Type, Interfaces: ports(n)}
		key := fmt.Sprintf("%v", g)
		if zones[n.Zone] == nil {
			zones[n.Zone] = map[string]*Group{}
		}
		if zones[n.Zone][key] == nil {
			zones[n.Zone][key] = &g
		}
		group := zones[n.Zone][key]
		group.Nodes = append(group.Nodes, n.Name)
	}
	t := Topology{Zones: []Zone{}}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		zone := Zone{Name: name}
		for _, g := range zones[name] {
			zone.Groups = append(zone.Groups, *g)
		}
		slices.SortFunc(zone.Groups, func(a, b Group) int {
			return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Nodes[0], b.Nodes[0]))
		})
		t.Zones = append(t.Zones, zone)
	}
	return t
}

func ports(n Node) []Port {
	all := make([]Port, 0, len(n.Interfaces))
	for _, i := range n.Interfaces {
		state := strings.ToLower(string(i.Phase))
		if reason, _ := i.trouble(); reason != "" {
			state = reason
		}
		all = append(all, Port{Card: i.Slot.Card, Device: i.Slot.Device, NodeENI: i.NodeENI, Subnet: i.SubnetID,
			State: state, style: i.style()})
	}
	slices.SortFunc(all, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Card, b.Card), cmp.Compare(a.Device, b.Device), cmp.Compare(a.NodeENI, b.NodeENI))
	})
	return all
}

// title is the name of the zone. The zone of a node that has NetworkInterfaces and no Node is not known.
func (z Zone) title() string { return cmp.Or(z.Name, "unknown zone") }

// Text prints the topology as a tree.
func (t Topology) Text(p Page) string {
	if len(t.Zones) == 0 {
		return "No node has interfaces of a NodeENI.\n"
	}
	var b strings.Builder
	for _, z := range t.Zones {
		b.WriteString(p.paint(terminal.Strong, terminal.Line(z.title())) + "\n")
		for _, g := range z.Groups {
			b.WriteString(p.paragraph("  ", fmt.Sprintf("%s (%s)", p.Names(g.Nodes), cmp.Or(g.Type, "unknown type"))))
			b.WriteString(g.text(p))
		}
	}
	return b.String()
}

// text prints the interfaces of a group, one to a line.
func (g Group) text(p Page) string {
	columns := []terminal.Column{{}, {}, {}, {Dispensable: 1}, {}}
	rows := make([][]terminal.Cell, len(g.Interfaces))
	for i, port := range g.Interfaces {
		slot := fmt.Sprintf("card %d device %d", port.Card, port.Device)
		rows[i] = []terminal.Cell{{Text: "    " + port.style.Sign(), Style: port.style}, {Text: slot}, {Text: port.NodeENI},
			{Text: port.Subnet}, {Text: port.State}}
	}
	return p.table(columns, rows)
}

// Measures of the drawing, in pixels.
const (
	zoneWidth  = 500
	margin     = 20
	lineHeight = 20
	boxGap     = 14
)

// SVG draws the topology: a column for each zone, a box for each group of like nodes, a line for each interface.
func (t Topology) SVG() string {
	var body strings.Builder
	height := 0
	for i, z := range t.Zones {
		x := margin + i*(zoneWidth+margin)
		y := margin + lineHeight
		fmt.Fprintf(&body, `<text x="%d" y="%d" class="zone">%s</text>`+"\n", x, y, escape(z.title()))
		y += boxGap
		for _, g := range z.Groups {
			y += g.draw(&body, x, y) + boxGap
		}
		height = max(height, y)
	}
	width := margin + max(1, len(t.Zones))*(zoneWidth+margin)
	height += margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>Network interfaces of the fleet by zone</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2933 }
.zone { font-weight: 600; font-size: 16px } .node { font-weight: 600 } .fact { fill: #616e7c }
.box { fill: #f5f7fa; stroke: #9aa5b1 } .good { fill: #3f9142 } .busy { fill: #de911d } .bad { fill: #ba2525 }
</style>
%[3]s</svg>
`, width, height, body.String())
}

// draw draws the group at a place and returns its height.
func (g Group) draw(b *strings.Builder, x, y int) int {
	height := (1+len(g.Interfaces))*lineHeight + boxGap
	others := ""
	if more := len(g.Nodes) - 1; more > 0 {
		others = fmt.Sprintf(" + %d more", more)
	}
	title := text.Fit(g.Nodes[0], 42-len(others)) + others // a long name is cut, and not the number
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" class="box"/>`+"\n", x, y, zoneWidth, height)
	fmt.Fprintf(b, `<text x="%d" y="%d" class="node">%s</text><text x="%d" y="%d" text-anchor="end" class="fact">%s</text>`+"\n",
		x+10, y+lineHeight, escape(title), x+zoneWidth-10, y+lineHeight, escape(g.Type))
	for i, port := range g.Interfaces {
		line := y + (i+2)*lineHeight
		class := map[terminal.Style]string{terminal.Good: "good", terminal.Busy: "busy", terminal.Bad: "bad"}[port.style]
		fmt.Fprintf(b, `<circle cx="%d" cy="%d" r="5" class="%s"><title>%s</title></circle>`, x+16, line-5, class,
			escape(port.State))
		fmt.Fprintf(b, `<text x="%d" y="%d" class="fact">card %d device %d</text><text x="%d" y="%d">%s</text>`,
			x+28, line, port.Card, port.Device, x+140, line, escape(text.Fit(port.NodeENI, 22)))
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" class="fact">%s</text>`+"\n",
			x+zoneWidth-10, line, escape(cmp.Or(text.Fit(port.Subnet, 24), port.State)))
	}
	return height
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder takes everything
	return b.String()
}
