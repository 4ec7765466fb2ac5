// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
)

// said is a check that prints one paragraph behind a sign and a space, without the line with the counts.
func said(text string, p report.Page) string {
	check := report.Check{Check: "x", Grade: report.OK, Found: text}
	printed, _, _ := strings.Cut(report.Checks{check}.Text(p), "\n\n1 in order")
	return printed
}

func TestParagraphsFitThePage(t *testing.T) {
	const words = "one two three"
	hundred := strings.Repeat("a ", 48) // with "● x: " in front 100 columns, without the last space
	for name, tc := range map[string]struct {
		text  string
		width int
		want  string
	}{
		"a page without edge":              {words, 0, "● x: one two three"},
		"no edge, and spaces as they are":  {"one  two", 0, "● x: one  two"},
		"the text has the width":           {words, 18, "● x: one two three"},
		"one column less":                  {words, 17, "● x: one two\n  three"},
		"each word on its line":            {words, 7, "● x:\n  one\n  two\n  three"},
		"a word that is too long":          {"subnet-0f59b4f14737 is full", 12, "● x:\n  subnet-0f59b4f14737\n  is full"},
		"spaces and line ends are one":     {"one \n  two", 18, "● x: one two"},
		"characters and not bytes":         {"éé éé éé", 13, "● x: éé éé éé"},
		"wide pages have lines of 100":     {hundred, 300, "● x: " + strings.TrimSpace(hundred)},
		"wide pages have no longer lines":  {hundred[2:] + "bb", 300, "● x: " + strings.TrimSpace(hundred[2:]) + "\n  bb"},
		"a page of 100 has lines of 100":   {hundred, 100, "● x: " + strings.TrimSpace(hundred)},
		"a page of 99 has lines of 99":     {hundred, 99, "● x: " + strings.TrimSpace(hundred[:94]) + "\n  a"},
		"the indent is part of each width": {"aaaa bbbb cccc", 9, "● x: aaaa\n  bbbb\n  cccc"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, said(tc.text, report.Page{Width: tc.width})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Breaking lines changes only spaces, and no line is longer than the page unless one word is.
func TestParagraphsKeepTheirWords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zé]{1,12}`), 1, 30).Draw(rt, "words")
		width := rapid.IntRange(14, 120).Draw(rt, "width")
		got := said(strings.Join(words, " "), report.Page{Width: width})
		if diff := cmp.Diff(append([]string{"●", "x:"}, words...), strings.Fields(got)); diff != "" {
			rt.Fatalf("(-want +got):\n%s", diff)
		}
		lines := strings.Split(got, "\n")
		for n, line := range lines {
			if utf8.RuneCountInString(line) > min(width, 100) {
				rt.Fatalf("%q is longer than %d", line, width)
			}
			if n > 0 {
				first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
				if utf8.RuneCountInString(lines[n-1])+1+utf8.RuneCountInString(first) <= min(width, 100) {
					rt.Fatalf("%q has room for %q", lines[n-1], first)
				}
			}
		}
	})
}

// Signs distinguish the results without colours; colours only add to them.
func TestEachGradeHasASignAndAColour(t *testing.T) {
	for grade, want := range map[report.Severity][2]string{
		report.OK: {"●", "\x1b[32m●\x1b[0m"}, report.Warning: {"◐", "\x1b[33m◐\x1b[0m"},
		report.Failed: {"✗", "\x1b[31m✗\x1b[0m"},
	} {
		checks := report.Checks{{Check: "quota", Grade: grade, Found: "found"}}
		for n, p := range []report.Page{{}, {Colours: true}} {
			if got, _, _ := strings.Cut(checks.Text(p), " quota"); got != want[n] {
				t.Errorf("%s: got %q, want %q", grade, got, want[n])
			}
		}
	}
}

func TestNoLineEndsInSpaces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		widths := rapid.SampledFrom([]int{0, 40, 80, 200})
		p := report.Page{Width: widths.Draw(rt, "width"), Wide: rapid.Bool().Draw(rt, "wide")}
		for name, text := range texts(anyFleet(rt), p) {
			for line := range strings.Lines(text) {
				if line = strings.TrimSuffix(line, "\n"); strings.TrimRight(line, " ") != line {
					rt.Fatalf("%s: %q", name, line)
				}
			}
		}
	})
}

func TestAgesAreInTheirLargestUnit(t *testing.T) {
	for since, want := range map[time.Duration]string{
		time.Second: "1s", 59 * time.Second: "59s", time.Minute: "1m", time.Hour - time.Second: "59m",
		time.Hour: "1h", 48*time.Hour - time.Second: "47h", 48 * time.Hour: "2d", 72*time.Hour - time.Second: "2d",
		400 * 24 * time.Hour: "400d", -5 * time.Second: "0s",
	} {
		t.Run(since.String(), func(t *testing.T) {
			i := available("eni-1", lost)
			i.Tags = lost.Tags(now.Add(-since), nil)
			row := strings.Split(leakTable(i), "\n")[1]
			if cells := strings.Fields(row); cells[4] != want {
				t.Errorf("want %s: %s", want, row)
			}
		})
	}
}

// leakTable is the table of leaks that kubectl eni leaks prints.
func leakTable(owned ...eni.Interface) string {
	table, _, _ := strings.Cut(report.NewLeaks("c", owned, nil, now).Text(report.Page{}), "\n\n")
	return table
}

func TestTablesAlignNumbersToTheRight(t *testing.T) {
	old, young := available("eni-1", lost), available("eni-2", lost)
	old.Tags, young.Tags = lost.Tags(now.Add(-1000*time.Hour), nil), lost.Tags(now.Add(-time.Second), nil)
	const want = `ENI     NODEENI   NODE      SUBNET     AGE   VERDICT
eni-1   gone      node-a1   subnet-1   41d   can be deleted
eni-2   gone      node-a1   subnet-1    1s   younger than 10m0s`
	if diff := cmp.Diff(want, leakTable(old, young)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// adopted is the table of an import, without the count below.
func adopted(p report.Page, adopt ...report.ImportedInterface) string {
	table, _, _ := strings.Cut(report.ImportPlan{Adopt: adopt}.Text(p), "\n\n")
	return table
}

func TestTablesShortenTheWidestColumns(t *testing.T) {
	row := report.ImportedInterface{
		ENIID: "eni-0123456789", NodeENI: "user-plane", Node: "ip-10-0-0-1.ec2.internal", Slot: "card 0",
	}
	for width, want := range map[int]string{
		74: "ENI              BECOMES ONE OF   ON                         STAYS AT\n" +
			"eni-0123456789   user-plane       ip-10-0-0-1.ec2.internal   card 0",
		58: "ENI              BECOMES ONE OF   ON\n" +
			"eni-0123456789   user-plane       ip-10-0-0-1.ec2.internal",
		57: "ENI              BECOMES ONE OF   ON\n" +
			"eni-0123456789   user-plane       ip-10-0-0-1.ec2.intern…",
		45: "ENI             BECOMES ONE …   ON\n" +
			"eni-01234567…   user-plane      ip-10-0-0-1.…",
		44: "ENI            BECOMES ONE …   ON\n" +
			"eni-0123456…   user-plane      ip-10-0-0-1.…",
		9: "…   …   …\n…   …   …",
		1: "…   …   …\n…   …   …",
	} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			if diff := cmp.Diff(want, adopted(report.Page{Width: width}, row)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAColumnWithoutATextIsLeftOut(t *testing.T) {
	const want = "ENI     ON\neni-1   node-1"
	got := adopted(report.Page{}, report.ImportedInterface{ENIID: "eni-1", Node: "node-1"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAColumnWithOneTextKeepsItsPlaceInAllRows(t *testing.T) {
	const want = `ENI     BECOMES ONE OF   ON       STAYS AT
eni-1                    node-1
eni-2   müsli                     card 1
eni-3   x                node-3`
	got := adopted(report.Page{}, report.ImportedInterface{ENIID: "eni-1", Node: "node-1"},
		report.ImportedInterface{ENIID: "eni-2", NodeENI: "müsli", Slot: "card 1"},
		report.ImportedInterface{ENIID: "eni-3", NodeENI: "x", Node: "node-3"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var cellText = regexp.MustCompile(`[^ ]+( [^ ]+)*`)

// Programs and people find the cells of a column below its heading, in each row and on each page.
func TestTheCellsOfAColumnBeginAtOnePlace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[a-zé0-9-]{1,40}`)
		var adopt []report.ImportedInterface
		for range rapid.IntRange(1, 5).Draw(rt, "rows") {
			adopt = append(adopt, report.ImportedInterface{ENIID: name.Draw(rt, "ID"), NodeENI: name.Draw(rt, "NodeENI"),
				Node: name.Draw(rt, "node"), Slot: name.Draw(rt, "slot")})
		}
		width := rapid.IntRange(9, 200).Draw(rt, "width")
		table := adopted(report.Page{Width: width}, adopt...)
		var want []int
		for line := range strings.Lines(table) {
			line = strings.TrimSuffix(line, "\n")
			var starts []int
			for _, at := range cellText.FindAllStringIndex(line, -1) {
				starts = append(starts, utf8.RuneCountInString(line[:at[0]]))
			}
			if want == nil {
				want = starts
			}
			if diff := cmp.Diff(want, starts); diff != "" || utf8.RuneCountInString(line) > width {
				rt.Fatalf("%d columns, starts %s of\n%s", width, diff, table)
			}
		}
		if n := strings.Count(table, "\n"); n != len(adopt) {
			rt.Fatalf("%d rows of %d:\n%s", n, len(adopt), table)
		}
	})
}
