// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// ImportPlan is the result of importing another controller's interfaces and objects.
type ImportPlan struct {
	Adopt  []ImportedInterface `json:"adopt"`
	Passed []SkippedInterface  `json:"passed,omitempty"`
	// Objects are the NodeENIs from which the other controller's marks are removed.
	Objects []string `json:"objects,omitempty"`
	// Waiting are the NodeENIs that keep the marks until their interfaces on other nodes are imported.
	Waiting []string `json:"waiting,omitempty"`
}

// ImportUndo is the result of giving imported interfaces back.
type ImportUndo struct {
	Release []ImportedInterface `json:"release"`
	Passed  []SkippedInterface  `json:"passed,omitempty"`
	// Objects are the NodeENIs that lose multieni's finalizer, because no interface of theirs is left.
	Objects []string `json:"objects,omitempty"`
}

// ImportedInterface is one interface that is imported.
type ImportedInterface struct {
	ENIID   string `json:"eniID"`
	NodeENI string `json:"nodeENI"`
	Node    string `json:"node"`
	Ordinal int    `json:"ordinal"`
	Slot    string `json:"slot"`
}

// SkippedInterface is one interface that the import does not change.
type SkippedInterface struct {
	ENIID string `json:"eniID"`
	Why   string `json:"why"`
}

// Text prints the adoptions.
func (v ImportPlan) Text(p Page) string {
	var b strings.Builder
	b.WriteString(importedTable(p, "BECOMES ONE OF", v.Adopt))
	b.WriteString(skippedParagraphs(p, v.Passed))
	for _, name := range v.Objects {
		b.WriteString(p.paragraph("· ", "NodeENI "+name+" loses the other controller's finalizer and annotation"))
	}
	for _, name := range v.Waiting {
		b.WriteString(p.paragraph("· ", "NodeENI "+name+" keeps the other controller's finalizer, until its interfaces on "+
			"the nodes that the selector does not match are imported"))
	}
	b.WriteString(p.paragraph("", fmt.Sprintf("%s to adopt, %d left as they are, %s to tidy.",
		text.Count(len(v.Adopt), "interface"), len(v.Passed), text.Count(len(v.Objects), "NodeENI"))))
	return b.String()
}

// Text prints the interfaces that change their owner.
func (v ImportUndo) Text(p Page) string {
	var b strings.Builder
	b.WriteString(importedTable(p, "NO LONGER OF", v.Release))
	b.WriteString(skippedParagraphs(p, v.Passed))
	for _, name := range v.Objects {
		b.WriteString(p.paragraph("· ", "NodeENI "+name+" loses multieni's finalizer: its deletion deletes no interface"))
	}
	b.WriteString(p.paragraph("", fmt.Sprintf("%s to give back, %d left as they are.",
		text.Count(len(v.Release), "interface"), len(v.Passed))))
	return b.String()
}

// importedTable prints the interfaces; owner is the title of the column of their NodeENIs.
func importedTable(p Page, owner string, interfaces []ImportedInterface) string {
	if len(interfaces) == 0 {
		return ""
	}
	var rows [][]terminal.Cell
	for _, i := range interfaces {
		rows = append(rows, []terminal.Cell{{Text: i.ENIID}, {Text: i.NodeENI}, {Text: i.Node}, {Text: i.Slot}})
	}
	return p.table([]terminal.Column{{Title: "ENI"}, {Title: owner}, {Title: "ON"}, {Title: "STAYS AT", Dispensable: 1}},
		rows) + "\n"
}

func skippedParagraphs(p Page, interfaces []SkippedInterface) string {
	var b strings.Builder
	for _, i := range interfaces {
		b.WriteString(p.paragraph("· ", i.ENIID+" is left as it is: "+i.Why))
	}
	return b.String()
}
