// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text cuts and counts in messages for users.
package text

import (
	"fmt"
	"strings"
)

const ellipsis = "…"

// Clip returns a message of at most size bytes, whole characters only; one that was cut ends in an ellipsis.
func Clip(message string, size int) string {
	if len(message) <= size {
		return message
	}
	return strings.ToValidUTF8(message[:max(size-len(ellipsis), 0)], "") + ellipsis
}

// Fit returns a text of at most width characters; one that was cut ends in an ellipsis.
func Fit(text string, width int) string {
	characters := []rune(text)
	if len(characters) <= width {
		return text
	}
	return string(characters[:max(width-1, 0)]) + ellipsis
}

// Count returns a number with its noun: "1 node", "2 nodes". The plural of the noun has an s.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
