// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/terminal"
)

func Example() {
	columns := []terminal.Column{{Title: "NODE"}, {Title: "ENIS", Right: true}, {Title: "STATE"}}
	rows := [][]terminal.Cell{
		{{Text: "node-a1"}, {Text: "12"}, {Text: terminal.Good.Sign() + " ready", Style: terminal.Good}},
		{{Text: "node-b1"}, {Text: "3"}, {Text: terminal.Bad.Sign() + " blocked", Style: terminal.Bad}},
	}
	page := terminal.Page{Width: 80}
	fmt.Print(page.Table(columns, rows))
	fmt.Print(page.Paragraph("→ ", "add a subnet of that zone to the NodeENI"))
	// Output:
	// NODE      ENIS   STATE
	// node-a1     12   ● ready
	// node-b1      3   ✗ blocked
	// → add a subnet of that zone to the NodeENI
}

func TestTable(t *testing.T) {
	columns := []terminal.Column{{Title: "A"}, {Title: "B", Dispensable: 2}, {Title: "C", Dispensable: 1}}
	rows := func(cells ...string) [][]terminal.Cell {
		row := make([]terminal.Cell, len(cells))
		for n, c := range cells {
			row[n] = terminal.Cell{Text: c}
		}
		return [][]terminal.Cell{row}
	}
	for name, tc := range map[string]struct {
		columns []terminal.Column
		width   int
		rows    [][]terminal.Cell
		want    string
	}{
		"without edge":                       {columns, 0, rows("a", "bb", "ccc"), "A   B    C\na   bb   ccc\n"},
		"it fits exactly":                    {columns, 12, rows("a", "bb", "ccc"), "A   B    C\na   bb   ccc\n"},
		"the most dispensable column goes":   {columns, 11, rows("a", "bb", "ccc"), "A   C\na   ccc\n"},
		"all dispensable columns go":         {columns, 5, rows("a", "bb", "ccc"), "A\na\n"},
		"the widest text ends in ...":        {columns[:1], 4, rows("abcdef"), "A\nabc…\n"},
		"an empty column is left out":        {columns, 0, rows("a", "", "ccc"), "A   C\na   ccc\n"},
		"an empty column with a least width": {[]terminal.Column{{Title: "A", Least: 3}, {Title: "B"}}, 0, rows("", "b"), "A     B\n      b\n"},
		"no titles, no heading":              {make([]terminal.Column, 2), 0, rows("a", "b"), "a   b\n"},
		"no spaces at the end":               {columns, 0, append(rows("a", "bb", "ccc"), rows("a", "", "")...), "A   B    C\na   bb   ccc\na\n"},
	} {
		t.Run(name, func(t *testing.T) {
			page := terminal.Page{Width: tc.width}
			if diff := cmp.Diff(tc.want, page.Table(tc.columns, tc.rows)); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

var attributes = regexp.MustCompile("\x1b\\[[0-9]*m")

// TestColoursChangeNoWord removes the colours of a table.
func TestColoursChangeNoWord(t *testing.T) {
	columns := []terminal.Column{{Title: "A"}, {Title: "B", Right: true}}
	rapid.Check(t, func(t *rapid.T) {
		var rows [][]terminal.Cell
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			rows = append(rows, []terminal.Cell{anyCell(t), anyCell(t)})
		}
		width := rapid.IntRange(0, 40).Draw(t, "width")
		without := terminal.Page{Width: width}.Table(columns, rows)
		with := terminal.Page{Width: width, Colours: true}.Table(columns, rows)
		if diff := cmp.Diff(without, attributes.ReplaceAllString(with, "")); diff != "" {
			t.Errorf("with colours (-without +with):\n%s", diff)
		}
		for line := range strings.Lines(without) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width >= 5 && n > width {
				t.Errorf("%q has %d columns, and the page has %d", line, n, width)
			}
		}
	})
}

func anyCell(t *rapid.T) terminal.Cell {
	return terminal.Cell{
		Text:  rapid.StringMatching(`[a-zäé]{0,20}`).Draw(t, "text"),
		Style: rapid.SampledFrom([]terminal.Style{terminal.Plain, terminal.Idle, terminal.Bad, terminal.Strong}).Draw(t, "style"),
	}
}

func TestParagraph(t *testing.T) {
	bold := terminal.Page{Colours: true}.Paint(terminal.Strong, "→") + " "
	for name, tc := range map[string]struct {
		width        int
		indent, text string
		want         string
	}{
		"without edge it is one line":       {0, "  ", "one two  three", "  one two  three\n"},
		"words that fit exactly":            {9, "  ", "one two", "  one two\n"},
		"a word that does not fit":          {8, "  ", "one two", "  one\n  two\n"},
		"a longer word than the page":       {5, "", "extraordinary", "extraordinary\n"},
		"attributes of the indent count 0":  {5, bold, "one two", bold + "one\n  two\n"},
		"a wide page has comfortable lines": {500, "", strings.Repeat("word ", 30), strings.TrimSpace(strings.Repeat("word ", 20)) + "\n" + strings.TrimSpace(strings.Repeat("word ", 10)) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, terminal.Page{Width: tc.width}.Paragraph(tc.indent, tc.text)); diff != "" {
				t.Errorf("paragraph (-want +got):\n%s", diff)
			}
		})
	}
}
