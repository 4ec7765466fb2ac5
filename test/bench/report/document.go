// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// World returns the name of the figures' world, as in the marks of a document.
func (r Report) World() string {
	if r.InstantCalls {
		return "instant calls"
	}
	return "timed calls"
}

// Into replaces the tables between the marks of the report's world in a document. All tables of a world come from one
// run.
func (r Report) Into(document string) (string, error) {
	begin, end := "<!-- bench: "+r.World()+" -->\n", "<!-- end of bench: "+r.World()+" -->"
	before, rest, hasBegin := strings.Cut(document, begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return "", fmt.Errorf("the document has no %q followed by %q", strings.TrimSpace(begin), end)
	}
	return before + begin + "\n" + r.Markdown() + "\n" + end + after, nil
}
