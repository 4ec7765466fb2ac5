// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/bench/cli"
	"github.com/multieni/multieni/test/bench/scenario"
)

// inFences matches the blocks of commands of a document.
var inFences = regexp.MustCompile("(?s)```sh\n(.*?)```")

// The commands in the document are ones that there are: their flags parse, and their scenarios exist.
func TestDocumentedCommands(t *testing.T) {
	document, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, block := range inFences.FindAllStringSubmatch(string(document), -1) {
		for line := range strings.Lines(block[1]) {
			args, is := arguments(strings.TrimSpace(line))
			if !is {
				continue
			}
			checked++
			command, rest, err := cli.New().Find(args)
			if err != nil {
				t.Fatal(err)
			}
			if err := command.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if word, err := command.Flags().GetString("scenarios"); err == nil {
				if _, err := scenario.Choose(word); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
	if checked < 4 {
		t.Errorf("the document has %d commands of the bench", checked)
	}
}

// quoted matches a word of a shell command, quotes and all.
var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// arguments returns those of the bench in a line of the shell: what make passes on, or what is given to it directly.
func arguments(line string) (args []string, is bool) {
	if direct, found := strings.CutPrefix(line, "go run ./test/bench "); found {
		return words(direct), true
	}
	rest, found := strings.CutPrefix(line, "make bench")
	if !found {
		return nil, false
	}
	if variable := regexp.MustCompile(`\bBENCH=(\S+)`).FindStringSubmatch(rest); variable != nil {
		args = append(args, "--scenarios", variable[1])
	}
	if variable := regexp.MustCompile(`\bBENCHFLAGS="([^"]*)"`).FindStringSubmatch(rest); variable != nil {
		args = append(args, words(variable[1])...)
	}
	return args, true
}

func words(text string) []string {
	all := quoted.FindAllString(text, -1)
	for n := range all {
		all[n] = strings.Trim(all[n], `'"`)
	}
	return all
}

func TestScenariosThatThereAreNot(t *testing.T) {
	for _, word := range []string{"a1,zz", "a1:zz", "a1:-3"} {
		command := cli.New()
		command.SetArgs([]string{"--scenarios", word, "--dir", t.TempDir()})
		if err := command.Execute(); err == nil || !strings.Contains(err.Error(), word[3:]) {
			t.Errorf("%s: got %v", word, err)
		}
	}
}
