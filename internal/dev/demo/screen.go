// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/multieni/multieni/internal/core/terminal"
)

// widest is the largest width of the story, and its width without a terminal.
const widest = 100

// breath is the pause after a completed step.
const breath = 1500 * time.Millisecond

// screen shows the story. On a terminal it redraws a live table below the text. Elsewhere it writes each change of the
// table as a separate line, without any escape code, and the table itself at the end.
type screen struct {
	out      io.Writer
	terminal *os.File  // nil if out is none
	recorder *recorder // nil without a recording
	colours  bool

	live  bool
	began time.Time // of the table that is live
	shown []row     // its last state
	lines int       // how many lines of it are on the terminal
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.terminal = file
		s.colours = os.Getenv("NO_COLOR") == ""
	}
	return s
}

// size returns the size of the terminal in characters. Without a terminal the height is 0.
func (s *screen) size() (width, height int) {
	if s.terminal != nil {
		if width, height, err := term.GetSize(int(s.terminal.Fd())); err == nil {
			return min(width, widest), height
		}
	}
	return widest, 0
}

// paint returns a text in a style, with colours if the terminal supports them.
func (s *screen) paint(style terminal.Style, text string) string {
	return terminal.Page{Colours: s.colours}.Paint(style, text)
}

// say writes a line, or an empty one; a live table moves down.
func (s *screen) say(words ...string) {
	fmt.Fprint(s.out, s.back()+strings.Join(words, " ")+"\n"+s.frame())
}

// block writes a text, with each line indented and folded.
func (s *screen) block(text, by string) {
	width, _ := s.size()
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		for _, part := range fold(strings.TrimRight(line, " \n"), width-len(by)) {
			s.say(strings.TrimRight(by+part, " "))
		}
	}
}

// watch begins a live table.
func (s *screen) watch(rows []row) {
	s.live, s.began, s.shown = true, time.Now(), rows
	fmt.Fprint(s.out, s.frame())
}

// update shows the table as it is now.
func (s *screen) update(rows []row) {
	lines := news(s.shown, rows)
	s.shown = rows
	if s.terminal != nil {
		fmt.Fprint(s.out, s.back()+s.frame())
		return
	}
	for _, line := range lines {
		s.say(fmt.Sprintf("%s%7s  %s", indent, fmt.Sprintf("+%.1f s", time.Since(s.began).Seconds()), line))
	}
}

// settle leaves the table as it is; further text is below it.
func (s *screen) settle() {
	if s.terminal == nil {
		fmt.Fprint(s.out, "\n"+table(s.shown, terminal.Page{Width: widest, Colours: s.colours}))
	}
	s.live, s.lines = false, 0
}

// breathe gives a user at a terminal, and viewers of a recording, time to read.
func (s *screen) breathe(ctx context.Context) {
	if s.recorder != nil {
		s.recorder.pause += breath
	}
	if s.terminal == nil {
		return
	}
	select {
	case <-time.After(breath):
	case <-ctx.Done():
	}
}

// frame returns the live table to draw, below an empty line.
func (s *screen) frame() string {
	if !s.live || s.terminal == nil {
		return ""
	}
	width, height := s.size()
	text := crop("\n"+table(s.shown, terminal.Page{Width: width - 1, Colours: s.colours}), height-1)
	s.lines = strings.Count(text, "\n")
	return text
}

// back moves the cursor to where the live table began and clears what follows (ECMA-48, "Cursor up" and "Erase in
// page").
func (s *screen) back() string {
	if s.lines == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", s.lines)
}

// crop cuts a text to height lines: lines that have scrolled off a terminal cannot be redrawn. A height of 0 or less
// means unknown.
func crop(text string, height int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if height <= 1 || len(lines) <= height {
		return text
	}
	return strings.Join(lines[:height-1], "") + fmt.Sprintf("%s… and %d lines more\n", indent, len(lines)-height+1)
}

// fold breaks a line at spaces so that no part is longer than width, if possible.
func fold(line string, width int) []string {
	var parts []string
	for len([]rune(line)) > width {
		runes := []rune(line)
		at := width
		for at > 0 && runes[at] != ' ' {
			at--
		}
		if at == 0 {
			break
		}
		parts = append(parts, string(runes[:at]))
		line = string(runes[at+1:])
	}
	return append(parts, line)
}
