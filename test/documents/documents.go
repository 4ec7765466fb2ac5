// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents reads this project's documents for tests: their sections, the commands in these, and the marks of
// commands that no test can run.
//
// A command is in a block of shell between fences. Tests run it unchanged, unless a mark in its comment says what it
// needs that tests do not have:
//
//	kubectl get nodeeni                  # runs
//	aws sts get-caller-identity          # (AWS) does not
//
// A line with only a comment with a mark marks all commands after it in its block.
package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Marks are the words between parentheses at the beginning of a comment, with what the command needs.
var Marks = map[string]string{
	"AWS":     "an AWS account, what is in one, a registry, or AWS's own command line",
	"nodes":   "nodes that run pods",
	"minutes": "more time than this test has",
}

// Page is a document.
type Page struct {
	Path   string // from the root of the checkout
	Text   string
	Blocks []Block
}

// Block is the text between two fences.
type Block struct {
	Section  string // the heading above it
	Line     int    // of its first line in the page, from 1
	Language string // as in the fence
	Text     string
}

// Command is one command of a page, with its continuation lines.
type Command struct {
	Page, Section string
	Line          int    // from 1
	Text          string // as in the page, without its comment
	Mark          string // why no test runs it, one of [Marks] or a word that is none; empty for a command that tests run
}

// places are the documents of the checkout and the folders with nothing else, in the order of their paths. All does not
// list the checkout's own folder: each commit changes an entry of it, and the go command would repeat the tests that
// read it.
var places = []string{"AGENTS.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "README.md", "ROADMAP.md",
	"SECURITY.md", "SUPPORT.md", "awssim/README.md", "awssim/REFERENCE.md", "charts/multieni/README.md", "docs",
	"examples/README.md"}

// All returns the documents of the checkout, in the order of their paths.
func All(root string) ([]Page, error) {
	var pages []Page
	for _, place := range places {
		err := filepath.WalkDir(filepath.Join(root, place), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			pages = append(pages, Parse(filepath.ToSlash(name), string(text)))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// Parse reads a document.
func Parse(path, text string) Page {
	page := Page{Path: path, Text: text}
	var section, fence, indent string
	var open *Block
	for n, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case open != nil && trimmed == fence:
			page.Blocks, open = append(page.Blocks, *open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(trimmed, "```"):
			indent = line[:len(line)-len(trimmed)]
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
			open = &Block{Section: section, Line: n + 2, Language: strings.TrimPrefix(trimmed, fence)}
		case headings.MatchString(line):
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return page
}

var headings = regexp.MustCompile(`^#{1,6} `)

// Headings returns the headings of a page.
func (p Page) Headings() []string {
	var all []string
	fenced := false
	for line := range strings.Lines(p.Text) {
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "```"):
			fenced = !fenced
		case !fenced && headings.MatchString(line):
			all = append(all, strings.TrimSpace(strings.TrimLeft(line, "#")))
		}
	}
	return all
}

// Commands returns the commands of a page, in their order.
func (p Page) Commands() []Command {
	var all []Command
	for _, block := range p.Blocks {
		if block.Language == "sh" {
			all = append(all, block.commands(p.Path)...)
		}
	}
	return all
}

// comment is the comment of a line of shell, and mark the mark at its beginning.
var (
	comment = regexp.MustCompile(`(?:^|\s+)#(?: (.*))?$`)
	mark    = regexp.MustCompile(`^\((\w+)\)`)
)

func (b Block) commands(page string) []Command {
	var all []Command
	var whole string // mark of the rest of the block
	var open *Command
	for n, line := range strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n") {
		said := ""
		if at := comment.FindStringSubmatchIndex(line); at != nil {
			if at[2] >= 0 {
				said = markOf(line[at[2]:at[3]])
			}
			line = line[:at[0]]
		}
		if strings.TrimSpace(line) == "" {
			if said != "" {
				whole = said
			}
			continue
		}
		if open == nil {
			open = &Command{Page: page, Section: b.Section, Line: b.Line + n, Mark: whole}
		} else {
			open.Text += "\n"
		}
		open.Text += line
		if said != "" {
			open.Mark = said
		}
		if !strings.HasSuffix(line, `\`) {
			all, open = append(all, *open), nil
		}
	}
	return all
}

func markOf(comment string) string {
	if found := mark.FindStringSubmatch(comment); found != nil {
		return found[1]
	}
	return ""
}
