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

// Leaks are the ENIs with the tags of a cluster that no NetworkInterface has, and those among them that are leaks.
type Leaks struct {
	Cluster string `json:"cluster"`
	// Owned is the number of interfaces with the cluster's tag.
	Owned  int    `json:"owned"`
	Leaked []Leak `json:"leaked"`
	// Retained have no NetworkInterface either, and are no leaks. The controller removes none of them.
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

// Leak is an ENI without a NetworkInterface.
type Leak struct {
	ENIID string `json:"eniID"`
	// Interface is the name of the NetworkInterface that its tags name.
	Interface string    `json:"interface,omitempty"`
	NodeENI   string    `json:"nodeENI,omitempty"`
	Node      string    `json:"node,omitempty"`
	SubnetID  string    `json:"subnetID"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Attached is where it is attached; empty if it is available.
	Attached string `json:"attached,omitempty"`
	// Collectable is set if it may be deleted: it is unattached and old enough.
	Collectable bool `json:"collectable"`
	// ByHand is set if the controller never removes it, because it is attached or its tags are incomplete.
	ByHand  bool   `json:"byHand"`
	Verdict string `json:"verdict"`
}

// Retained is an ENI that has no NetworkInterface, and stays.
type Retained struct {
	ENIID    string `json:"eniID"`
	Attached string `json:"attached,omitempty"`
	// What is the kind of the interface.
	What What `json:"what"`
}

// What is a kind of ENI that has no NetworkInterface and is no leak.
type What string

// The kinds.
const (
	WhatLaunched   What = "Launched"
	WhatPrepared   What = "Prepared"
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
	{WhatTagsEdited, "attached, with edited tags"},
}

// KnownInterface has what a NetworkInterface says about its ENI.
type KnownInterface struct {
	Name, UID string
	// ENIID is empty while the object has no ENI.
	ENIID string
}

// has reports whether the ENI is that of the object, or may become it: an object without an ENI takes over one with its
// UID or its name.
func (k KnownInterface) has(i eni.Interface, tagged identity.Interface) bool {
	if k.ENIID != "" {
		return k.ENIID == i.ID
	}
	return k.UID == string(tagged.UID) || k.Name == tagged.Name
}

// NewLeaks finds the leaks among a cluster's ENIs. The NetworkInterfaces were read after the ENIs.
func NewLeaks(cluster string, owned []eni.Interface, known []KnownInterface, now time.Time) Leaks {
	v := Leaks{Cluster: cluster, Owned: len(owned), Leaked: []Leak{}, Retained: []Retained{}, now: now}
	index := indexKnown(known)
	for _, i := range owned {
		tagged, verdict := identity.Read(cluster, i.Tags)
		if verdict == identity.Foreign || index.has(i, tagged) {
			continue
		}
		if what := whatRetained(i, tagged, verdict); what != "" {
			v.Retained = append(v.Retained, Retained{i.ID, attachedTo(i), what})
			continue
		}
		leak := Leak{ENIID: i.ID, Interface: tagged.Name, NodeENI: tagged.NodeENI, Node: tagged.Node, SubnetID: i.SubnetID,
			Attached: attachedTo(i)}
		leak.CreatedAt, _ = identity.CreatedAt(i.Tags)
		leak.judge(i, verdict, now)
		v.Leaked = append(v.Leaked, leak)
	}
	return v
}

// knownIndex finds objects by each of their keys.
type knownIndex map[string]KnownInterface

func indexKnown(known []KnownInterface) knownIndex {
	index := knownIndex{}
	for _, k := range known {
		index["name "+k.Name], index["uid "+k.UID], index["eni "+k.ENIID] = k, k, k
	}
	return index
}

func (x knownIndex) has(i eni.Interface, tagged identity.Interface) bool {
	for _, key := range []string{"eni " + i.ID, "uid " + string(tagged.UID), "name " + tagged.Name} {
		if k, found := x[key]; found && k.has(i, tagged) {
			return true
		}
	}
	return false
}

// whatRetained returns the kind of an ENI without a NetworkInterface if it is no leak, and "" otherwise.
func whatRetained(i eni.Interface, tagged identity.Interface, verdict identity.Verdict) What {
	switch {
	case i.Attachment == nil:
		return ""
	case verdict == identity.Launched:
		return WhatLaunched
	case verdict == identity.Malformed:
		return WhatTagsEdited
	case tagged.UID.IsNetwork():
		return WhatPrepared
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
		l.ByHand, l.Verdict = true, "attached, so it stays: nothing says that no pod uses it"
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
			"No leak. Cluster %s owns %s, and each has its NetworkInterface.",
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
	b.WriteString(p.paragraph("", fmt.Sprintf("%d of %s of cluster %s have no NetworkInterface.", len(v.Leaked),
		text.Count(v.Owned, "interface"), v.Cluster)))
	return b.String() + v.next(p) + v.retained(p) + v.otherNames(p)
}

// next returns who removes the leaks: the controller, their instance or a user.
func (v Leaks) next(p Page) string {
	attached, byHand := 0, 0
	for _, l := range v.Leaked {
		switch {
		case l.ByHand && l.Attached != "":
			attached++
		case l.ByHand:
			byHand++
		}
	}
	var advice string
	if left := len(v.Leaked) - byHand - attached; left > 0 {
		advice = p.paragraph("→ ", fmt.Sprintf("A running controller removes %s by itself, within minutes. Without one: "+
			"kubectl eni leaks --collect.", v.some(left)))
	}
	if attached > 0 {
		advice += p.paragraph("→ ", fmt.Sprintf("Attached: %s. A controller takes such an interface over when a "+
			"NetworkInterface of its name is there again, and else it ends with its instance. If you know that nothing uses "+
			"it: aws ec2 detach-network-interface --attachment-id ATTACHMENT.", v.some(attached)))
	}
	if byHand > 0 {
		advice += p.paragraph("→ ", fmt.Sprintf("Delete %s by hand, the controller never does: "+
			"aws ec2 delete-network-interface --network-interface-id ENI.", v.some(byHand)))
	}
	return advice
}

// some names n of the leaks.
func (v Leaks) some(n int) string {
	if n == len(v.Leaked) {
		return "them"
	}
	return fmt.Sprintf("%d of them", n)
}

// mostRetained is the maximum number of interfaces of a kind that are named.
const mostRetained = 3

// retained prints the ENIs that have no NetworkInterface and are no leaks, by kind.
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
