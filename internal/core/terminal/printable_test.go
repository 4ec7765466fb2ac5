// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/terminal"
)

// hostile clears the screen, sets the title, rings, returns, and turns the direction of text; with C1 codes, too.
const hostile = "a\x1b[2J\x1b]0;title\x07b\rc\u009b31md\u202ee\x7f\x00"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"ready":            "ready",
		"✗ größer\n\tnext": "✗ größer\n\tnext",
		hostile:            `a\u001b[2J\u001b]0;title\u0007b\u000dc\u009b31md\u202ee\u007f\u0000`,
		"\x1b[31mred":      `\u001b[31mred`,
		"cut\xe2\x82":      "cut\ufffd",
		"raw C1 \x9b31m":   "raw C1 \ufffd31m",
	} {
		if got := terminal.Printable(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestCleanKeepsTheAttributesOfPaint(t *testing.T) {
	page := terminal.Page{Colours: true}
	painted := page.Paint(terminal.Bad, "bad") + "\x1b[8mhidden\x1b[2J"
	if got, want := terminal.Clean(painted), "\x1b[31mbad\x1b[0m"+`\u001b[8mhidden\u001b[2J`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A page has only the attributes of its own styles, with texts of any kind, and a row stays one line.
func TestNoTextControlsTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(hostile+"\nfake row"), rapid.String(), rapid.StringOf(rapid.RuneFrom(nil, unicode.Cc, unicode.Bidi_Control))).Draw(t, "text")
		page := terminal.Page{Width: rapid.SampledFrom([]int{0, 20, 80}).Draw(t, "width")}
		row := page.Table([]terminal.Column{{Title: "A"}, {Title: "B"}}, [][]terminal.Cell{{{Text: "x"}, {Text: text, Style: terminal.Bad}}})
		if lines := strings.Count(row, "\n"); lines != 2 {
			t.Fatalf("a table of one row has %d lines: %q", lines, row)
		}
		for _, out := range []string{row, page.Paragraph("→ ", text), page.Paint(terminal.Good, terminal.Line(text))} {
			if at := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }); at >= 0 {
				t.Fatalf("%q controls a terminal", out[at:])
			}
		}
	})
}
