// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/terminal"
)

// row is one line of the table: an interface of a node, a blocked one, or a node without any.
type row struct {
	Node, Zone, Device, Interface, Subnet string
	State                                 string
	Style                                 terminal.Style
}

// rows lists every node of the simulated cluster with its interfaces in EC2.
func rows(m moment) []row {
	instances := slices.SortedFunc(slices.Values(m.ec2.Instances), func(a, b *ec2.Instance) int {
		return cmp.Compare(m.nodeName(a), m.nodeName(b))
	})
	var all []row
	for _, instance := range instances {
		all = append(all, instanceRows(m, instance)...)
	}
	return all
}

func instanceRows(m moment, instance *ec2.Instance) []row {
	var rows []row
	for _, i := range m.owned() {
		if i.Tags[identity.TagInstanceID] == instance.InstanceID {
			rows = append(rows, interfaceRow(i))
		}
	}
	name := m.nodeName(instance)
	for _, a := range m.blocked(name) {
		rows = append(rows, blockedRow(a))
	}
	if len(rows) == 0 {
		rows = []row{{Style: terminal.Idle}}
		if instance.State.Name != ec2.Running {
			rows[0].State = instance.State.Name
		}
	}
	for n := range rows {
		rows[n].Node, rows[n].Zone = name, instance.Placement.AvailabilityZone
	}
	return rows
}

func interfaceRow(i *ec2.NetworkInterface) row {
	r := row{Interface: i.NetworkInterfaceID, Subnet: i.SubnetID, State: i.Status, Style: terminal.Busy}
	if i.Attachment != nil {
		r.Device = strconv.Itoa(i.Attachment.DeviceIndex)
		r.State = i.Attachment.Status
	}
	if r.State == ec2.Attached {
		r.Style = terminal.Good
	}
	return r
}

func blockedRow(a v1alpha1.Attachment) row {
	r := row{State: a.Reason, Style: terminal.Bad}
	if a.DeviceIndex > 0 { // 0 is the primary interface: no slot was chosen
		r.Device = strconv.Itoa(int(a.DeviceIndex))
	}
	return r
}

// news returns the changes between two tables, a line for each interface.
func news(before, after []row) []string {
	old := map[string]row{}
	for _, r := range before {
		if r.Interface != "" {
			old[r.Interface] = r
		}
	}
	var lines []string
	for _, r := range after {
		was, known := old[r.Interface]
		delete(old, r.Interface)
		switch {
		case r.Interface != "" && (!known || was.State != r.State):
			lines = append(lines, line(r, r.State))
		case r.Style == terminal.Bad && !slices.Contains(before, r):
			lines = append(lines, line(r, "blocked: "+r.State))
		}
	}
	for _, r := range before {
		if _, gone := old[r.Interface]; gone {
			lines = append(lines, line(r, "gone"))
		}
	}
	return lines
}

func line(r row, what string) string {
	words := []string{r.Node}
	if r.Interface != "" {
		words = append(words, r.Interface)
	}
	if r.Device != "" {
		words = append(words, "device "+r.Device)
	}
	return strings.Join(append(words, what), "  ")
}

// indent of everything below a chapter's title.
const indent = "  "

// columns have room for IDs from the beginning, which have one length (EC2 user guide, "Resource IDs"): a live table
// then stays in place. The column of subnets is omitted on a narrow terminal.
var columns = []terminal.Column{
	{Title: "NODE"}, {Title: "ZONE"}, {Title: "DEV", Least: len("DEV"), Right: true},
	{Title: "INTERFACE", Least: len("eni-0123456789abcdef0")},
	{Title: "SUBNET", Least: len("subnet-0123456789abcdef0"), Dispensable: 1}, {Title: "STATE"},
}

// table renders the rows, indented, in at most the width of the page.
func table(rows []row, p terminal.Page) string {
	lines := make([][]terminal.Cell, len(rows))
	for n, r := range rows {
		node, zone := r.Node, r.Zone
		if n > 0 && rows[n-1].Node == r.Node {
			node, zone = "", ""
		}
		lines[n] = []terminal.Cell{{Text: node}, {Text: zone}, {Text: r.Device}, {Text: r.Interface}, {Text: r.Subnet},
			{Text: strings.TrimSpace(r.Style.Sign() + " " + r.State), Style: r.Style}}
	}
	p.Width -= len(indent)
	var b strings.Builder
	for line := range strings.Lines(p.Table(columns, lines)) {
		b.WriteString(indent + line)
	}
	return b.String()
}

// seconds formats a duration for readers.
func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}
