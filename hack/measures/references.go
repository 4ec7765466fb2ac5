// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"go/ast"
	"maps"
	"slices"
)

// references counts the references between the files of one package. A file refers to another one if it uses a name
// that the other one declares, or calls a method whose name only the other one declares.
type references struct {
	files map[string]*ast.File
}

// add adds a file of the package.
func (r *references) add(name string, file *ast.File) {
	if r.files == nil {
		r.files = map[string]*ast.File{}
	}
	r.files[name] = file
}

// pairs returns, by file, the files that it refers to.
func (r *references) pairs() map[string]map[string]bool {
	plain, methods := map[string][]string{}, map[string][]string{}
	for name, file := range r.files {
		for declared := range file.Scope.Objects {
			plain[declared] = append(plain[declared], name)
		}
		for _, declaration := range file.Decls {
			if f, is := declaration.(*ast.FuncDecl); is && f.Recv != nil {
				methods[f.Name.Name] = append(methods[f.Name.Name], name)
			}
		}
	}
	pairs := map[string]map[string]bool{}
	for name, file := range r.files {
		pairs[name] = map[string]bool{}
		refers := func(declaredIn map[string][]string, used *ast.Ident) {
			if in := declaredIn[used.Name]; len(in) == 1 && in[0] != name {
				pairs[name][in[0]] = true
			}
		}
		for _, used := range file.Unresolved {
			refers(plain, used)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				if method, is := call.Fun.(*ast.SelectorExpr); is {
					refers(methods, method.Sel)
				}
			}
			return true
		})
	}
	return pairs
}

// count returns how many references there are, and how many of them go upward in the order of the files that has the
// fewest. The search moves one file at a time until no move helps.
func (r *references) count() (all, upward int) {
	pairs := r.pairs()
	for _, to := range pairs {
		all += len(to)
	}
	names := slices.Sorted(maps.Keys(pairs))
	order := slices.SortedStableFunc(slices.Values(names), func(a, b string) int {
		return cmp.Compare(len(pairs[b]), len(pairs[a]))
	})
	upward = against(order, pairs)
	for improved := true; improved; {
		improved = false
		for _, name := range names {
			rest := slices.DeleteFunc(slices.Clone(order), func(other string) bool { return other == name })
			for at := range len(order) {
				moved := slices.Insert(slices.Clone(rest), at, name)
				if n := against(moved, pairs); n < upward {
					order, upward, improved = moved, n, true
				}
			}
		}
	}
	return all, upward
}

// against counts the references from a file to an earlier one in an order.
func against(order []string, pairs map[string]map[string]bool) (n int) {
	for at, name := range order {
		for _, earlier := range order[:at] {
			if pairs[name][earlier] {
				n++
			}
		}
	}
	return n
}
