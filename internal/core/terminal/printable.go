// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Printable returns a text in which every character that a terminal or a reader would obey instead of show is visible,
// as \u001b: control characters (ECMA-48) except the line feed and the tab, and those that change the direction of text
// (Unicode, "Bidirectional Algorithm"). Agents, tags and foreign programs write such texts.
func Printable(text string) string {
	if !strings.ContainsFunc(text, obeyed) {
		return strings.ToValidUTF8(text, "\ufffd")
	}
	var b strings.Builder
	for _, r := range text { // an invalid byte is U+FFFD here
		if obeyed(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func obeyed(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.IsControl(r):
		return true
	default:
		return unicode.Is(unicode.Bidi_Control, r)
	}
}

// Line is Printable on one line: a text with a line feed could imitate a row.
func Line(text string) string {
	return Printable(strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ").Replace(text))
}

// attributes are those that Paint writes.
var attributes = regexp.MustCompile("\x1b\\[(0|1|2|31|32|33)m")

// Clean is Printable for a text with the attributes of Paint, which stay.
func Clean(text string) string {
	var b strings.Builder
	end := 0
	for _, at := range attributes.FindAllStringIndex(text, -1) {
		b.WriteString(Printable(text[end:at[0]]) + text[at[0]:at[1]])
		end = at[1]
	}
	return b.String() + Printable(text[end:])
}
