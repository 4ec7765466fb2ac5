// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// Edit replaces a part of the Go source of one package.
type Edit struct {
	// Package is the folder of the package, from the root of the module.
	Package string
	// Old is the part, as Go tokens that the source has exactly once. Layout and comments do not matter. A name that
	// begins with $ matches any identifier, the same one everywhere in Old: so a rename in the source does not break
	// the edit.
	Old string
	// New is what replaces the part. A name that begins with $ is the identifier that it matched in Old.
	New string
}

// Apply makes the edit in the files of the package, by name. It fails unless exactly one part of one file matches.
func (e Edit) Apply(files map[string]string) error {
	pattern := scan(e.Old)
	var found []match
	for name, text := range files {
		source := scan(text)
		for at := range source {
			if names, matches := pattern.match(source[at:]); matches {
				last := source[at+len(pattern)-1]
				found = append(found, match{name, source[at].begin, last.end, names})
			}
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("%s has %d times what matches\n%s", e.Package, len(found), e.Old)
	}
	m := found[0]
	text := files[m.file]
	files[m.file] = text[:m.begin] + m.substitute(e.New) + text[m.end:]
	return nil
}

// match is a part of a file, and the identifiers in place of names that begin with $.
type match struct {
	file       string
	begin, end int
	names      map[string]string
}

// anyName is a name that begins with $.
var anyName = regexp.MustCompile(`\$(\w+)`)

// wildcard takes the place of the $ of names, which no Go source can have.
const wildcard = "wildcard۰"

func (m match) substitute(text string) string {
	return anyName.ReplaceAllStringFunc(text, func(name string) string { return m.names[name[1:]] })
}

// lexeme is one token of a source, from the byte begin to before the byte end.
type lexeme struct {
	kind       token.Token
	text       string
	begin, end int
}

type lexemes []lexeme

// scan returns the tokens of a source without comments. The semicolon that Go adds at the end of a source is none.
func scan(text string) lexemes {
	source := []byte(anyName.ReplaceAllString(text, wildcard+"$1"))
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, nil, 0)
	var all lexemes
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		if text == "" {
			text = kind.String()
		}
		begin := file.Offset(pos)
		all = append(all, lexeme{kind, text, begin, begin + len(text)})
	}
	for len(all) > 0 && all[len(all)-1].kind == token.SEMICOLON && all[len(all)-1].text == "\n" {
		all = all[:len(all)-1]
	}
	return all
}

// match reports whether the source begins with the tokens of the pattern, and returns the identifiers in place of names
// that begin with $.
func (pattern lexemes) match(source lexemes) (names map[string]string, matches bool) {
	if len(source) < len(pattern) {
		return nil, false
	}
	names = map[string]string{}
	return names, slices.EqualFunc(pattern, source[:len(pattern)], func(want, got lexeme) bool {
		name, isAny := strings.CutPrefix(want.text, wildcard)
		if !isAny || want.kind != token.IDENT {
			return want.kind == got.kind && want.text == got.text
		}
		before, bound := names[name]
		if !bound {
			names[name] = got.text
		}
		return got.kind == token.IDENT && (!bound || before == got.text)
	})
}
