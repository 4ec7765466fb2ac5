// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/ownership"
)

// Leaks are the interfaces with the tags of a cluster that nothing in the cluster stands for.
type Leaks struct {
	Cluster string `json:"cluster"`
	// Owned is how many interfaces carry the cluster's tag in all.
	Owned  int    `json:"owned"`
	Leaked []Leak `json:"leaked"`
	now    time.Time
}

// Leak is one interface that nothing stands for.
type Leak struct {
	ENIID     string    `json:"eniID"`
	NodeENI   string    `json:"nodeENI,omitempty"`
	Node      string    `json:"node,omitempty"`
	SubnetID  string    `json:"subnetID"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Attached is where it is attached; empty when it is available.
	Attached string `json:"attached,omitempty"`
	// Collectable is set when it may be deleted: it is attached to nothing and old enough.
	Collectable bool   `json:"collectable"`
	Verdict     string `json:"verdict"`
}

// NewLeaks finds the leaks among a cluster's interfaces. Living are the UIDs of its NodeENIs, read after the interfaces.
func NewLeaks(cluster string, owned []eni.Interface, living map[string]bool, now time.Time) Leaks {
	v := Leaks{Cluster: cluster, Owned: len(owned), Leaked: []Leak{}, now: now}
	for _, i := range owned {
		member, verdict := ownership.Read(cluster, i.Tags)
		if verdict == ownership.Foreign || living[member.NodeENIUID] {
			continue
		}
		leak := Leak{ENIID: i.ID, NodeENI: member.NodeENI, Node: member.Node, SubnetID: i.SubnetID}
		leak.CreatedAt, _ = ownership.CreatedAt(i.Tags)
		leak.judge(i, verdict, now)
		v.Leaked = append(v.Leaked, leak)
	}
	return v
}

func (l *Leak) judge(i eni.Interface, verdict ownership.Verdict, now time.Time) {
	switch {
	case verdict == ownership.Damaged:
		l.Verdict = "its tags were edited; delete it by hand if you know it"
	case i.Attachment != nil:
		l.Attached = i.Attachment.InstanceID
		l.Verdict = "attached; the controller detaches it"
	case i.Status != eni.Available:
		l.Verdict = "EC2 is at work on it"
	case !ownership.OldEnough(i.Tags, now):
		l.Verdict = fmt.Sprintf("younger than %s", ownership.LeakAge)
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
		return p.paragraph(p.sign(good)+" ", fmt.Sprintf("No leak. Cluster %s owns %s, and none is without its NodeENI.", v.Cluster, count(v.Owned, "interface")))
	}
	columns := []column{
		{title: "ENI"}, {title: "NODEENI", dispensable: 1}, {title: "NODE", dispensable: 3}, {title: "SUBNET", dispensable: 4},
		{title: "AGE", right: true, dispensable: 2}, {title: "VERDICT"},
	}
	var rows [][]cell
	for _, l := range v.Leaked {
		m := busy
		if l.Collectable {
			m = bad
		}
		rows = append(rows, []cell{{text: l.ENIID}, {text: l.NodeENI}, {text: l.Node}, {text: l.SubnetID}, {age(l.CreatedAt, v.now), idle}, {l.Verdict, m}})
	}
	var b strings.Builder
	b.WriteString(p.table(columns, rows) + "\n")
	b.WriteString(p.paragraph("", fmt.Sprintf("%d of %s of cluster %s have no NodeENI.", len(v.Leaked), count(v.Owned, "interface"), v.Cluster)))
	b.WriteString(p.paragraph("→ ", "A running controller removes them by itself, within minutes. Without one: kubectl eni leaks --collect."))
	return b.String()
}
