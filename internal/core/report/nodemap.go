// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// NodeMap has the slots of one node with their interfaces.
type NodeMap struct {
	Node
	// Cards are the network cards of the instance type, with all slots, taken or free.
	Cards []Card `json:"cards"`
	// Waiting are the desired interfaces that are in no slot yet.
	Waiting []SlotView `json:"waiting,omitempty"`
	// Unseen is why EC2 could not be read, so that only our interfaces are shown; empty after a read.
	Unseen string `json:"unseen,omitempty"`
}

// Card is one network card.
type Card struct {
	Index int        `json:"index"`
	Used  int        `json:"used"`
	Takes int        `json:"takes"`
	Slots []SlotView `json:"slots"`
}

// SlotView is one slot.
type SlotView struct {
	Device    int    `json:"deviceIndex"`
	Owner     string `json:"owner"`
	ENIID     string `json:"eniID,omitempty"`
	PrivateIP string `json:"privateIP,omitempty"`
	SubnetID  string `json:"subnetID,omitempty"`
	State     string `json:"state,omitempty"`
	Link      string `json:"link,omitempty"`
	style     terminal.Style
	taken     bool
}

// NewNodeMap draws a node. The snapshot is nil if a read of EC2 failed, for the reason in unseen. Unknown limits come
// from the offline table.
func NewNodeMap(n Node, look *eni.InstanceSnapshot, limits eni.Limits, unseen string) NodeMap {
	if look != nil {
		n.Type = cmp.Or(look.Instance.Type, n.Type)
	}
	if !limits.Known() {
		limits, _ = instancetype.Offline(n.Type)
	}
	p := NodeMap{Node: n, Unseen: unseen}
	views := map[eni.Slot]SlotView{}
	if look != nil {
		for _, i := range look.Interfaces {
			if i.AttachedTo(n.InstanceID) {
				views[i.Attachment.Slot] = slotViewOf(i)
			}
		}
	} else {
		views[eni.Primary] = SlotView{Owner: "primary", taken: true, style: terminal.Idle}
	}
	for _, i := range n.Interfaces {
		view := i.slotView()
		if there, occupied := views[i.Slot]; i.Phase == plan.Attached || occupied && there.ENIID == i.ENIID && i.ENIID != "" {
			views[i.Slot] = view
		} else {
			p.Waiting = append(p.Waiting, view)
		}
	}
	p.Cards = cards(views, limits)
	return p
}

// cards sorts slots by card and adds the free slots. Indices above the number of interfaces of a card exist: EC2 limits
// the number of interfaces, and not the indices.
func cards(views map[eni.Slot]SlotView, limits eni.Limits) []Card {
	var all []Card
	number := len(limits.Cards)
	for slot := range views {
		number = max(number, slot.Card+1)
	}
	for index := range number {
		card := Card{Index: index, Takes: limits.MaxOnCard(index)}
		for slot, view := range views {
			if slot.Card == index {
				view.Device = slot.Device
				card.Slots = append(card.Slots, view)
				card.Used++
			}
		}
		for device, free := 0, card.Takes-card.Used; free > 0; device++ {
			if !slices.ContainsFunc(card.Slots, func(s SlotView) bool { return s.taken && s.Device == device }) {
				card.Slots = append(card.Slots, SlotView{Device: device, Owner: "free", style: terminal.Idle})
				free--
			}
		}
		slices.SortFunc(card.Slots, func(a, b SlotView) int { return cmp.Compare(a.Device, b.Device) })
		all = append(all, card)
	}
	return all
}

// slotViewOf returns the slot of an interface as EC2 returns it.
func slotViewOf(i eni.Interface) SlotView {
	s := SlotView{Owner: ownerOf(i), ENIID: i.ID, SubnetID: i.SubnetID, taken: true, style: terminal.Idle,
		State: string(i.Attachment.Status)}
	if i.PrimaryIPv4.IsValid() {
		s.PrivateIP = i.PrimaryIPv4.String()
	}
	return s
}

// ownerOf returns the likely owner of an interface.
func ownerOf(i eni.Interface) string {
	switch {
	case i.Attachment != nil && i.Attachment.Slot == eni.Primary:
		return "primary"
	case i.Tags[identity.TagNodeTemplate] != "" && i.Tags[identity.TagUID] == "":
		return "AWSNodeTemplate " + i.Tags[identity.TagNodeTemplate]
	case identity.UID(i.Tags[identity.TagUID]).IsNetwork():
		return "network " + i.Tags[identity.TagNodeENI]
	case i.Tags[identity.TagNodeENI] != "":
		return i.Tags[identity.TagNodeENI]
	case i.Tags["node.k8s.amazonaws.com/instance_id"] != "":
		return "VPC CNI"
	case i.RequesterManaged:
		return "an AWS service"
	default:
		return "other"
	}
}

