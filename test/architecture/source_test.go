// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The limits of the house. Tables of test cases may be longer than a function otherwise should be.
const (
	maxFunction = 80
	maxFile     = 500
)

// habit is a rule on single files.
type habit struct {
	name   string
	reason string
	// breaks returns what breaks the habit, each with its line.
	breaks func(source) []string
	// example is a file in testdata that breaks it once when it lies in the given folder.
	example, in string
}

// habits are all rules on single files.
var habits = []habit{
	{
		name: "the core reads no clock", reason: "time comes in as data, so that a decision can be made again",
		breaks: clockReadings, example: "reads_the_clock.go", in: core + "/plan",
	},
	{
		name: "no init functions", reason: "importing a package has no effect",
		breaks: initFunctions, example: "has_init.go", in: "internal/executor",
	},
	{
		name: "only programs end the process", reason: "everything else returns its error to somebody who can clean up",
		breaks: exits, example: "exits.go", in: "internal/executor",
	},
	{
		name: "goroutines keep a panic to themselves", reason: "a panic in the work for one object ends the work for all; use internal/panics",
		breaks: unguarded, example: "unguarded.go", in: "internal/executor",
	},
	{
		name: "snapshots do not change", reason: "all parts of a reconciliation decide on the same facts; return a changed copy",
		breaks: changedSnapshots, example: "changes_snapshot.go", in: "internal/controller/node",
	},
	{
		name: "functions stay short", reason: fmt.Sprintf("a function over %d lines does more than one thing", maxFunction),
		breaks: longFunctions, example: "long_function.go", in: "internal/executor",
	},
	{
		name: "files stay short", reason: fmt.Sprintf("a file over %d lines has more than one subject", maxFile),
		breaks: longFiles, example: "long_file.go", in: "internal/executor",
	},
}

func TestHabits(t *testing.T) {
	all := sources(t)
	for _, h := range habits {
		t.Run(h.name, func(t *testing.T) {
			for _, s := range all {
				for _, found := range h.breaks(s) {
					t.Errorf("%s: %s: %s", s.path, found, h.reason)
				}
			}
		})
	}
}

func TestEveryHabitCanBeBroken(t *testing.T) {
	for _, h := range habits {
		t.Run(h.name, func(t *testing.T) {
			s := parse(t, filepath.Join("testdata", h.example), h.in+"/x.go")
			if found := h.breaks(s); len(found) != 1 {
				t.Errorf("found %d offences, want 1: %v", len(found), found)
			}
		})
	}
}

// clockReadings finds calls of package time that ask or wait for the time, in the core.
func clockReadings(s source) []string {
	if s.isTest() || !beneath(core)(s.dir()) {
		return nil
	}
	return calls(s, "time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker")
}

// exits finds what ends the process, outside package main and the main functions of tests.
func exits(s source) []string {
	if s.file.Name.Name == "main" || s.isTest() {
		return nil
	}
	return append(calls(s, "os", "Exit"), calls(s, "log", "Fatal", "Fatalf", "Fatalln")...)
}

// unguarded finds goroutines of the product in files that recover no panic. What needs none says why here.
func unguarded(s source) []string {
	product := beneath("cmd", "internal", "lib")(s.dir()) && !beneath("internal/dev")(s.dir()) && !s.isTest()
	exempt := []string{
		"internal/agent/api.go",                 // runs client-go's informers, which recover and report on their own
		"internal/cli/definitions.go",           // serves HTTP, and net/http recovers
		"internal/cli/enimanager/probes.go",     // the same
		"internal/cli/lifecyclehook/command.go", // what it runs recovers by message and by event
		"internal/controller/node/setup.go",     // moves names from channels to a queue
		"internal/netlink/host.go",              // what it runs recovers by event
		"internal/telemetry/catalog.go",         // lists metrics for documents
	}
	if !product || slices.Contains(exempt, s.path) || imports(s, "internal/panics") {
		return nil
	}
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, fmt.Sprintf("line %d starts a goroutine", s.line(n.Pos())))
		case *ast.CallExpr:
			if method, is := n.Fun.(*ast.SelectorExpr); is && method.Sel.Name == "Go" {
				found = append(found, fmt.Sprintf("line %d starts a goroutine", s.line(n.Pos())))
			}
		}
		return true
	})
	return found
}

func imports(s source, path string) bool {
	return slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return strings.HasSuffix(i.Path.Value, "/"+path+`"`) })
}

// calls finds uses of functions of a standard package, which we never rename.
func calls(s source, from string, functions ...string) []string {
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			name, isName := selector.X.(*ast.Ident)
			if isName && name.Name == from && slices.Contains(functions, selector.Sel.Name) {
				found = append(found, fmt.Sprintf("line %d uses %s.%s", s.line(n.Pos()), from, selector.Sel.Name))
			}
		}
		return true
	})
	return found
}

func initFunctions(s source) []string {
	var found []string
	for _, f := range functions(s) {
		if f.Name.Name == "init" && f.Recv == nil {
			found = append(found, fmt.Sprintf("line %d has an init function", s.line(f.Pos())))
		}
	}
	return found
}

func longFunctions(s source) []string {
	if s.isTest() {
		return nil
	}
	var found []string
	for _, f := range functions(s) {
		if lines := s.line(f.End()) - s.line(f.Pos()) + 1; lines > maxFunction {
			found = append(found, fmt.Sprintf("%s has %d lines", f.Name.Name, lines))
		}
	}
	return found
}

