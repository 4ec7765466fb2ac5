// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/text"
)

// CNISettings are the settings of the VPC CNI that limit its interfaces on a node.
type CNISettings struct {
	// MaxENI is MAX_ENI; 0 without a limit.
	MaxENI int
	// Warm is the number of interfaces without pods that it keeps attached: WARM_ENI_TARGET, or 0 if another target
	// replaces it.
	Warm int
}

// CNINode is a node with the VPC CNI.
type CNINode struct {
	InstanceType string
	// Limit is the number of interfaces that network card 0 takes.
	Limit int
	// Unmanaged is the number of interfaces on card 0 that the VPC CNI does not manage.
	Unmanaged int
}

// CNIRoom has the interfaces that the VPC CNI can have on nodes of an instance type.
type CNIRoom struct {
	InstanceType string `json:"instanceType"`
	Nodes        int    `json:"nodes"`
	Limit        int    `json:"limit"`
	Unmanaged    int    `json:"unmanaged"`
	// Left is the number of interfaces for the VPC CNI, the primary one included.
	Left int `json:"left"`

	settings CNISettings
}

// RoomForCNI returns what is left to the VPC CNI on nodes, alike nodes together. The VPC CNI attaches interfaces to
// card 0 until it has as many as MAX_ENI and the instance type allow, less those that it does not manage
// (aws/amazon-vpc-cni-k8s, pkg/ipamd/ipamd.go). So interfaces of NodeENIs that are attached count twice if MAX_ENI was
// lowered for them.
func RoomForCNI(nodes []CNINode, settings CNISettings) []CNIRoom {
	counts := map[CNINode]int{}
	for _, n := range nodes {
		if n.Limit > 0 {
			counts[n]++
		}
	}
	var all []CNIRoom
	byType := func(a, b CNINode) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Unmanaged, b.Unmanaged))
	}
	for _, n := range slices.SortedFunc(maps.Keys(counts), byType) {
		most := n.Limit
		if settings.MaxENI > 0 {
			most = min(most, settings.MaxENI)
		}
		all = append(all, CNIRoom{InstanceType: n.InstanceType, Nodes: counts[n], Limit: n.Limit, Unmanaged: n.Unmanaged,
			Left: max(1, most-n.Unmanaged), settings: settings})
	}
	return all
}

// String returns the numbers in a sentence.
func (r CNIRoom) String() string {
	from := fmt.Sprint(r.Limit)
	if r.lowered() {
		from = fmt.Sprintf("MAX_ENI=%d", r.settings.MaxENI)
	}
	return fmt.Sprintf("%s (%s): the VPC CNI can have %d of %s, the primary one included: %s less %d that it does not "+
		"manage", r.InstanceType, text.Count(r.Nodes, "node"), r.Left, text.Count(r.Limit, "interface"), from, r.Unmanaged)
}

// lowered reports whether MAX_ENI is below the limit of the type.
func (r CNIRoom) lowered() bool { return r.settings.MaxENI > 0 && r.settings.MaxENI < r.Limit }

// Warning says that the VPC CNI has less than it asks for because of other interfaces, and returns the next step; both
// are empty otherwise.
func (r CNIRoom) Warning() (found, next string) {
	asks := 1 + r.settings.Warm
	if r.Unmanaged == 0 || r.Left >= min(asks, r.Limit) {
		return "", ""
	}
	found = fmt.Sprintf("%s; WARM_ENI_TARGET=%d asks for %d", r, r.settings.Warm, asks)
	if r.lowered() {
		return found, "Remove MAX_ENI, or count the other interfaces in it: it reserves no slot for them. " + slotsPage
	}
	return found, "Use a larger instance type or fewer interfaces, or lower the maximum number of pods of the nodes. " +
		slotsPage
}

const slotsPage = "See docs/install.md#slots-next-to-the-vpc-cni."

// UnmanagedByCNI returns the number of interfaces on network card 0 that the VPC CNI does not manage, before and after
// some calls.
func UnmanagedByCNI(look eni.InstanceSnapshot, calls []plan.Call) (before, after int) {
	counted := map[string]bool{}
	for _, i := range look.Interfaces {
		if i.AttachedTo(look.Instance.ID) && i.Attachment.Slot.Card == 0 && i.Tags[identity.TagNoManage] == "true" {
			before++
			counted[i.ID] = true
		}
	}
	after = before
	for _, call := range calls {
		switch a := call.(type) {
		case plan.Attach:
			if a.Slot.Card == 0 {
				after++
			}
		case plan.Detach:
			if counted[a.InterfaceID] {
				after--
			}
		}
	}
	return before, after
}

// AddCNIRoom adds what is left to the VPC CNI on nodes whose number of other interfaces changes.
func (v *PlanDiff) AddCNIRoom(drafts []SimulatedNode, settings CNISettings) {
	var nodes []CNINode
	for _, d := range drafts {
		if before, after := UnmanagedByCNI(d.Look, d.Outcome.Calls); before != after {
			nodes = append(nodes, CNINode{InstanceType: d.Look.Instance.Type, Limit: d.Limits.MaxOnCard(0), Unmanaged: after})
		}
	}
	v.VPCCNI = RoomForCNI(nodes, settings)
}
