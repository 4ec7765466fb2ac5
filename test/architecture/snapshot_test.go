// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture_test

import (
	"fmt"
	"go/ast"
	"slices"
)

// immutable are the types of the node controller whose values do not change after construction. A function that returns
// a changed value changes a copy.
var immutable = []string{"snapshot", "registration", "reconciled"}

// changedSnapshots finds writes to fields of immutable values that a function received.
func changedSnapshots(s source) []string {
	if s.dir() != "internal/controller/node" || s.isTest() {
		return nil
	}
	var found []string
	for _, f := range functions(s) {
		received := parametersOf(f, immutable)
		check := func(target ast.Expr) {
			name, isField := rootOf(target)
			if isField && slices.Contains(received, name) {
				found = append(found, fmt.Sprintf("line %d changes %s", s.line(target.Pos()), name))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					check(left)
				}
			case *ast.IncDecStmt:
				check(n.X)
			case *ast.CallExpr:
				if called, is := n.Fun.(*ast.Ident); is && (called.Name == "delete" || called.Name == "clear") {
					check(n.Args[0])
				}
			}
			return true
		})
	}
	return found
}

// parametersOf returns the names of a function's receiver and parameters of some types, or of pointers to them.
func parametersOf(f *ast.FuncDecl, types []string) (names []string) {
	fields := slices.Clone(f.Type.Params.List)
	if f.Recv != nil {
		fields = append(fields, f.Recv.List...)
	}
	for _, field := range fields {
		of := field.Type
		if pointer, is := of.(*ast.StarExpr); is {
			of = pointer.X
		}
		if name, is := of.(*ast.Ident); is && slices.Contains(types, name.Name) {
			for _, n := range field.Names {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// rootOf returns the variable that an expression is part of, and whether the expression is a field of it, or in a field.
func rootOf(e ast.Expr) (name string, isField bool) {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e, isField = x.X, true
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.Ident:
			return x.Name, isField
		default:
			return "", false
		}
	}
}
