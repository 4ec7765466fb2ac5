// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command measures measures a checkout of the project, so that two checkouts are compared by the same definitions:
//
//   - product lines: lines of Go that is neither a test nor generated, outside the simulated AWS, the development
//     cluster, hack, test and tools;
//   - pure share: the part of the product lines of internal that is in internal/core;
//   - facts of the planner: the fields of plan.Facts, or of plan.Observed in a checkout that has no plan.Facts;
//   - references in plan: from one file of the planner to another one, by a name that it uses;
//   - upward: those of them that go against the order of the files that has the fewest;
//   - kinds of state in memory: the rows of the first table of docs/restart.md, about the reconcilers of interfaces;
//   - times of the pods' protocol: constants of internal/core/podnet that are durations;
//   - lines of tests: of files that end in _test.go, and of the folder test.
//
// Each argument is a folder with a checkout; without one it measures the working directory.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "measures:", err)
		os.Exit(1)
	}
}

// run prints a table with a column for each folder.
func run(folders []string, to io.Writer) error {
	if len(folders) == 0 {
		folders = []string{"."}
	}
	all := make([]measures, len(folders))
	for n, folder := range folders {
		var err error
		if all[n], err = measure(os.DirFS(folder)); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	names := make([]string, len(folders))
	for n, folder := range folders {
		names[n] = filepath.Base(folder)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(append([]string{"measure"}, names...), "\t"))
	for _, row := range rows {
		cells := []string{row.name}
		for _, m := range all {
			cells = append(cells, row.cell(m))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// measures are the measures of one checkout.
type measures struct {
	files, lines   int
	internal, core int
	facts          int
	references     references
	states         int
	podTimes       int
	tests          int
}

// rows are the rows of the table.
var rows = []struct {
	name string
	cell func(measures) string
}{
	{"files of the product", func(m measures) string { return fmt.Sprint(m.files) }},
	{"lines of the product", func(m measures) string { return fmt.Sprint(m.lines) }},
	{"lines of internal", func(m measures) string { return fmt.Sprint(m.internal) }},
	{"lines of internal/core", func(m measures) string { return fmt.Sprint(m.core) }},
	{"pure share", func(m measures) string {
		return fmt.Sprintf("%.1f %%", 100*float64(m.core)/float64(max(1, m.internal)))
	}},
	{"facts of the planner", func(m measures) string { return fmt.Sprint(m.facts) }},
	{"references in plan, upward", func(m measures) string {
		all, upward := m.references.count()
		return fmt.Sprintf("%d, %d", all, upward)
	}},
	{"kinds of state in memory", func(m measures) string { return fmt.Sprint(m.states) }},
	{"times of the pods' protocol", func(m measures) string { return fmt.Sprint(m.podTimes) }},
	{"lines of tests", func(m measures) string { return fmt.Sprint(m.tests) }},
	{"lines of tests per line", func(m measures) string {
		return fmt.Sprintf("%.2f", float64(m.tests)/float64(max(1, m.lines)))
	}},
}

// notProduct are the folders whose code is no part of the product. Those of test are tests.
var notProduct = []string{"awssim", "internal/dev", "dev", "hack", "test", "tools", "examples"}

// Folders and a document that the program measures by more than their lines.
const (
	plannerFolder = "internal/core/plan"
	podsFolder    = "internal/core/podnet"
	stateDocument = "docs/restart.md"
)

func measure(tree fs.FS) (measures, error) {
	var m measures
	facts := map[string]int{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go" && name != stateDocument:
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if name == stateDocument {
			m.states = rowsOfFirstTable(string(content))
			return nil
		}
		if err := m.inspect(facts, name, content); err != nil {
			return err
		}
		return m.add(name, content)
	})
	if err != nil {
		return m, err
	}
	if m.files == 0 {
		return m, errors.New("it has no code of the product")
	}
	if m.facts = facts["Facts"]; m.facts == 0 {
		m.facts = facts["Observed"]
	}
	return m, nil
}

// add counts the lines of a file.
func (m *measures) add(name string, content []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	lines := strings.Count(string(content), "\n")
	switch {
	case ast.IsGenerated(file):
	case strings.HasSuffix(name, "_test.go") || within(name, "test"):
		m.tests += lines
	case slices.ContainsFunc(notProduct, func(folder string) bool { return within(name, folder) }):
	default:
		m.files++
		m.lines += lines
		if within(name, "internal") {
			m.internal += lines
		}
		if within(name, "internal/core") {
			m.core += lines
		}
	}
	return nil
}

func within(name, folder string) bool { return strings.HasPrefix(name, folder+"/") }

// inspect measures a file of the planner or of the pods' protocol by its syntax.
func (m *measures) inspect(facts map[string]int, name string, content []byte) error {
	folder := path.Dir(name)
	if folder != plannerFolder && folder != podsFolder || strings.HasSuffix(name, "_test.go") {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, content, 0)
	if err != nil {
		return err
	}
	if folder == podsFolder {
		m.podTimes += countTimes(file)
		return nil
	}
	countFields(facts, file)
	m.references.add(name, file)
	return nil
}

// countFields counts the fields of each struct type of a file.
func countFields(fields map[string]int, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isType := n.(*ast.TypeSpec)
		if !isType {
			return true
		}
		if of, isStruct := spec.Type.(*ast.StructType); isStruct {
			for _, field := range of.Fields.List {
				fields[spec.Name.Name] += max(1, len(field.Names)) // an embedded field has no name
			}
		}
		return false
	})
}

// countTimes counts the constants of a file that are durations.
func countTimes(file *ast.File) (n int) {
	for _, declaration := range file.Decls {
		group, is := declaration.(*ast.GenDecl)
		if !is || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				if usesTime(value) {
					n++
				}
			}
		}
	}
	return n
}

func usesTime(value ast.Expr) (uses bool) {
	ast.Inspect(value, func(n ast.Node) bool {
		identifier, is := n.(*ast.Ident)
		uses = uses || is && identifier.Name == "time"
		return true
	})
	return uses
}

// rowsOfFirstTable counts the rows of the first table of a document, without its header.
func rowsOfFirstTable(document string) (rows int) {
	for line := range strings.Lines(document) {
		switch isRow := strings.HasPrefix(line, "|"); {
		case isRow:
			rows++
		case rows > 0:
			return max(0, rows-2)
		}
	}
	return max(0, rows-2)
}
