// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cast

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/terminal"
)

const (
	lineHeight, charWidth, margin = 18.0, 8.43, 10.0
	// rest is how long the last state is shown before the picture begins again.
	rest = 6 * time.Second
)

// attribute is one of those that package terminal writes, which ends at the next one.
var attribute = regexp.MustCompile("\x1b\\[([0-9]+)m")

// SVG returns the recording as a picture that moves by itself in a browser, and is still for users who prefer that. The
// text must only grow: a picture obeys attributes of text, and no movement of the cursor.
func (r Recording) SVG() string {
	var text strings.Builder
	var frames strings.Builder
	all := rest
	if n := len(r.Events); n > 0 {
		all += r.Events[n-1].At
	}
	lines := 0
	offset := func() float64 { return float64(r.Height-lines) * lineHeight }
	for _, e := range r.Events {
		for line := range strings.Lines(e.Text) {
			for _, part := range wrap(strings.TrimSuffix(line, "\n"), r.Width) {
				if lines++; part == "" {
					continue
				}
				fmt.Fprintf(&text, "<text x='%g' y='%g'>%s</text>\n", margin, float64(lines)*lineHeight, spans(part))
			}
		}
		fmt.Fprintf(&frames, "%.2f%%{transform:translateY(%gpx)}\n", 100*e.At.Seconds()/all.Seconds(), offset())
	}
	fmt.Fprintf(&frames, "100%%{transform:translateY(%gpx)}\n", offset())
	width, height := float64(r.Width)*charWidth+2*margin, float64(r.Height)*lineHeight+2*margin
	return fmt.Sprintf(`<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' role='img'>
<title>%s</title>
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d4d4d4;white-space:pre}
.a1{font-weight:bold;fill:#fff}.a2{fill:#8a8a8a}.a31{fill:#f14c4c}.a32{fill:#4ec36a}.a33{fill:#e5c07b}
g{animation:story %.2fs step-end infinite}
@media (prefers-reduced-motion:reduce){g{animation:none;transform:translateY(%gpx)}}
@keyframes story{
%s}
</style>
<rect width='100%%' height='100%%' rx='6' fill='#1e1e1e'/>
<g>
%s</g>
</svg>
`, width, height, html.EscapeString(r.Title), all.Seconds(), offset(), frames.String(), text.String())
}

// spans returns a line with its attributes as elements.
func spans(line string) string {
	var b strings.Builder
	class, end := "0", 0
	piece := func(text string) {
		text = html.EscapeString(terminal.Printable(text)) // XML has no control characters
		switch {
		case text == "":
		case class == "0":
			b.WriteString(text)
		default:
			fmt.Fprintf(&b, "<tspan class='a%s'>%s</tspan>", class, text)
		}
	}
	for _, at := range attribute.FindAllStringSubmatchIndex(line, -1) {
		piece(line[end:at[0]])
		class, end = line[at[2]:at[3]], at[1]
	}
	piece(line[end:])
	return b.String()
}

// wrap breaks a line as a terminal does, in parts of at most width characters. Parts have no attributes.
func wrap(line string, width int) []string {
	runes := []rune(attribute.ReplaceAllString(line, ""))
	if len(runes) <= width {
		return []string{line}
	}
	var parts []string
	for len(runes) > width {
		parts = append(parts, string(runes[:width]))
		runes = runes[width:]
	}
	return append(parts, string(runes))
}
