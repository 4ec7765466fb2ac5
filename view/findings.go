// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
)

// Grade is how a finding is to be taken.
type Grade string

// The grades of a finding.
const (
	OK      Grade = "ok"
	Warning Grade = "warning"
	Failed  Grade = "failed"
)

// Finding is what one check of the surroundings found.
type Finding struct {
	Check string `json:"check"`
	Grade Grade  `json:"grade"`
	// Found is what is so, in a sentence.
	Found string `json:"found"`
	// Next is what to do about it; empty when it is OK.
	Next string `json:"next,omitempty"`
}

// Findings are all that a look at the surroundings found.
type Findings []Finding

// Failed reports whether one is.
func (f Findings) Failed() bool {
	return slices.ContainsFunc(f, func(f Finding) bool { return f.Grade == Failed })
}

// Text prints the findings.
func (f Findings) Text(p Page) string {
	var b strings.Builder
	counts := map[Grade]int{}
	for _, one := range f {
		counts[one.Grade]++
		m := map[Grade]mood{OK: good, Warning: busy, Failed: bad}[one.Grade]
		b.WriteString(p.paragraph(p.sign(m)+" ", one.Check+": "+one.Found))
		if one.Next != "" {
			b.WriteString(p.paragraph("  → ", one.Next))
		}
	}
	fmt.Fprintf(&b, "\n%d in order, %s, %d failed\n", counts[OK], count(counts[Warning], "warning"), counts[Failed])
	return b.String()
}
