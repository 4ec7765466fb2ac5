// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

// palette is how emphasis is written; the zero palette writes none.
type palette struct{ colours bool }

func (p palette) bold(s string) string   { return p.paint("1", s) }
func (p palette) dim(s string) string    { return p.paint("2", s) }
func (p palette) red(s string) string    { return p.paint("31", s) }
func (p palette) green(s string) string  { return p.paint("32", s) }
func (p palette) yellow(s string) string { return p.paint("33", s) }
func (p palette) cyan(s string) string   { return p.paint("36", s) }

// of is the colour of a mood.
func (p palette) of(m mood) func(string) string {
	return [...]func(string) string{idle: p.dim, busy: p.yellow, good: p.green, bad: p.red}[m]
}

// paint wraps s in an attribute (ECMA-48, "Select graphic rendition").
func (p palette) paint(attribute, s string) string {
	if !p.colours || s == "" {
		return s
	}
	return "\x1b[" + attribute + "m" + s + "\x1b[0m"
}
