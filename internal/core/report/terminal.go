// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/multieni/multieni/internal/core/text"
)

// Page is what a view is printed on.
type Page struct {
	// Width is the number of columns; 0 is a page without edge, such as a file.
	Width int
	// Colours is set where colours are seen.
	Colours bool
	// Wide asks for every detail and every object.
	Wide bool
}

// severity is how something is to be taken.
type severity int

const (
	plain severity = iota
	idle           // nothing exists, nothing is desired
	busy           // continues by itself
	good
	bad
	strong // a heading
)

// sign is the sign of a mood, so that it takes no colours to see it.
func (m severity) sign() string {
	return [...]string{plain: " ", idle: "·", busy: "◐", good: "●", bad: "✗", strong: " "}[m]
}

// attributes are those of ECMA-48, "Select graphic rendition".
func (m severity) attribute() string {
	return [...]string{plain: "", idle: "2", busy: "33", good: "32", bad: "31", strong: "1"}[m]
}

func (p Page) paint(m severity, text string) string {
	if !p.Colours || m == plain || text == "" {
		return text
	}
	return "\x1b[" + m.attribute() + "m" + text + "\x1b[0m"
}

// cell is one field of a table.
type cell struct {
	text string
	mood severity
}

// column is one column of a table.
type column struct {
	title string
	// dispensable columns are left out of a page that is too narrow, the highest number first; 0 always stays.
	dispensable int
	right       bool
}

const gap = 3

// table prints rows, under a heading if the columns have titles, without columns that are empty throughout or for which
// the page has no room. What is then still too long ends in an ellipsis.
func (p Page) table(columns []column, rows [][]cell) string {
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
	if columns[0].title != "" {
		b.WriteString(p.line(columns, widths, heading(columns)))
	}
	for _, row := range rows {
		b.WriteString(p.line(columns, widths, row))
	}
	return b.String()
}

func heading(columns []column) []cell {
	cells := make([]cell, len(columns))
	for i, c := range columns {
		cells[i] = cell{c.title, strong}
	}
	return cells
}

func widthsOf(columns []column, rows [][]cell) []int {
	widths := make([]int, len(columns))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for i, c := range columns {
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.title))
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

func mostDispensable(columns []column, widths []int) int {
	out := -1
	for i, c := range columns {
		if widths[i] > 0 && c.dispensable > 0 && (out < 0 || c.dispensable > columns[out].dispensable) {
			out = i
		}
	}
	return out
}

// shrink takes so many characters away where there are most.
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

func (p Page) line(columns []column, widths []int, row []cell) string {
	var b strings.Builder
	var owed int
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		text := text.Fit(c.text, widths[i])
		pad := widths[i] - utf8.RuneCountInString(text)
		if columns[i].right {
			owed += pad
			pad = 0
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", owed) + p.paint(c.mood, text))
			owed = 0
		}
		owed += pad + gap
	}
	return b.String() + "\n"
}

// paragraph breaks a text between words so that it fits the page behind an indent. On a page without edge it is one
// line, which other programs find things in.
func (p Page) paragraph(indent, text string) string {
	const comfortable = 100
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
			b.WriteString("\n" + hanging(indent) + word)
			length = columnsOf(indent) + n
		default:
			b.WriteString(" " + word)
			length += 1 + n
		}
	}
	return b.String() + "\n"
}

// hanging is the indent of the lines after the first.
func hanging(indent string) string { return strings.Repeat(" ", columnsOf(indent)) }

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

// names lists the first of some names and counts the rest.
func (p Page) names(all []string) string {
	if p.Wide || len(all) <= mostNames+1 {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:mostNames], ", "), len(all)-mostNames)
}

// age writes how long ago something was, in its largest unit.
func age(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	switch d := now.Sub(since); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
