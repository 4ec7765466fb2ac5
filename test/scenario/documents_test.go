// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/multieni/multieni/test/documents"
	"github.com/multieni/multieni/test/inputs"
	"github.com/multieni/multieni/test/size"
)

const checkout = "../.."

// TestDocuments runs the documents: each story runs the commands of a page unchanged. In the end a story has run every
// command of every document, or the command has a mark that says why none can.
func TestDocuments(t *testing.T) {
	t.Parallel()
	recordInputs(t)
	if err := inputs.Files(filepath.Join(checkout, "test/programs/gitops")); err != nil { // stories build it
		t.Fatal(err)
	}
	pages, err := documents.All(checkout)
	if err != nil {
		t.Fatal(err)
	}
	told := &telling{pages: pages}
	own := commands()
	own["page"] = told.page
	own["manifests"] = told.manifests
	own["kubernetes"] = kubernetes
	stories, err := filepath.Glob("testdata/documents/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	well := t.Run("stories", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Files: stories,
			Setup: func(env *testscript.Env) error {
				told.begin()
				return errors.Join(prepare(env), setStage(env), furnish(env))
			},
			Condition:          sizes,
			Cmds:               own,
			RequireUniqueNames: true,
		})
	})
	size.NeedsAll(t, "it needs every story of a document")
	if !well || told.begun < len(stories) {
		t.Skip("not all stories were told to their end, so what they run is not known")
	}
	for _, command := range told.untold() {
		t.Errorf("%s:%d: %q is run by no story of testdata/documents, and has no mark", command.Page, command.Line, command.Text)
	}
}

// furnish gives a story what a reader has: the folders of the checkout, helm, and the programs built by go.
func furnish(env *testscript.Env) error {
	helm, err := goSays("tool", "-modfile=tools/helm/go.mod", "-n", "helm")
	env.Setenv("PATH", filepath.Dir(helm)+string(filepath.ListSeparator)+env.Getenv("PATH"))
	errs := []error{err}
	for _, variable := range []string{"GOMODCACHE", "GOCACHE"} {
		value, err := goSays("env", variable)
		env.Setenv(variable, value)
		errs = append(errs, err)
	}
	for _, folder := range []string{"charts", "deploy", "hack"} {
		errs = append(errs, os.Symlink(filepath.Join(env.Getenv("ROOT"), folder), filepath.Join(env.WorkDir, folder)))
	}
	return errors.Join(errs...)
}

func goSays(args ...string) (string, error) {
	command := exec.Command("go", args...)
	command.Dir, command.Stderr = checkout, os.Stderr
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}

// telling records which commands of the documents the stories ran.
type telling struct {
	pages []documents.Page

	mu    sync.Mutex
	begun int
	told  []documents.Command
}

func (t *telling) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun++
}

// page FILE HEADING [WORD=VALUE]...: runs the commands directly below a heading of a document in one shell, with a
// value for each word that a reader replaces. It leaves out those with a mark.
func (t *telling) page(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: page FILE HEADING [WORD=VALUE]...")
	}
	commands := t.commands(args[0], args[1])
	if len(commands) == 0 {
		ts.Fatalf("%s has no section %q with commands that can be run", args[0], args[1])
	}
	var words []string
	for _, arg := range args[2:] {
		word, value, _ := strings.Cut(arg, "=")
		words = append(words, word, value)
	}
	script := "trap '{ set +x; kill $(jobs -p) || true; } 2>/dev/null' EXIT\nset -x\n"
	for _, command := range commands {
		script += command.Text + "\n"
	}
	if err := ts.Exec("bash", "-euo", "pipefail", "-c", strings.NewReplacer(words...).Replace(script)); err != nil {
		ts.Fatalf("%s, %s: %v", args[0], args[1], err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = append(t.told, commands...)
}

// manifests FILE: prints the objects that a document shows, those that begin with apiVersion.
func (t *telling) manifests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: manifests FILE")
	}
	out := ts.Stdout()
	for _, page := range t.pages {
		for _, block := range page.Blocks {
			if page.Path == args[0] && block.Language == "yaml" && strings.HasPrefix(block.Text, "apiVersion: ") {
				fmt.Fprintf(out, "---\n%s", block.Text)
			}
		}
	}
}

// commands are those of a section that a story can run.
func (t *telling) commands(path, section string) []documents.Command {
	var all []documents.Command
	for _, page := range t.pages {
		if page.Path != path {
			continue
		}
		for _, command := range page.Commands() {
			if command.Section == section && command.Mark == "" {
				all = append(all, command)
			}
		}
	}
	return all
}

// untold are the commands that no story ran and that have no mark.
func (t *telling) untold() []documents.Command {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []documents.Command
	for _, page := range t.pages {
		for _, command := range page.Commands() {
			if _, marked := documents.Marks[command.Mark]; !marked && !slices.Contains(t.told, command) {
				all = append(all, command)
			}
		}
	}
	return all
}
