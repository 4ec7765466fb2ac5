// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package terminal formats text for users: tables, paragraphs, signs and colours.
//
// The words on a [Page] are the same with and without colours. Without a width, no text is cut or broken, so that other
// programs find what they search for. No text of others controls the terminal: see [Printable].
package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/multieni/multieni/internal/core/text"
)

// Page is the medium of a text.
type Page struct {
	// Width is the number of columns; 0 is a page without edge, for example a file.
	Width int
	// Colours is set if the medium shows colours.
	Colours bool
}

// Style is the meaning of a text for a reader.
type Style int

// The styles.
const (
	Plain Style = iota
	// Idle: nothing exists, nothing is desired.
	Idle
	// Busy: it continues by itself.
	Busy
	Good
	Bad
	// Strong is for headings.
	Strong
)

// Sign returns the sign of a style, so that a text is clear without colours.
func (s Style) Sign() string {
	return [...]string{Plain: " ", Idle: "·", Busy: "◐", Good: "●", Bad: "✗", Strong: " "}[s]
}

// attribute is the one of ECMA-48, "Select graphic rendition".
func (s Style) attribute() string {
	return [...]string{Plain: "", Idle: "2", Busy: "33", Good: "32", Bad: "31", Strong: "1"}[s]
}

// Paint returns a text in a style; on a page without colours it is the text itself.
func (p Page) Paint(s Style, text string) string {
	text = Clean(text) // a paragraph may have attributes of its own
	if !p.Colours || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + s.attribute() + "m" + text + "\x1b[0m"
}

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Column is one column of a table.
type Column struct {
	Title string
	// Dispensable columns are left out of a page that is too narrow, the highest number first; 0 always stays.
	Dispensable int
	// Right aligns the column to the right.
	Right bool
	// Least is the minimum width. A column with one stays even if it is empty, so that a table that is drawn again does
	// not move.
	Least int
}

const gap = 3

// Table prints rows, under a heading if the first column has a title. It leaves out columns that are empty in all rows,
// and dispensable ones that do not fit on the page. A text that is still too long ends in an ellipsis.
func (p Page) Table(columns []Column, rows [][]Cell) string {
	rows = printable(rows)
	widths := widthsOf(columns, rows)
	for p.Width > 0 && total(widths) > p.Width {
		out := mostDispensable(columns, widths)
		if out < 0 {
			break
		}
		widths[out] = 0
	}
	if over := total(widths) - p.Width; p.Width > 0 && over > 0 {
		shrink(widths, over)
	}
	var b strings.Builder
	if columns[0].Title != "" {
		b.WriteString(p.line(columns, widths, heading(columns)))
	}
	for _, row := range rows {
		b.WriteString(p.line(columns, widths, row))
	}
	return b.String()
}

// printable returns rows in which each text is printable and on one line.
func printable(rows [][]Cell) [][]Cell {
	all := make([][]Cell, len(rows))
	for i, row := range rows {
		all[i] = slices.Clone(row)
		for j := range all[i] {
			all[i][j].Text = Line(all[i][j].Text)
		}
	}
	return all
}

func heading(columns []Column) []Cell {
	cells := make([]Cell, len(columns))
	for i, c := range columns {
		cells[i] = Cell{c.Title, Strong}
	}
	return cells
}

func widthsOf(columns []Column, rows [][]Cell) []int {
	widths := make([]int, len(columns))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	for i, c := range columns {
		if widths[i] > 0 || c.Least > 0 {
			widths[i] = max(widths[i], c.Least, utf8.RuneCountInString(c.Title))
		}
	}
	return widths
}

func total(widths []int) int {
	sum := -gap
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return sum
}

func mostDispensable(columns []Column, widths []int) int {
	out := -1
	for i, c := range columns {
		if widths[i] > 0 && c.Dispensable > 0 && (out < 0 || c.Dispensable > columns[out].Dispensable) {
			out = i
		}
	}
	return out
}

// shrink narrows the widest columns.
func shrink(widths []int, over int) {
	for ; over > 0; over-- {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= 1 {
			return
		}
		widths[widest]--
	}
}

func (p Page) line(columns []Column, widths []int, row []Cell) string {
	var b strings.Builder
	var owed int
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		text := text.Fit(c.Text, widths[i])
		pad := widths[i] - utf8.RuneCountInString(text)
		if columns[i].Right {
			owed += pad
			pad = 0
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", owed) + p.Paint(c.Style, text))
			owed = 0
		}
		owed += pad + gap
	}
	return b.String() + "\n"
}

// comfortable is the longest line of a paragraph.
const comfortable = 100

// Paragraph breaks a text between words so that it fits the page behind an indent. On a page without edge it is one
// line.
func (p Page) Paragraph(indent, text string) string {
	text = Line(text)
	if p.Width == 0 {
		return indent + text + "\n"
	}
	width := min(comfortable, p.Width)
	var b strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case length == 0:
			b.WriteString(indent + word)
			length = columnsOf(indent) + n
		case length+1+n > width:
			b.WriteString("\n" + Hanging(indent) + word)
			length = columnsOf(indent) + n
		default:
			b.WriteString(" " + word)
			length += 1 + n
		}
	}
	return b.String() + "\n"
}

// Hanging returns the indent of the lines after the first: spaces as wide as the indent.
func Hanging(indent string) string { return strings.Repeat(" ", columnsOf(indent)) }

// columnsOf is the number of columns that a text takes on a page. Its attributes take none.
func columnsOf(text string) int {
	columns, isAttribute := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			isAttribute = true
		case !isAttribute:
			columns++
		case r == 'm':
			isAttribute = false
		}
	}
	return columns
}
