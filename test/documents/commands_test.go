// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents_test

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
	"github.com/multieni/multieni/internal/cli/simulate"
	devcli "github.com/multieni/multieni/internal/dev/cli"
	"github.com/multieni/multieni/test/documents"
)

// notes is the template of the text that helm prints after it has installed the chart.
const notes = "charts/multieni/templates/NOTES.txt"

// quoted matches text between quotes, and command substitutions of a shell.
var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"|\$\([^)]*\)`)

// named returns the commands that a page names, between fences and within lines, each on one line and with Q in place
// of quoted text.
func named(page documents.Page) []string {
	var all []string
	add := func(text string) {
		for command := range strings.SplitSeq(quoted.ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), "Q"), "|") {
			all = append(all, strings.Trim(command, " &…"))
		}
	}
	for _, command := range page.Commands() {
		add(command.Text)
	}
	for _, match := range inline.FindAllStringSubmatch(prose(page), -1) {
		add(match[1])
	}
	if page.Path == notes {
		for line := range strings.Lines(page.Text) {
			add(strings.TrimSpace(line))
		}
	}
	return all
}

func withNotes(t *testing.T) []documents.Page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, notes))
	if err != nil {
		t.Fatal(err)
	}
	return append(all(t), documents.Parse(notes, string(text)))
}

// ours matches a command of one of our programs: the program, and its arguments.
var ours = regexp.MustCompile(`^(?:(multieni|kubectl eni|multieni-dev) ([a-z][a-z-]*(?: [^=]*)?)|(eni-manager|awssim) (--.*))$`)

// Commands of our programs in documents exist, with their flags. The stories of test/scenario check that they do what
// the documents say.
func TestOurCommandsExist(t *testing.T) {
	programs := map[string]func() *cobra.Command{
		"multieni": cli.New, "kubectl eni": cli.NewPlugin, "multieni-dev": devcli.New, "eni-manager": enimanager.New,
		"awssim": simulate.New,
	}
	found := 0
	for _, page := range withNotes(t) {
		for _, line := range named(page) {
			match := ours.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			found++
			if err := misuse(programs[match[1]+match[3]](), strings.Fields(match[2]+match[4])); err != nil {
				t.Errorf("%s: %q: %v", page.Path, line, err)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d commands were found, so they are not found any more", found)
	}
}

// misuse returns the error of a program about unknown arguments.
func misuse(program *cobra.Command, args []string) error {
	command, rest, err := program.Find(args)
	if err == nil && command == program && program.HasSubCommands() {
		return errors.New("there is no such command")
	}
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if errors.Is(err, pflag.ErrHelp) || err != nil && strings.Contains(err.Error(), "invalid argument") {
		return nil // the value of a placeholder need not exist
	}
	return err
}

// The arguments of commands exist in the checkout: targets of make, programs to build, and files.
func TestWhatCommandsAreGivenExists(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`^make((?: [a-z][a-z-]*)+)`)
	files := regexp.MustCompile(`\s(?:\./)?((?:cmd|test|examples|deploy|charts|hack)/[\w./-]*\w)`)
	for _, page := range withNotes(t) {
		for _, line := range named(page) {
			for _, match := range targets.FindAllStringSubmatch(line, -1) {
				for target := range strings.FieldsSeq(match[1]) {
					if !strings.Contains(string(makefile), "\n.PHONY: "+target+"\n") {
						t.Errorf("%s: %q: there is no target %s", page.Path, line, target)
					}
				}
			}
			for _, match := range files.FindAllStringSubmatch(line, -1) {
				if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
					t.Errorf("%s: %q: %v", page.Path, line, err)
				}
			}
		}
	}
}

// A command of kubectl or helm within a line is the beginning of one between fences somewhere, which a test runs or a
// mark excludes.
func TestCommandsOfOthers(t *testing.T) {
	pages := all(t)
	var fenced []string
	for _, page := range pages {
		for _, command := range page.Commands() {
			fenced = append(fenced, quoted.ReplaceAllString(command.Text, "Q"))
		}
	}
	others := regexp.MustCompile(`^(helm|kubectl) `)
	for _, page := range pages {
		for _, match := range inline.FindAllStringSubmatch(prose(page), -1) {
			command := quoted.ReplaceAllString(match[1], "Q")
			begins := func(other string) bool { return strings.HasPrefix(other, command) }
			if others.MatchString(command) && !strings.HasPrefix(command, "kubectl eni") && !slices.ContainsFunc(fenced, begins) {
				t.Errorf("%s: no command between fences begins with %q", page.Path, command)
			}
		}
	}
}
