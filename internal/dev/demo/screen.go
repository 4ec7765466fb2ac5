// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// plainWidth is the width of a line where there is no terminal to ask.
const plainWidth = 100

// screen shows the story. On a terminal the table lives: it is drawn anew in its place until it is settled. Elsewhere
// each change of it is a line of its own, without any escape code, and the table comes once it is settled.
type screen struct {
	out      io.Writer
	terminal *os.File // nil if out is none
	palette  palette

	began time.Time // of the table that is live
	shown []row     // the last state of it
	lines int       // how many lines of it are on the terminal
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.terminal = file
		s.palette.colours = os.Getenv("NO_COLOR") == ""
	}
	return s
}

// size is that of the terminal in characters.
func (s *screen) size() (width, height int) {
	if s.terminal == nil {
		return plainWidth, 0
	}
	width, height, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil {
		return plainWidth, 0
	}
	return min(width, plainWidth), height
}

// say writes a line, or an empty one.
func (s *screen) say(words ...string) {
	fmt.Fprintln(s.out, strings.Join(words, " "))
}

// block writes each line of a text, indented.
func (s *screen) block(text, by string, paint func(string) string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Fprintln(s.out, strings.TrimRight(by+paint(strings.TrimRight(line, "\n")), " "))
	}
}

// watch begins a live table.
func (s *screen) watch(rows []row) {
	s.began, s.shown, s.lines = time.Now(), rows, 0
	s.draw()
}

// update shows the table as it is now.
func (s *screen) update(rows []row) {
	lines := news(s.shown, rows)
	s.shown = rows
	if s.terminal != nil {
		s.draw()
		return
	}
	for _, line := range lines {
		fmt.Fprintf(s.out, "%s%6s  %s\n", indent, fmt.Sprintf("+%.1fs", time.Since(s.began).Seconds()), line)
	}
}

// settle leaves the table as it is; what is said next stands below it.
func (s *screen) settle() {
	if s.terminal == nil {
		fmt.Fprint(s.out, "\n"+table(s.shown, plainWidth, s.palette))
	}
	s.lines = 0
}

// interrupt moves out of the way of a live table, so that something else can be said; the table is drawn again below.
func (s *screen) interrupt(words string) {
	if s.terminal != nil {
		fmt.Fprint(s.out, s.back())
		s.lines = 0
	}
	s.say(words)
	s.draw()
}

// draw writes the table over its last state, in one write so that it does not flicker.
func (s *screen) draw() {
	if s.terminal == nil {
		return
	}
	width, height := s.size()
	text := crop(table(s.shown, width-1, s.palette), height-1)
	fmt.Fprint(s.out, s.back()+text)
	s.lines = strings.Count(text, "\n")
}

// back moves the cursor to where the table began and clears the rest (ECMA-48, "Cursor up" and "Erase in page").
func (s *screen) back() string {
	if s.lines == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", s.lines)
}

// crop keeps a text within height lines: what has scrolled off a terminal cannot be drawn over.
func crop(text string, height int) string {
	lines := strings.SplitAfter(strings.TrimRight(text, "\n"), "\n")
	if height <= 1 || len(lines) <= height {
		return text
	}
	return strings.Join(lines[:height-1], "") + fmt.Sprintf("%s… and %d more\n", indent, len(lines)-height+1)
}
