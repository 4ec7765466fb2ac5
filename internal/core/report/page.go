// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/terminal"
)

// Page is the medium of a view.
type Page struct {
	// Width is the number of columns; 0 is a page without edge, such as a file.
	Width int
	// Colours is set if the medium shows colours.
	Colours bool
	// Wide adds every detail and every object.
	Wide bool
}

func (p Page) terminal() terminal.Page { return terminal.Page{Width: p.Width, Colours: p.Colours} }

func (p Page) paint(s terminal.Style, text string) string { return p.terminal().Paint(s, text) }

func (p Page) table(columns []terminal.Column, rows [][]terminal.Cell) string {
	return p.terminal().Table(columns, rows)
}

func (p Page) paragraph(indent, text string) string { return p.terminal().Paragraph(indent, text) }

// Names lists the first of some names and counts the rest.
func (p Page) Names(all []string) string {
	if p.Wide || len(all) <= mostNames+1 {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:mostNames], ", "), len(all)-mostNames)
}

// age returns the time since an event, in its largest unit.
func age(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	switch d := max(0, now.Sub(since)); { // clocks differ
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
