// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/multieni/multieni/test/bench/scenario"
)

// Table returns the report as a table for a terminal.
func (r Report) Table() string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for n, result := range r.Results {
		if n > 0 {
			fmt.Fprintln(w)
		}
		result.write(w)
	}
	// It writes to memory.
	_ = w.Flush()
	fmt.Fprintf(&text, "\n%s\n", r.origin())
	return text.String()
}

func (r Result) write(w io.Writer) {
	fmt.Fprintf(w, "%s  %s (%s)\n", r.ID, r.Title, r.conditions())
	if r.Error != "" {
		fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(strings.TrimSpace(r.Error), "\n", "\n    "))
	}
	fmt.Fprint(w, "\tLIMIT\tMEASURED\tRATIO\tTARGET\t\n")
	for _, row := range r.Figures {
		fmt.Fprintf(w, "    %s\t%s\n", row.What, strings.Join(row.cells(), "\t"))
	}
}

// conditions describes the conditions of the measurement.
func (r Result) conditions() string {
	took := time.Duration(r.Seconds * float64(time.Second)).Round(time.Second)
	if r.Live {
		return fmt.Sprintf("%s; %s nodes; API server, EC2 at %g x; took %s", r.Controller, thousands(r.Nodes), r.Speed, took)
	}
	if r.Agents {
		return fmt.Sprintf("%s nodes; API server, no EC2; took %s", thousands(r.Nodes), took)
	}
	return fmt.Sprintf("%s nodes; virtual time; took %s", thousands(r.Nodes), took)
}

// cells returns limit, measured value, ratio, target and verdict.
func (row Row) cells() []string {
	limit, measured, ratio := "", "–", ""
	if row.Limit != nil {
		limit = row.Text(*row.Limit)
	}
	if row.Measured != nil {
		measured = row.Text(*row.Measured)
	}
	if row.Ratio != nil {
		ratio = strconv.FormatFloat(*row.Ratio, 'f', 3, 64)
	}
	verdict := string(row.Verdict)
	if row.Verdict == scenario.Shown {
		verdict = ""
	}
	return []string{limit, measured, ratio, row.Promise(), verdict}
}

// Markdown returns the report as tables for a document.
func (r Report) Markdown() string {
	var text strings.Builder
	fmt.Fprintln(&text, "| scenario | what | limit | measured | ratio | target | verdict |")
	fmt.Fprintln(&text, "|---|---|---:|---:|---:|---:|---|")
	for _, result := range r.Results {
		name := fmt.Sprintf("**%s** %s, %s nodes", result.ID, result.Title, thousands(result.Nodes))
		for _, row := range result.Figures {
			fmt.Fprintf(&text, "| %s | %s | %s |\n", name, row.What, strings.Join(row.cells(), " | "))
			name = ""
		}
	}
	fmt.Fprintf(&text, "\n%s\n", r.origin())
	return text.String()
}

// origin returns the source of the figures.
func (r Report) origin() string {
	from := fmt.Sprintf("%s, commit %s, seed %d, %s, %s on %d cores (%s)", r.World(), r.Commit, r.Seed, r.Rig.Go, r.Rig.OS,
		r.Rig.Cores, r.Rig.CPU)
	if r.Rig.Kubernetes != "" {
		from += ", kube-apiserver " + r.Rig.Kubernetes
	}
	return from + ", " + r.Time.UTC().Format(time.DateOnly)
}

// thousands writes a number with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
