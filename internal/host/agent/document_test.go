// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// reasons returns the constants of a file that are reasons.
func reasons(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "reason") {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, reason)
		return true
	})
	return all
}

// The document for users explains every reason that they can see.
func TestEveryReasonIsDocumented(t *testing.T) {
	document, err := os.ReadFile("../../../docs/node-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../../../internal/core/hostnet/status.go", "../../../internal/core/hostpci/plan.go", "../../core/render/readiness.go"} {
		all := reasons(t, path)
		if len(all) == 0 {
			t.Errorf("%s has no reasons", path)
		}
		for _, reason := range all {
			if !strings.Contains(string(document), "`"+reason+"`") {
				t.Errorf("docs/node-agent.md does not explain %s of %s", reason, path)
			}
		}
	}
}
