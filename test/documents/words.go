// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// WordsSection is the heading of the glossary's table of words that pages and comments must not have.
const WordsSection = "Words that pages do not have"

// Word is a word or phrase that pages and comments must not have.
type Word struct {
	Not     string
	But     string // what to write instead
	pattern *regexp.Regexp
}

// Offence is one place at which a text has a word that it must not have.
type Offence struct {
	Line int // from 1
	Word Word
}

// String names the line, the word and what to write instead.
func (o Offence) String() string {
	return fmt.Sprintf("line %d: %q; write: %s", o.Line, o.Word.Not, o.Word.But)
}

// Words reads the table of the glossary's section [WordsSection].
func Words(glossary string) []Word {
	_, section, _ := strings.Cut(glossary, "\n## "+WordsSection+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var words []Word
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, code := range codeSpan.FindAllString(cells[1], -1) {
			not := strings.Trim(code, "`")
			pattern := `(?i)\b` + strings.Join(strings.Fields(regexp.QuoteMeta(not)), `\s+`) + `\b`
			words = append(words, Word{Not: not, But: strings.TrimSpace(cells[2]), pattern: regexp.MustCompile(pattern)})
		}
	}
	return words
}

var (
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
	codeFence = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	linkPath  = regexp.MustCompile(`\]\([^)\s]+\)`)
)

// InPage returns the offences in a page, apart from its code and the paths of its links.
func InPage(page Page, words []Word) []Offence {
	text := page.Text
	for _, code := range []*regexp.Regexp{codeFence, codeSpan, linkPath} {
		text = code.ReplaceAllStringFunc(text, blank)
	}
	return find(text, 1, words)
}

// InGo returns the offences in the comments of a Go file and, unless the file is a test, in its strings of more than
// one word. A generated file has none.
func InGo(path string, source []byte, words []Word) ([]Offence, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	var offences []Offence
	for _, group := range file.Comments {
		begin, end := files.Position(group.Pos()), files.Position(group.End())
		text := commentMark.ReplaceAllStringFunc(string(source[begin.Offset:end.Offset]), blank)
		offences = append(offences, find(codeSpan.ReplaceAllStringFunc(text, blank), begin.Line, words)...)
	}
	if !strings.HasSuffix(path, "_test.go") {
		offences = append(offences, inStrings(files, file, words)...)
	}
	return offences, nil
}

// inStrings returns the offences in the string literals of more than one word.
func inStrings(files *token.FileSet, file *ast.File, words []Word) (offences []Offence) {
	ast.Inspect(file, func(n ast.Node) bool {
		literal, is := n.(*ast.BasicLit)
		if is && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") {
			offences = append(offences, find(literal.Value, files.Position(literal.Pos()).Line, words)...)
		}
		return true
	})
	return offences
}

// commentMark matches the beginning of a line of a comment.
var commentMark = regexp.MustCompile(`(?m)^[ \t]*(//|/\*|\*)`)

func find(text string, firstLine int, words []Word) []Offence {
	var offences []Offence
	for _, word := range words {
		for _, at := range word.pattern.FindAllStringIndex(text, -1) {
			offences = append(offences, Offence{Line: firstLine + strings.Count(text[:at[0]], "\n"), Word: word})
		}
	}
	return offences
}

// blank replaces all characters except line breaks by spaces, so that the text after it keeps its line.
func blank(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, text)
}
