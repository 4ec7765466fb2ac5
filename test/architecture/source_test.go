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

// Limits of lines. A function with a table of test cases may be longer.
const (
	maxFunction = 80
	maxFile     = 500
)

// habit is a rule on single files.
type habit struct {
	name   string
	reason string
	// breaks returns the places that break the habit, with their lines.
	breaks func(source) []string
	// example is a file in testdata that breaks the habit once if it is in the given folder.
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
		breaks: initFunctions, example: "has_init.go", in: "internal/aws/executor",
	},
	{
		name: "only programs end the process", reason: "everything else returns its error to somebody who can clean up",
		breaks: exits, example: "exits.go", in: "internal/aws/executor",
	},
	{
		name: "goroutines keep a panic to themselves", reason: "a panic in the work for one object ends the work for all; use internal/base/panics",
		breaks: unguarded, example: "unguarded.go", in: "internal/aws/executor",
	},
	{
		name: "our suites see a world that lags", reason: "set Behavior to ec2.LaggingBehavior, which hides every change at first",
		breaks: kindWorlds, example: "kind_world.go", in: "test/hostile",
	},
	{
		name: "mutexes say what they guard", reason: "a reader cannot find out which fields a lock belongs to; write a comment with the word guards",
		breaks: silentMutexes, example: "silent_mutex.go", in: "internal/aws/executor",
	},
	{
		name: "functions stay short", reason: fmt.Sprintf("a function over %d lines does more than one thing", maxFunction),
		breaks: longFunctions, example: "long_function.go", in: "internal/aws/executor",
	},
	{
		name: "files stay short", reason: fmt.Sprintf("a file over %d lines has more than one subject", maxFile),
		breaks: longFiles, example: "long_file.go", in: "internal/aws/executor",
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

// clockReadings finds calls of package time in the core that read the clock or wait.
func clockReadings(s source) []string {
	if s.isTest() || !beneath(core)(s.dir()) {
		return nil
	}
	return calls(s, "time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker")
}

// exits finds calls that end the process outside package main and the main functions of tests.
func exits(s source) []string {
	if s.file.Name.Name == "main" || s.isTest() || s.dir() == "test/inputs" {
		return nil
	}
	return append(calls(s, "os", "Exit"), calls(s, "log", "Fatal", "Fatalf", "Fatalln")...)
}

// unguarded finds goroutines of the product that recover no panic. In a file with an exemption it finds all, if their
// number differs from that of the exemption.
func unguarded(s source) []string {
	product := beneath("cmd", "internal", "lib")(s.dir()) && !beneath("internal/dev")(s.dir()) && !s.isTest()
	exempt := map[string]int{
		"internal/host/agent/api.go":              2, // run client-go's informers, which recover and report on their own
		"internal/host/agent/follow.go":           1, // runs such an informer too
		"internal/host/agent/loop.go":             2, // wait in files of their own: api.go, which is above, and metadata.go, which recovers
		"internal/cli/definitions.go":             1, // serves HTTP, and net/http recovers
		"internal/cli/enimanager/probes.go":       1, // the same
		"internal/cli/lifecyclehook/command.go":   3, // what they run recovers by message and by event
		"internal/controller/instance/setup.go":   1, // moves names from channels to a queue
		"internal/controller/instance/workers.go": 1, // runs what trailing gives it in the same file, which recovers
		"internal/controller/nodeeni/setup.go":    1, // moves names to a queue
		"internal/aws/executor/pipeline.go":       2, // what they run recovers by interface, in Pipeline.one
		"internal/host/netlink/host.go":           1, // what it runs recovers by event
		"internal/cli/telemetry/catalog.go":       1, // lists metrics for documents
	}
	if !product {
		return nil
	}
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if work := goroutine(n); work != nil && !recovers(s, work) {
			found = append(found, fmt.Sprintf("line %d starts a goroutine that recovers no panic", s.line(n.Pos())))
		}
		return true
	})
	switch left := len(found) - exempt[s.path]; {
	case left == 0:
		return nil
	case left < 0:
		return []string{fmt.Sprintf("exempts %d goroutines more than it starts", -left)}
	}
	return found
}