func longFiles(s source) []string {
	if lines := strings.Count(s.text, "\n"); lines > maxFile {
		return []string{fmt.Sprintf("%d lines", lines)}
	}
	return nil
}

func functions(s source) []*ast.FuncDecl {
	var all []*ast.FuncDecl
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			all = append(all, f)
		}
	}
	return all
}

// TestNoPackageLevelState looks for package-level variables that are written to after they were declared.
func TestNoPackageLevelState(t *testing.T) {
	packages := map[string][]source{}
	for _, s := range sources(t) {
		if !s.isTest() && s.file.Name.Name != "main" {
			packages[s.dir()] = append(packages[s.dir()], s)
		}
	}
	for _, files := range packages {
		for _, found := range mutations(files) {
			t.Errorf("%s: state that all users of a package share makes each depend on the others", found)
		}
	}
}

func TestPackageLevelStateIsFound(t *testing.T) {
	s := parse(t, "testdata/has_state.go", "internal/apply/x.go")
	if found := mutations([]source{s}); len(found) != 4 {
		t.Errorf("found %d writes, want 4: %v", len(found), found)
	}
}

// mutations finds assignments to, into and addresses taken of the package-level variables of one package.
func mutations(files []source) []string {
	variables := map[string]bool{}
	for _, s := range files {
		for _, d := range s.file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						variables[name.Name] = name.Name != "_"
					}
				}
			}
		}
	}
	var found []string
	for _, s := range files {
		for _, f := range functions(s) {
			local := declared(f)
			for _, target := range assigned(f) {
				if variables[target.Name] && !local[target.Name] {
					found = append(found, fmt.Sprintf("%s:%d writes to %s", s.path, s.line(target.Pos()), target.Name))
				}
			}
		}
	}
	return found
}

// assigned returns the variables that a function assigns to, into, or takes the address of.
func assigned(f *ast.FuncDecl) []*ast.Ident {
	var targets []*ast.Ident
	note := func(e ast.Expr) {
		if name := base(e); name != nil {
			targets = append(targets, name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, left := range n.Lhs {
					note(left)
				}
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				note(n.X)
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "delete" || name.Name == "clear") {
				note(n.Args[0])
			}
		}
		return true
	})
	return targets
}

// base returns the variable that an expression is a part of; nil when it is none.
func base(e ast.Expr) *ast.Ident {
	for {
		switch part := e.(type) {
		case *ast.Ident:
			return part
		case *ast.SelectorExpr:
			e = part.X
		case *ast.IndexExpr:
			e = part.X
		case *ast.StarExpr:
			e = part.X
		case *ast.ParenExpr:
			e = part.X
		default:
			return nil
		}
	}
}

// declared returns the names that a function declares itself, its parameters among them.
func declared(f *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	note := func(e ast.Expr) {
		if name, ok := e.(*ast.Ident); ok {
			names[name.Name] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				note(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				note(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					note(left)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				note(n.Key)
				note(n.Value)
			}
		}
		return true
	})
	return names
}

// header is how every file that has comments begins.
var header = []string{"Copyright The multieni Authors.", "SPDX-License-Identifier: Apache-2.0"}

// lacksHeader reports whether a file of a kind that has comments does not begin with the header.
func lacksHeader(path, text string) bool {
	comment := "# "
	switch {
	case strings.HasPrefix(path, "charts/") && strings.Contains(path, "/templates/"):
		// A comment that is rendered would make an object of a file that has none.
		return !strings.HasPrefix(text, "{{- /*\n"+header[0]+"\n"+header[1]+"\n*/ -}}\n")
	case filepath.Ext(path) == ".go":
		comment = "// "
	case slices.Contains([]string{".yaml", ".yml", ".sh"}, filepath.Ext(path)), slices.Contains([]string{"Makefile", "Dockerfile"}, filepath.Base(path)):
	default:
		return false
	}
	// Both of these must come first to be heeded.
	text = strings.TrimPrefix(text, "#!/bin/bash\n")
	text = strings.TrimPrefix(text, "//go:build !ignore_autogenerated\n\n")
	return !strings.HasPrefix(text, comment+header[0]+"\n"+comment+header[1]+"\n")
}

func TestEveryFileSaysWhoseItIs(t *testing.T) {
	for _, path := range tracked(t) {
		if strings.Contains(path, "testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if lacksHeader(path, string(text)) {
			t.Errorf("%s does not begin with the license header", path)
		}
	}
}

func TestAMissingHeaderIsFound(t *testing.T) {
	for path, text := range map[string]string{
		"a.go":                             "package a\n",
		"b.yaml":                           "# Copyright somebody else.\n# SPDX-License-Identifier: Apache-2.0\n",
		"c/Makefile":                       "\n# Copyright The multieni Authors.\n# SPDX-License-Identifier: Apache-2.0\n",
		"d.sh":                             "#!/bin/bash\necho\n",
		"charts/multieni/templates/e.yaml": "# Copyright The multieni Authors.\n# SPDX-License-Identifier: Apache-2.0\n",
	} {
		if !lacksHeader(path, text) {
			t.Errorf("%s passes", path)
		}
	}
}
