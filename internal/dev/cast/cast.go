// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cast has recordings of terminals as values: as files of asciinema (asciicast v2), and as moving pictures.
package cast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// Recording is what a program has printed, and when.
type Recording struct {
	Title string
	// Width and Height are those of the terminal in characters.
	Width, Height int
	Events        []Event
}

// Event is a text that a program prints.
type Event struct {
	At   time.Duration // since the beginning
	Text string
}

const (
	// together is the time within which texts are one event: an eye sees no difference, and the file is smaller.
	together = 50 * time.Millisecond
	// longest is the time after which a recording continues, if the program prints nothing.
	longest = 2 * time.Second
)

// Print adds a text that a program prints some time after the one before. The recording leaves out a part of longer
// pauses.
func (r *Recording) Print(after time.Duration, text string) {
	n := len(r.Events)
	switch {
	case n == 0:
		r.Events = []Event{{0, text}}
	case after < together:
		r.Events[n-1].Text += text
	default:
		r.Events = append(r.Events, Event{r.Events[n-1].At + min(after, longest), text})
	}
}

// Text returns all that the program has printed.
func (r Recording) Text() string {
	var b strings.Builder
	for _, e := range r.Events {
		b.WriteString(e.Text)
	}
	return b.String()
}

// header is the first line of a file.
type header struct {
	Version int    `json:"version"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Title   string `json:"title"`
}

// Bytes returns the recording as a file (asciicast v2, docs.asciinema.org/manual/asciicast/v2).
func (r Recording) Bytes() []byte {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	all := []any{header{2, r.Width, r.Height, r.Title}}
	for _, e := range r.Events {
		seconds := math.Round(e.At.Seconds()*100) / 100
		all = append(all, []any{seconds, "o", strings.ReplaceAll(e.Text, "\n", "\r\n")})
	}
	for _, line := range all {
		if err := lines.Encode(line); err != nil {
			panic(err) // numbers and strings are always JSON
		}
	}
	return b.Bytes()
}

// Parse reads the output of a recording from a file. An error names the line.
func Parse(file []byte) (Recording, error) {
	first, rest, _ := bytes.Cut(file, []byte("\n"))
	var h header
	if err := json.Unmarshal(first, &h); err != nil || h.Version != 2 {
		return Recording{}, fmt.Errorf("line 1 is no header of asciicast v2: %s", first)
	}
	r := Recording{Title: h.Title, Width: h.Width, Height: h.Height}
	n := 1
	for line := range bytes.Lines(rest) {
		n++
		var at float64
		var kind, text string
		if err := json.Unmarshal(line, &[]any{&at, &kind, &text}); err != nil {
			return Recording{}, fmt.Errorf("line %d is no event: %w", n, err)
		}
		if kind == "o" {
			when := time.Duration(math.Round(at*100)) * (time.Second / 100)
			r.Events = append(r.Events, Event{when, strings.ReplaceAll(text, "\r\n", "\n")})
		}
	}
	return r, nil
}