// goroutine returns what a go statement, or the method Go of a group, runs concurrently with its caller. Of other nodes it returns nil.
func goroutine(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.GoStmt:
		return n.Call
	case *ast.CallExpr:
		if method, is := n.Fun.(*ast.SelectorExpr); is && method.Sel.Name == "Go" && len(n.Args) == 1 {
			return n.Args[0]
		}
	}
	return nil
}

// recovers reports whether work calls panics.AsError, directly or in a function of the same file that it names.
func recovers(s source, work ast.Node) bool {
	found := mentions(work, "AsError")
	ast.Inspect(work, func(n ast.Node) bool {
		name, is := n.(*ast.Ident)
		found = found || is && (slices.ContainsFunc(s.file.Decls, func(d ast.Decl) bool {
			function, is := d.(*ast.FuncDecl)
			return is && function.Name.Name == name.Name && mentions(function, "AsError")
		}))
		return true
	})
	return found
}

// silentMutexes finds mutex fields of the product whose comment does not say what they guard.
func silentMutexes(s source) []string {
	if !beneath("cmd", "internal", "lib")(s.dir()) || beneath("internal/dev")(s.dir()) || s.isTest() {
		return nil
	}
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		field, is := n.(*ast.Field)
		if !is {
			return true
		}
		kind, is := field.Type.(*ast.SelectorExpr)
		isMutex := is && mentions(kind.X, "sync") && (kind.Sel.Name == "Mutex" || kind.Sel.Name == "RWMutex")
		if isMutex && !strings.Contains(field.Doc.Text(), "guards") {
			found = append(found, fmt.Sprintf("line %d has a mutex without a comment that says what it guards", s.line(n.Pos())))
		}
		return true
	})
	return found
}

// kindWorlds finds simulated AWS accounts with the default behavior in the suites that run multieni against faults.
func kindWorlds(s source) []string {
	if !beneath("test/bench", "test/hostile", "test/scenario", "test/simulation", "test/synctest")(s.dir()) {
		return nil
	}
	found := calls(s, "ec2", "DefaultBehavior")
	ast.Inspect(s.file, func(n ast.Node) bool {
		literal, is := n.(*ast.CompositeLit)
		if !is {
			return true
		}
		kind, is := literal.Type.(*ast.SelectorExpr)
		if is && kind.Sel.Name == "Options" && mentions(kind.X, "awssim") && !setsField(literal, "Behavior") {
			found = append(found, fmt.Sprintf("line %d simulates an AWS that lags as seldom as EC2", s.line(n.Pos())))
		}
		return true
	})
	return found
}

func setsField(literal *ast.CompositeLit, name string) bool {
	return slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
		pair, is := e.(*ast.KeyValueExpr)
		return is && mentions(pair.Key, name)
	})
}

// mentions reports whether a name is used beneath a node of the syntax.
func mentions(beneath ast.Node, name string) bool {
	found := false
	ast.Inspect(beneath, func(n ast.Node) bool {
		used, is := n.(*ast.Ident)
		found = found || is && used.Name == name
		return true
	})
	return found
}

// calls finds uses of functions of a standard package. We never import one under another name.
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

// declared returns the names that a function declares, including its parameters.
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
		// A rendered comment would turn a file without objects into an object.
		return !strings.HasPrefix(text, "{{- /*\n"+header[0]+"\n"+header[1]+"\n*/ -}}\n")
	case filepath.Ext(path) == ".go":
		comment = "// "
	case slices.Contains([]string{".yaml", ".yml", ".sh"}, filepath.Ext(path)), slices.Contains([]string{"Makefile", "Dockerfile"}, filepath.Base(path)):
	default:
		return false
	}
	// Both of these must be at the beginning of a file to take effect.
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
