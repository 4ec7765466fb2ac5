// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/inputs"
)

const module = "github.com/multieni/multieni"

// root is the top folder of the checkout.
const root = "../.."

// pkg is the output of `go list` for a package.
type pkg struct {
	ImportPath    string
	Imports, Deps []string
}

// list returns the packages of the module and all their dependencies, without those of tests.
func list(t *testing.T) []pkg {
	t.Helper()
	if err := inputs.Sources(t.Context(), module+"/..."); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps", "./...")
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// source is one parsed file of ours.
type source struct {
	// path is slash-separated, relative to the top of the checkout.
	path string
	text string
	fset *token.FileSet
	file *ast.File
}

func (s source) dir() string { return filepath.ToSlash(filepath.Dir(s.path)) }

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// parse parses a Go file as if it were at the given path.
func parse(t *testing.T, file, path string) source {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := source{path: path, text: string(text), fset: token.NewFileSet()}
	if s.file, err = parser.ParseFile(s.fset, file, text, parser.ParseComments); err != nil {
		t.Fatal(err)
	}
	return s
}

// written returns a package of one file, as if it were in the given folder.
func written(t *testing.T, folder, file string) pkg {
	t.Helper()
	p := pkg{ImportPath: module + "/" + folder}
	for _, spec := range parse(t, file, folder+"/x.go").file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		p.Imports = append(p.Imports, imported)
	}
	return p
}

// tracked returns the paths of all files under version control, and of untracked ones that Git does not ignore.
func tracked(t *testing.T) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		t.Skipf("the files can be told from others only in a checkout: git ls-files: %v", err)
	}
	var paths []string
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		// A deleted file stays in the list until the deletion is committed.
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// sources returns the Go files that people wrote: neither generated files nor test data.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, path := range tracked(t) {
		if filepath.Ext(path) != ".go" || strings.Contains(path, "testdata/") {
			continue
		}
		if s := parse(t, filepath.Join(root, path), path); !ast.IsGenerated(s.file) {
			all = append(all, s)
		}
	}
	return all
}
