// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command simulated writes the reference of the simulated AWS from its dispatch table and its sources:
//
//	go run ./hack/simulated
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/awssim"
)

// page is the reference, from the root of the module.
const page = "awssim/REFERENCE.md"

func main() {
	content, err := generate(".")
	if err == nil {
		err = os.WriteFile(page, content, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulated:", err)
		os.Exit(1)
	}
}

// generate returns the content of the page.
func generate(root string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`<!-- Written by hack/simulated; do not edit. -->

# Reference of the simulated AWS

awssim answers the actions below, with these parameters and filters, and refuses all others by name. ` + "`.N`" + ` marks
a list, and braces have the members of a structure. Each action of EC2 that changes something takes ` + "`DryRun`" + ` where EC2 has it.
`)
	for _, a := range awssim.Actions() {
		if !strings.Contains(b.String(), "\n## "+a.Service+"\n") {
			fmt.Fprintf(&b, "\n## %s\n", a.Service)
		}
		fmt.Fprintf(&b, "\n### %s\n\n", a.Name)
		fmt.Fprintln(&b, list("Parameters", a.Parameters))
		if len(a.Filters) > 0 {
			fmt.Fprintf(&b, "\n%s\n", list("Filters", a.Filters))
		}
	}
	b.WriteString("\n## Error codes\n\nFaults can return any other code.\n")
	for _, of := range []struct{ service, folder string }{
		{"EC2", "ec2"}, {"Auto Scaling", "autoscaling"}, {"SQS", "sqs"}, {"EventBridge", "events"},
		{"Systems Manager", "ssm"},
		{"all services", "."},
	} {
		codes, err := codesIn(filepath.Join(root, "awssim", of.folder))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n%s\n", list(of.service, codes))
	}
	return b.Bytes(), nil
}

// list is names as code, in lines of up to width characters after the label.
func list(label string, names []string) string {
	text := label + ": none"
	if len(names) > 0 {
		text = label + ": `" + strings.Join(names, "`, `") + "`"
	}
	const width = 120
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+len(word) >= width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}

// code matches an error code of AWS.
var code = regexp.MustCompile(`^[A-Z][A-Za-z]+(\.[A-Z][A-Za-z]+)*$`)

// codesIn returns the error codes in the sources of a package: texts that are an argument of a function that makes an
// error, or the member Code of one.
func codesIn(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var codes []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, e := range codeArguments(n) {
				if text, err := strconv.Unquote(literal(e)); err == nil && code.MatchString(text) {
					codes = append(codes, text)
				}
			}
			return true
		})
	}
	slices.Sort(codes)
	return slices.Compact(codes), nil
}

// codeArguments returns the expressions in a node that can be an error code.
func codeArguments(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		if slices.Contains([]string{"refuse", "refusal", "New"}, nameOf(n.Fun)) {
			return n.Args[:min(2, len(n.Args))]
		}
	case *ast.CompositeLit:
		if nameOf(n.Type) != "Error" {
			return nil
		}
		for _, member := range n.Elts {
			if pair, ok := member.(*ast.KeyValueExpr); ok && nameOf(pair.Key) == "Code" {
				return []ast.Expr{pair.Value}
			}
		}
	}
	return nil
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		return l.Value
	}
	return ""
}

// nameOf is the name of a function, a type or a member, without its package.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}
