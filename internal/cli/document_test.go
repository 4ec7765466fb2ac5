// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/cli/enimanager"
)

const root = "../.."

var (
	// fenced is what stands between two fences, inline what stands between two backquotes.
	fenced, inline = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```"), regexp.MustCompile("`([^`\n]+)`")
	quotes         = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	ours           = regexp.MustCompile(`(?:^|^\. \S+ && |-- /)(?:(multieni|kubectl eni) ([a-z][a-z-]*(?: .*)?)|(eni-manager) (--.*))$`)
	makes          = regexp.MustCompile(`^make ([a-z][a-z-]*)`)
	built          = regexp.MustCompile(`\bgo build .*\s\./(cmd/[\w-]+)$`)
	ourFiles       = regexp.MustCompile(`\s((?:examples|deploy|charts|hack)/[\w./-]+)`)
)

// commandsIn returns the command lines in a page, without comments, and with Q for what is quoted.
func commandsIn(page string) []string {
	var all []string
	for _, block := range fenced.FindAllStringSubmatch(page, -1) {
		if block[1] != "" && block[1] != "sh" {
			continue
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(block[2], "\\\n", " "), "\n") {
			line, _, _ = strings.Cut(quotes.ReplaceAllString(line, "Q"), " #")
			for part := range strings.SplitSeq(line, "|") {
				all = append(all, strings.TrimSpace(part))
			}
		}
	}
	for _, code := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all = append(all, quotes.ReplaceAllString(strings.TrimRight(code[1], " …"), "Q"))
	}
	return all
}

// Every command in a document is one that there is, with flags that it has, on files that there are. What it does, the
// stories of test/scenario and test/ship run.
func TestCommandsOfDocumentsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md", "charts/multieni/*.md", "charts/multieni/templates/NOTES.txt"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			content, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range commandsIn(string(content)) {
				if match := ours.FindStringSubmatch(line); match != nil {
					found++
					program := map[string]func() *cobra.Command{
						"multieni": cli.New, "kubectl eni": cli.NewPlugin, "eni-manager": enimanager.New,
					}[match[1]+match[3]]()
					parse(t, page, program, strings.Fields(match[2]+match[4]))
				}
				if match := makes.FindStringSubmatch(line); match != nil && !strings.Contains(string(makefile), "\n"+match[1]+": ## ") {
					t.Errorf("%s: there is no target for %q", page, line)
				}
				if match := built.FindStringSubmatch(line); match != nil {
					if _, err := os.Stat(filepath.Join(root, match[1], "main.go")); err != nil {
						t.Errorf("%s: %q: %v", page, line, err)
					}
				}
				for _, match := range ourFiles.FindAllStringSubmatch(line, -1) {
					if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
						t.Errorf("%s: %q: %v", page, line, err)
					}
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d commands were found, so they are not found any more", found)
	}
}

// runElsewhere are beginnings of commands that are run by tests beside these documents: their own packages'.
var runElsewhere = []string{"multieni launch-template ", "multieni userdata render", "multieni lifecycle-hook --queue-url"}

// Every command of these pages that needs no AWS account is run: as it stands, with words in capitals for names, in a story of
// test/scenario or in the tests of the command's package.
func TestCommandsOfPagesAreRun(t *testing.T) {
	stories, err := filepath.Glob(filepath.Join(root, "test/scenario/testdata/*/*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var run []string
	for _, story := range stories {
		content, err := os.ReadFile(story)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			run = append(run, quotes.ReplaceAllString(strings.TrimPrefix(strings.TrimSpace(line), "exec "), "Q"))
		}
	}
	tried, name := 0, regexp.MustCompile(`\b[A-Z]{3,}\b`)
	for _, page := range []string{"docs/launch-time.md", "docs/multus-node-groups.md"} {
		content, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.FieldsFunc(strings.Join(commandsIn(string(content)), "|"), func(r rune) bool { return r == '|' }) {
			line = strings.TrimSpace(line)
			began := func(beginning string) bool { return strings.HasPrefix(line, beginning) }
			if !began("kubectl ") && !began("multieni ") || slices.ContainsFunc(runElsewhere, began) {
				continue
			}
			tried++
			like := regexp.MustCompile("^" + name.ReplaceAllString(regexp.QuoteMeta(line), `\S+`) + "( |$)")
			if !slices.ContainsFunc(run, like.MatchString) {
				t.Errorf("%s: no story runs %q", page, line)
			}
		}
	}
	if tried < 8 {
		t.Errorf("only %d commands were found", tried)
	}
}

func parse(t *testing.T, page string, program *cobra.Command, args []string) {
	t.Helper()
	command, rest, err := program.Find(args)
	if err == nil && command == program && program.HasSubCommands() {
		t.Errorf("%s: %q is no command of %s", page, args, program.CommandPath())
		return
	}
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) && !strings.Contains(err.Error(), "invalid argument") { // what stands for a value need be none
		t.Errorf("%s: %q: %v", page, args, err)
	}
}
