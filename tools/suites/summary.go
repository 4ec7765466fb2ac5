// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// summarize prints what was skipped and why, how long each suite took, and what failed.
func summarize(out io.Writer, execution *testjson.Execution, cached map[string]bool) {
	tellSkipped(out, execution)
	tellSuites(out, execution, cached)
	testjson.PrintSummary(out, execution, testjson.SummarizeFailed|testjson.SummarizeErrors|testjson.SummarizeOutput)
}

// logged matches the beginning of a line that a test logs: the place in the source.
var logged = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// tellSkipped prints the skipped tests by reason.
func tellSkipped(out io.Writer, execution *testjson.Execution) {
	byReason := map[string][]string{}
	for _, test := range execution.Skipped() {
		reason := "no reason given"
		for _, line := range execution.OutputLines(test) {
			if place := logged.FindString(line); place != "" {
				reason = strings.TrimSpace(line[len(place):])
			}
		}
		byReason[reason] = append(byReason[reason], short(test.Package)+" "+test.Test.Name())
	}
	if len(byReason) == 0 {
		return
	}
	fmt.Fprintln(out, "\nSkipped:")
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(out, "  %s\n", reason)
		for _, test := range byReason[reason] {
			fmt.Fprintf(out, "    %s\n", test)
		}
	}
}

// total is the sum of a suite's packages.
type total struct {
	suite                            string
	packages, cached, tests, skipped int
	took                             time.Duration // the sum over packages, that may run at the same time
}

// tellSuites prints a table of the suites, the longest first.
func tellSuites(out io.Writer, execution *testjson.Execution, cached map[string]bool) {
	totals := map[string]*total{}
	for _, name := range execution.Packages() {
		result := execution.Package(name)
		if result.Total == 0 && result.Result() != testjson.ActionFail {
			continue
		}
		suite := suiteOf(name)
		if totals[suite] == nil {
			totals[suite] = &total{suite: suite}
		}
		t := totals[suite]
		t.packages++
		t.tests += result.Total
		t.skipped += len(result.Skipped)
		t.took += result.Elapsed()
		if cached[name] {
			t.cached++
		}
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "suite\tpackages\tcached\ttests\tskipped\ttime\t")
	for _, t := range slices.SortedFunc(maps.Values(totals), func(a, b *total) int {
		return cmp.Or(-cmp.Compare(a.took, b.took), cmp.Compare(a.suite, b.suite))
	}) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\t\n", t.suite, t.packages, t.cached, t.tests, t.skipped, t.took.Round(100*time.Millisecond))
	}
	table.Flush()
}
