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
	var rows [][]terminal.Cell
	for _, a := range v.Adopt {
		rows = append(rows, []terminal.Cell{{Text: a.ENIID}, {Text: a.NodeENI}, {Text: a.Node}, {Text: a.Slot}})
	}
	if len(rows) > 0 {
		columns := []terminal.Column{{Title: "ENI"}, {Title: "BECOMES ONE OF"}, {Title: "ON"},
			{Title: "STAYS AT", Dispensable: 1}}
		b.WriteString(p.table(columns, rows) + "\n")
	}
	for _, passed := range v.Passed {
		b.WriteString(p.paragraph("· ", passed.ENIID+" is left as it is: "+passed.Why))
	}
	for _, name := range v.Objects {
		b.WriteString(p.paragraph("· ", "NodeENI "+name+" loses the other controller's finalizer and annotation"))
	}
	b.WriteString(p.paragraph("", fmt.Sprintf("%s to adopt, %d left as they are, %s to tidy.",
		text.Count(len(v.Adopt), "interface"), len(v.Passed), text.Count(len(v.Objects), "NodeENI"))))
	return b.String()
}
