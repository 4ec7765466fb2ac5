// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// Leaks are the interfaces with the tags of a cluster that have no NodeENI, and those among them that are leaks.
type Leaks struct {
	Cluster string `json:"cluster"`
	// Owned is the number of interfaces with the cluster's tag.
	Owned  int    `json:"owned"`
	Leaked []Leak `json:"leaked"`
	// Retained have no NodeENI either, and are no leaks. The controller removes none of them.
	Retained []Retained `json:"retained"`
	// OtherNames are interfaces of the cluster's NodeENIs with another cluster name.
	OtherNames []OtherName `json:"otherNames,omitempty"`
	now        time.Time
}

// OtherName is an interface of a NodeENI of this cluster with the name of another cluster in its tags.
type OtherName struct {
	ENIID    string `json:"eniID"`
	Cluster  string `json:"cluster"`
	NodeENI  string `json:"nodeENI,omitempty"`
	Attached string `json:"attached,omitempty"`
}

// OtherNameAdvice is the next step for interfaces with another cluster name.
const OtherNameAdvice = "If the name of the controller was changed by mistake, set clusterName back. " +
	"Else detach and delete the interfaces by hand: no controller with the present name does " +
	"(docs/install.md#cluster-name)."

// AddOtherNames adds those of the interfaces of the cluster's NodeENIs that have another cluster name.
func (v *Leaks) AddOtherNames(all []eni.Interface) {
	for _, i := range all {
		if name := i.Tags[identity.TagCluster]; name != "" && name != v.Cluster {
			v.OtherNames = append(v.OtherNames, OtherName{i.ID, name, i.Tags[identity.TagNodeENI], attachedTo(i)})
		}
	}
}

// otherNames prints the interfaces with another cluster name, by name.
func (v Leaks) otherNames(p Page) string {
	byName := map[string][]string{}
	for _, o := range v.OtherNames {
		byName[o.Cluster] = append(byName[o.Cluster], o.ENIID)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		sentence := fmt.Sprintf("%s of this cluster's NodeENIs have the cluster name %s: %s.",
			text.Count(len(byName[name]), "interface"), name, firstIDs(byName[name]))
		b.WriteString(p.paragraph(p.sign(terminal.Bad)+" ", sentence))
	}
	if len(byName) > 0 {
		b.WriteString(p.paragraph("→ ", OtherNameAdvice))
	}
	return b.String()
}

