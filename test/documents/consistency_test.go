// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/cli"
	devcli "github.com/multieni/multieni/internal/dev/cli"
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

// inline is code within a line.
var inline = regexp.MustCompile("`([^`\n]+)`")

// prose is a page without what stands between its fences.
func prose(page documents.Page) string {
	text := page.Text
	for _, block := range page.Blocks {
		text = strings.Replace(text, block.Text, "", 1)
	}
	return text
}

// Documents lead to files and sections that exist.
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

// anchor is how a heading is linked to.
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

// What stands between fences says what language it is in, so that commands are found; and none stands outside of fences.
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

// Commands of ours that documents name exist, with the flags that they are given, and so do targets of make.
func TestNamedCommands(t *testing.T) {
	programs := map[string]func() *cobra.Command{"multieni": cli.New, "kubectl eni": cli.NewPlugin, "multieni-dev": devcli.New}
	for _, page := range all(t) {
		for _, command := range named(page) {
			if wrong := unmade(t, command); wrong != "" {
				t.Errorf("%s: %q: %s", page.Path, command, wrong)
			}
			for program, root := range programs {
				if rest, is := strings.CutPrefix(command, program+" "); is {
					if wrong := misuse(root(), rest); wrong != "" {
						t.Errorf("%s: %q: %s", page.Path, command, wrong)
					}
				}
			}
		}
	}
}

// Commands of kubectl and helm within a line begin one that stands between fences somewhere, where it is run or marked.
func TestCommandsOfOthers(t *testing.T) {
	pages := all(t)
	var run []string
	for _, page := range pages {
		for _, command := range page.Commands() {
			run = append(run, command.Text)
		}
	}
	others := regexp.MustCompile(`^(helm|kubectl) `)
	for _, page := range pages {
		for _, command := range named(page) {
			begins := func(other string) bool { return strings.HasPrefix(other, command) }
			if others.MatchString(command) && !strings.HasPrefix(command, "kubectl eni") && !slices.ContainsFunc(run, begins) {
				t.Errorf("%s: no command between fences begins with %q", page.Path, command)
			}
		}
	}
}

// named are the commands of a page, between fences and within lines.
func named(page documents.Page) []string {
	var all []string
	for _, command := range page.Commands() {
		all = append(all, command.Text)
	}
	for _, match := range inline.FindAllStringSubmatch(prose(page), -1) {
		all = append(all, match[1])
	}
	return all
}

var variable = regexp.MustCompile(`[A-Z]+=("[^"]*"|\S+)`)

// unmade says which target a command of make asks for in vain.
func unmade(t *testing.T, command string) string {
	t.Helper()
	targets, is := strings.CutPrefix(command, "make ")
	if !is {
		return ""
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for target := range strings.FieldsSeq(variable.ReplaceAllString(targets, "")) {
		if !strings.Contains(string(makefile), "\n"+target+": ## ") {
			return "there is no target " + target
		}
	}
	return ""
}

// misuse says what a program does not know of a command line.
func misuse(root *cobra.Command, line string) string {
	args := strings.Fields(strings.ReplaceAll(line, "\\\n", " "))
	if strings.Contains(args[0], "=") {
		return "" // the beginning of something else
	}
	command, rest, err := root.Find(args)
	if err != nil {
		return err.Error()
	}
	if command.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return command.CommandPath() + " has no command " + rest[0]
	}
	command.InitDefaultHelpFlag()
	for _, arg := range rest {
		if arg == "|" || arg == "&" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if strings.HasPrefix(arg, "--") && command.Flag(name) == nil {
			return command.CommandPath() + " has no flag --" + name
		}
	}
	return ""
}
