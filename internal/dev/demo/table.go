// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/text"
)

// row is one line of the table: an interface of a node, a blocked one, or a node without any.
type row struct {
	Node, Zone, Device, Interface, Subnet string
	State                                 string
	Mood                                  mood
}

// mood is how a state is to be taken.
type mood int

const (
	idle mood = iota // nothing there, nothing wanted
	busy             // EC2 is at work
	good
	bad
)

// mark is the sign that stands before a state, so that it does not take colours to see it.
func (m mood) mark() string { return [...]string{idle: "·", busy: "◐", good: "●", bad: "✗"}[m] }

// rows lists every node of the simulated cluster with what EC2 holds for it.
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
		rows = []row{{Mood: idle}}
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
	r := row{Interface: i.NetworkInterfaceID, Subnet: i.SubnetID, State: i.Status, Mood: busy}
	if i.Attachment != nil {
		r.Device = strconv.Itoa(i.Attachment.DeviceIndex)
		r.State = i.Attachment.Status
	}
	if r.State == ec2.Attached {
		r.Mood = good
	}
	return r
}

func blockedRow(a v1alpha1.Attachment) row {
	r := row{State: a.Reason, Mood: bad}
	if a.DeviceIndex > 0 { // 0 is the primary interface: none was even looked for
		r.Device = strconv.Itoa(int(a.DeviceIndex))
	}
	return r
}

// news says what changed between two tables, a line for each interface.
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
		case r.Mood == bad && !slices.Contains(before, r):
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

// table renders the rows in at most width columns. The column of subnets gives way when there is little room.
func table(rows []row, width int, p palette) string {
	lines := [][]string{{"NODE", "ZONE", "DEV", "INTERFACE", "SUBNET", "STATE"}}
	for n, r := range rows {
		node, zone := r.Node, r.Zone
		if n > 0 && rows[n-1].Node == r.Node {
			node, zone = "", ""
		}
		lines = append(lines, []string{node, zone, r.Device, r.Interface, r.Subnet,
			strings.TrimSpace(r.Mood.mark() + " " + r.State)})
	}
	widths := fit(lines, width-len(indent))
	var b strings.Builder
	for n, cells := range lines {
		paint := p.dim
		if n > 0 {
			paint = p.of(rows[n-1].Mood)
		}
		b.WriteString(tableLine(cells, widths, n == 0, paint, p))
	}
	return b.String()
}

// The columns that are not like the others.
const (
	deviceColumn    = 2
	interfaceColumn = 3
	subnetColumn    = 4
	stateColumn     = 5
)

const gap = "  "

func tableLine(cells []string, widths []int, heading bool, paint func(string) string, p palette) string {
	painted := make([]string, len(cells))
	for n, cell := range cells {
		text := text.Fit(cell, widths[n])
		pad := strings.Repeat(" ", widths[n]-utf8.RuneCountInString(text))
		switch {
		case heading:
			text = p.dim(text)
		case n == stateColumn:
			text = paint(text)
		}
		switch n {
		case deviceColumn:
			painted[n] = pad + text
		case stateColumn: // the last one
			painted[n] = text
		default:
			painted[n] = text + pad
		}
	}
	return indent + strings.TrimRight(strings.Join(painted, gap), " ") + "\n"
}

// fit returns the width of each column, such that a line is not longer than width if the subnet column can help it.
func fit(lines [][]string, width int) []int {
	// IDs have one length (EC2 user guide, "Resource IDs"): room for them from the beginning keeps a live table still.
	widths := []int{interfaceColumn: len("eni-0123456789abcdef0"), subnetColumn: len("subnet-0123456789abcdef0"),
		stateColumn: 0}
	total := len(gap) * (len(widths) - 1)
	for n := range widths {
		for _, cells := range lines {
			widths[n] = max(widths[n], utf8.RuneCountInString(cells[n]))
		}
		total += widths[n]
	}
	if surplus := total - width; surplus > 0 {
		const least = len("subnet-0…")
		widths[subnetColumn] = max(min(least, widths[subnetColumn]), widths[subnetColumn]-surplus)
	}
	return widths
}

// seconds is a duration as people say it.
func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}