// firstIDs lists the first IDs, and counts the others.
func firstIDs(ids []string) string {
	names := strings.Join(ids[:min(len(ids), mostRetained)], ", ")
	if more := len(ids) - mostRetained; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// Leak is an interface whose NodeENI does not exist.
type Leak struct {
	ENIID     string    `json:"eniID"`
	NodeENI   string    `json:"nodeENI,omitempty"`
	Node      string    `json:"node,omitempty"`
	SubnetID  string    `json:"subnetID"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Attached is where it is attached; empty if it is available.
	Attached string `json:"attached,omitempty"`
	// Collectable is set if it may be deleted: it is unattached and old enough.
	Collectable bool `json:"collectable"`
	// ByHand is set if the controller never removes it, because its tags are incomplete.
	ByHand  bool   `json:"byHand"`
	Verdict string `json:"verdict"`
}

// Retained is an interface that has no NodeENI, and stays.
type Retained struct {
	ENIID    string `json:"eniID"`
	Attached string `json:"attached,omitempty"`
	// What is the kind of the interface.
	What What `json:"what"`
}

// What is a kind of interface that has no NodeENI and is no leak.
type What string

// The kinds.
const (
	WhatLaunched   What = "Launched"
	WhatPrepared   What = "Prepared"
	WhatUnverified What = "Unverified"
	WhatTagsEdited What = "TagsEdited"
)

// kinds lists the kinds in the order in which the report prints them, each with the words that follow a number of
// interfaces.
var kinds = []struct {
	What
	words string
}{
	{WhatLaunched, "launched with an instance by an AWSNodeTemplate"},
	{WhatPrepared, "made by the lifecycle hook or eni-bootstrap before the instance joined"},
	{WhatUnverified, "attached, with nothing but tags to say that multieni made it (docs/runbook.md, MultieniUnverified)"},
	{WhatTagsEdited, "attached, with edited tags"},
}

// Evidence is what a cluster's objects contain about its interfaces.
type Evidence struct {
	// Living are the existing NodeENIs.
	Living map[identity.Owner]bool
	// Recorded are the interfaces that NodeENIStates name as those of a member.
	Recorded map[string]bool
	// Promised are the identities that their ledgers hold.
	Promised map[Promise]bool
}

// Promise is an entry of an instance's ledger.
type Promise struct {
	InstanceID string
	identity.Key
	Generation identity.Generation
}

// NewLeaks finds the leaks among a cluster's interfaces. The evidence was read after the interfaces.
func NewLeaks(cluster string, owned []eni.Interface, known Evidence, now time.Time) Leaks {
	v := Leaks{Cluster: cluster, Owned: len(owned), Leaked: []Leak{}, Retained: []Retained{}, now: now}
	for _, i := range owned {
		member, verdict := identity.Read(cluster, i.Tags)
		if verdict == identity.Foreign || verdict == identity.Owned && known.Living[member.Owner] {
			continue
		}
		if what := whatRetained(i, member, verdict, known); what != "" {
			v.Retained = append(v.Retained, Retained{i.ID, attachedTo(i), what})
			continue
		}
		leak := Leak{ENIID: i.ID, NodeENI: member.NodeENI, Node: member.Node, SubnetID: i.SubnetID, Attached: attachedTo(i)}
		leak.CreatedAt, _ = identity.CreatedAt(i.Tags)
		leak.judge(i, verdict, now)
		v.Leaked = append(v.Leaked, leak)
	}
	return v
}

// whatRetained returns the kind of an interface without a NodeENI if the controller retains it, and "" if it is a leak.
func whatRetained(i eni.Interface, member identity.Member, verdict identity.Verdict, known Evidence) What {
	switch {
	case i.Attachment == nil:
		return ""
	case verdict == identity.Launched:
		return WhatLaunched
	case verdict == identity.Malformed:
		return WhatTagsEdited
	case member.Owner.IsNetwork():
		return WhatPrepared
	case !known.Recorded[i.ID] && !known.Promised[Promise{member.InstanceID, member.Key, member.Generation}]:
		return WhatUnverified
	default:
		return ""
	}
}

func attachedTo(i eni.Interface) string {
	if i.Attachment == nil {
		return ""
	}
	return i.Attachment.InstanceID
}

func (l *Leak) judge(i eni.Interface, verdict identity.Verdict, now time.Time) {
	switch {
	case verdict == identity.Launched:
		l.ByHand, l.Verdict = true, "launched with an instance that is gone; delete it by hand"
	case verdict == identity.Malformed:
		l.ByHand, l.Verdict = true, "its tags were edited; delete it by hand if you know it"
	case l.CreatedAt.IsZero():
		l.ByHand, l.Verdict = true, "its tags give no age; delete it by hand if you know it"
	case i.Attachment != nil:
		l.Verdict = "attached; the controller detaches it"
	case i.Status != eni.Available:
		l.Verdict = "EC2 is at work on it"
	case !identity.PastMinLeakAge(i.Tags, now):
		l.Verdict = fmt.Sprintf("younger than %s", identity.MinLeakAge)
	default:
		l.Collectable, l.Verdict = true, "can be deleted"
	}
}

// Collectable returns the IDs of those that may be deleted.
func (v Leaks) Collectable() []string {
	var ids []string
	for _, l := range v.Leaked {
		if l.Collectable {
			ids = append(ids, l.ENIID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Text prints the leaks.
func (v Leaks) Text(p Page) string {
	if len(v.Leaked) == 0 {
		return p.paragraph(p.sign(terminal.Good)+" ", fmt.Sprintf(
			"No leak. Cluster %s owns %s, and none has lost its NodeENI.",
			v.Cluster, text.Count(v.Owned, "interface"))) + v.retained(p) + v.otherNames(p)
	}
	columns := []terminal.Column{
		{Title: "ENI"}, {Title: "NODEENI", Dispensable: 1}, {Title: "NODE", Dispensable: 3},
		{Title: "SUBNET", Dispensable: 4},
		{Title: "AGE", Right: true, Dispensable: 2}, {Title: "VERDICT"},
	}
	var rows [][]terminal.Cell
	for _, l := range v.Leaked {
		m := terminal.Busy
		if l.Collectable {
			m = terminal.Bad
		}
		rows = append(rows, []terminal.Cell{{Text: l.ENIID}, {Text: l.NodeENI}, {Text: l.Node}, {Text: l.SubnetID},
			{Text: age(l.CreatedAt, v.now), Style: terminal.Idle}, {Text: l.Verdict, Style: m}})
	}
	var b strings.Builder
	b.WriteString(p.table(columns, rows) + "\n")
	b.WriteString(p.paragraph("", fmt.Sprintf("%d of %s of cluster %s have lost their NodeENI.", len(v.Leaked),
		text.Count(v.Owned, "interface"), v.Cluster)))
	return b.String() + v.next(p) + v.retained(p) + v.otherNames(p)
}

// next returns who removes the leaks: the controller or a user.
func (v Leaks) next(p Page) string {
	byHand := 0
	for _, l := range v.Leaked {
		if l.ByHand {
			byHand++
		}
	}
	left := len(v.Leaked) - byHand
	var advice string
	if left > 0 {
		which := "them"
		if byHand > 0 {
			which = fmt.Sprintf("%d of them", left)
		}
		advice = p.paragraph("→ ", "A running controller removes "+which+
			" by itself, within minutes, and those that are attached after half an hour or more. "+
			"Without one: kubectl eni leaks --collect.")
	}
	if byHand > 0 {
		which := "them"
		if left > 0 {
			which = fmt.Sprintf("the other %d", byHand)
		}
		advice += p.paragraph("→ ", "Delete "+which+
			" by hand, the controller never does: aws ec2 delete-network-interface --network-interface-id ENI.")
	}
	return advice
}

// mostRetained is the maximum number of interfaces of a kind that are named.
const mostRetained = 3

// retained prints the interfaces that have no NodeENI and are no leaks, by kind.
func (v Leaks) retained(p Page) string {
	var b strings.Builder
	for _, kind := range kinds {
		var ids []string
		for _, k := range v.Retained {
			if k.What == kind.What {
				ids = append(ids, k.ENIID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		b.WriteString(p.paragraph("", fmt.Sprintf("No leak, and left alone: %s %s: %s.",
			text.Count(len(ids), "interface"), kind.words, firstIDs(ids))))
	}
	return b.String()
}
