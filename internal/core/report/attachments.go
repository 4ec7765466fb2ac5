// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/text"
)

// sharedAttachments is the number of attachments that network interfaces and EBS volumes share on most types of the
// Nitro System (EC2 user guide, "Amazon EBS volume limits for Amazon EC2 instances"). A type with a limit for volumes
// alone takes at least as many volumes.
const sharedAttachments = 28

// Attachments are those of a node's instance.
type Attachments struct {
	Node string
	// Interfaces are the network interfaces, the primary one included.
	Interfaces int
	// Volumes is the number of volumes that the EBS CSI driver offers to the scheduler, without the root volume. The
	// driver counts the interfaces when it starts, and misses later ones.
	Volumes int
}

// Crowding are nodes on which the EBS CSI driver offers more volumes than attachments are left. The volumes beyond them
// stay in the state attaching.
type Crowding struct {
	Nodes      []string `json:"nodes"`
	Interfaces int      `json:"interfaces"`
	Volumes    int      `json:"volumes"`
	// Excess is the number of volumes without an attachment.
	Excess int `json:"excess"`
}

// Crowded returns the nodes with too few attachments, alike nodes together.
func Crowded(nodes []Attachments) []Crowding {
	var all []Crowding
	byName := func(a, b Attachments) int { return cmp.Compare(a.Node, b.Node) }
	for _, n := range slices.SortedFunc(slices.Values(nodes), byName) {
		const rootVolume = 1
		excess := n.Interfaces + rootVolume + n.Volumes - sharedAttachments
		if excess <= 0 || n.Volumes >= sharedAttachments {
			continue
		}
		at := slices.IndexFunc(all, func(c Crowding) bool {
			return c.Interfaces == n.Interfaces && c.Volumes == n.Volumes
		})
		if at < 0 {
			at = len(all)
			all = append(all, Crowding{Interfaces: n.Interfaces, Volumes: n.Volumes, Excess: excess})
		}
		all[at].Nodes = append(all[at].Nodes, n.Node)
	}
	return all
}

// MoreAttachments is the next step for crowded nodes.
const MoreAttachments = "Reserve attachments in the driver, or create the interfaces at launch: " +
	"docs/install.md#volumes."

// String returns the attachments that are needed, and the consequence.
func (c Crowding) String() string {
	const most = 5
	names := strings.Join(c.Nodes[:min(len(c.Nodes), most)], ", ")
	if more := len(c.Nodes) - most; more > 0 {
		names += fmt.Sprintf(" and %s", text.Count(more, "other node"))
	}
	return fmt.Sprintf("%s: the EBS CSI driver offers %s in addition to %s; where both share %d attachments, %s would "+
		"stay attaching", names, text.Count(c.Volumes, "volume"), text.Count(c.Interfaces, "interface"), sharedAttachments,
		text.Count(c.Excess, "volume"))
}

// AddCrowding adds the nodes whose new interfaces take attachments that the EBS CSI driver offers to volumes. Volumes
// has the number of volumes by node.
func (v *PlanDiff) AddCrowding(drafts []SimulatedNode, volumes map[string]int) {
	var nodes []Attachments
	for _, d := range drafts {
		attached, more := 0, 0
		for _, i := range d.Look.Interfaces {
			if i.AttachedTo(d.Look.Instance.ID) {
				attached++
			}
		}
		for _, call := range d.Outcome.Calls {
			switch call.(type) {
			case plan.Attach:
				more++
			case plan.Detach:
				more--
			}
		}
		if offered, known := volumes[d.Node]; known && more > 0 {
			nodes = append(nodes, Attachments{Node: d.Node, Interfaces: attached + more, Volumes: offered})
		}
	}
	v.Crowded = Crowded(nodes)
}
