// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// Severity is the severity of a finding.
type Severity string

// The severities of a finding.
const (
	OK      Severity = "ok"
	Warning Severity = "warning"
	Failed  Severity = "failed"
)

// Check is the result of one check of the environment.
type Check struct {
	Check string   `json:"check"`
	Grade Severity `json:"grade"`
	// Found is the observed state, in a sentence.
	Found string `json:"found"`
	// Next is the next step; empty if it is OK.
	Next string `json:"next,omitempty"`
}

// Checks are the results of all checks of the environment.
type Checks []Check

// Failed reports whether a check failed.
func (f Checks) Failed() bool {
	return slices.ContainsFunc(f, func(f Check) bool { return f.Grade == Failed })
}

// Text prints the findings.
func (f Checks) Text(p Page) string {
	var b strings.Builder
	counts := map[Severity]int{}
	for _, one := range f {
		counts[one.Grade]++
		m := map[Severity]terminal.Style{OK: terminal.Good, Warning: terminal.Busy, Failed: terminal.Bad}[one.Grade]
		b.WriteString(p.paragraph(p.sign(m)+" ", one.Check+": "+one.Found))
		if one.Next != "" {
			b.WriteString(p.paragraph("  → ", one.Next))
		}
	}
	fmt.Fprintf(&b, "\n%d in order, %s, %d failed\n", counts[OK], text.Count(counts[Warning], "warning"), counts[Failed])
	return b.String()
}