// mostForeign is the maximum number of addresses of other programs in the picture.
const mostForeign = 2

// slotView returns the slot of an interface from its NetworkInterface.
func (i Interface) slotView() SlotView {
	s := SlotView{
		Device: i.Slot.Device, Owner: fmt.Sprintf("%s[%d]", i.NodeENI, i.Ordinal), ENIID: i.ENIID, PrivateIP: i.PrivateIP,
		SubnetID: i.SubnetID, State: strings.ToLower(string(i.Phase)), taken: true, style: i.style(),
	}
	if reason, _ := i.trouble(); reason != "" {
		s.State += ", " + reason
	}
	if n := len(i.Followed); n > 0 {
		s.PrivateIP += fmt.Sprintf(" +%d of pods: %s", n, strings.Join(i.Followed[:min(n, mostForeign)], ", "))
	}
	if n := len(i.Foreign); n > 0 {
		s.PrivateIP += fmt.Sprintf(" +%d of others: %s", n, strings.Join(i.Foreign[:min(n, mostForeign)], ", "))
	}
	if i.Slot.Device != i.Asked {
		s.State += fmt.Sprintf(" (asked for %d)", i.Asked)
	}
	if l := i.Link; l != nil {
		s.Link = strings.TrimSpace(cmp.Or(l.AltName, l.Name) + " " + strings.ToLower(l.State))
		if l.MTU > 0 {
			s.Link += fmt.Sprintf(" mtu %d", l.MTU)
		}
	}
	return s
}

// Text prints the picture.
func (v NodeMap) Text(p Page) string {
	var b strings.Builder
	facts := strings.Join(slices.DeleteFunc([]string{v.InstanceID, v.Type, v.Zone}, func(s string) bool {
		return s == ""
	}), ", ")
	b.WriteString(p.paint(terminal.Strong, p.paragraph("", v.Name)) + p.paragraph("", facts))
	if v.Desired > 0 {
		ready := v.readiness()
		fmt.Fprintf(&b, "%s   %d of %s attached\n", p.paint(ready.Style, terminal.Line(ready.Text)), v.Attached,
			text.Count(v.Desired, "interface"))
	} else {
		b.WriteString(p.paint(terminal.Idle, "no NodeENI wants an interface here") + "\n")
	}
	for _, c := range v.Cards {
		b.WriteString("\n" + c.text(p))
	}
	if len(v.Waiting) > 0 {
		b.WriteString("\n" + p.paint(terminal.Strong, "in no slot") + "\n" + p.table(slotColumns(), slotRows(v.Waiting)))
	}
	if v.Unseen != "" {
		b.WriteString("\n" + p.paragraph("",
			"Only multieni's own interfaces are shown, since EC2 could not be asked: "+v.Unseen))
	}
	for _, t := range issues([]Node{v.Node}) {
		b.WriteString("\n" + t.text(p))
	}
	return b.String()
}

// readiness says with a sign whether all interfaces of the node are ready.
func (n Node) readiness() terminal.Cell {
	style, words := terminal.Busy, "False"
	switch {
	case n.ready():
		style, words = terminal.Good, "True"
	case slices.ContainsFunc(issues([]Node{n}), func(t Issue) bool { return !t.Passing }):
		style = terminal.Bad
	}
	return terminal.Cell{Text: style.Sign() + " " + words, Style: style}
}

func (c Card) text(p Page) string {
	var squares strings.Builder
	for _, s := range c.Slots {
		square := "■"
		if !s.taken {
			square = "□"
		}
		squares.WriteString(p.paint(s.style, square))
	}
	used := fmt.Sprintf("%d used", c.Used)
	if c.Takes > 0 {
		used = fmt.Sprintf("%d of %d used", c.Used, c.Takes)
	}
	return fmt.Sprintf("%s  %s  %s\n", p.paint(terminal.Strong, fmt.Sprintf("card %d", c.Index)), squares.String(), used) +
		p.table(slotColumns(), slotRows(c.Slots))
}

func slotColumns() []terminal.Column {
	return []terminal.Column{
		{Title: "INDEX", Right: true}, {Title: "OWNER"}, {Title: "ENI", Dispensable: 1}, {Title: "ADDRESS", Dispensable: 2},
		{Title: "SUBNET", Dispensable: 4}, {Title: "STATE"}, {Title: "LINK", Dispensable: 3},
	}
}

func slotRows(views []SlotView) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, s := range views {
		owner, state := terminal.Cell{Text: s.Owner}, terminal.Cell{Text: s.State, Style: s.style}
		if s.style == terminal.Idle {
			owner.Style = terminal.Idle
		}
		rows = append(rows, []terminal.Cell{{Text: fmt.Sprint(s.Device)}, owner, {Text: s.ENIID}, {Text: s.PrivateIP},
			{Text: s.SubnetID}, state, {Text: s.Link}})
	}
	return rows
}
