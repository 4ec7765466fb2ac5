// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/documents"
)

const root = "../.."

func all(t *testing.T) []documents.Page {
	t.Helper()
	pages, err := documents.All(root)
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d documents: %v", len(pages), err)
	}
	return pages
}

func TestEveryDocumentIsRead(t *testing.T) {
	read := map[string]bool{}
	for _, page := range all(t) {
		read[page.Path] = true
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		hidden := strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "dist", "testdata"}, entry.Name())
		switch {
		case err != nil:
			return err
		case entry.IsDir() && hidden && path != root:
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".md" && !read[name]:
			t.Errorf("%s is none of the places of package documents, so no test reads it", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// inline is code within a line.
var inline = regexp.MustCompile("`([^`\n]+)`")

// prose returns a page without the blocks between its fences.
func prose(page documents.Page) string {
	text := page.Text
	for _, block := range page.Blocks {
		text = strings.Replace(text, block.Text, "", 1)
	}
	return text
}

// Documents link to files and sections that exist.
func TestLinks(t *testing.T) {
	pages := all(t)
	anchors := map[string][]string{}
	for _, page := range pages {
		for _, heading := range page.Headings() {
			anchors[page.Path] = append(anchors[page.Path], anchor(heading))
		}
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages {
		for _, match := range link.FindAllStringSubmatch(inline.ReplaceAllString(prose(page), ""), -1) {
			target, section, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page.Path
			if target != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(page.Path), target))
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s leads to %s, which is not there", page.Path, target)
			} else if section != "" && !slices.Contains(anchors[file], section) {
				t.Errorf("%s leads to #%s of %s, which has no such section", page.Path, section, file)
			}
		}
	}
}

// anchor returns the anchor of a heading in links.
func anchor(heading string) string {
	var s strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			s.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			s.WriteRune(r)
		}
	}
	return s.String()
}

// Each block between fences names its language, so that tests find commands. No command is outside of fences.
func TestFences(t *testing.T) {
	languages := []string{"sh", "yaml", "json", "text", "mermaid", "go", "promql"}
	indented := regexp.MustCompile(`(?m)^    +(?:kubectl|helm|make|go|aws|curl|multieni\S*|[A-Z_]+=\S+) .*$`)
	for _, page := range all(t) {
		for _, block := range page.Blocks {
			if !slices.Contains(languages, block.Language) {
				t.Errorf("%s:%d: the language %q is none of %v", page.Path, block.Line, block.Language, languages)
			}
		}
		for _, block := range page.Blocks {
			if block.Language == "mermaid" && strings.Contains(block.Text, ";") {
				t.Errorf("%s:%d: a semicolon ends a statement of Mermaid, and what follows it becomes another", page.Path, block.Line)
			}
		}
		for _, line := range indented.FindAllString(prose(page), -1) {
			t.Errorf("%s: %q is a command outside of fences", page.Path, strings.TrimSpace(line))
		}
	}
}

// Go code in documents is that of the examples, which tests compile.
func TestGo(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "examples", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var examples string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples += string(content)
	}
	for _, page := range all(t) {
		for _, block := range page.Blocks {
			for line := range strings.Lines(block.Text) {
				if block.Language == "go" && !strings.Contains(examples, strings.TrimSpace(line)) {
					t.Errorf("%s:%d: %q is in no example", page.Path, block.Line, strings.TrimSpace(line))
				}
			}
		}
	}
}
