// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"testing"

	"github.com/multieni/multieni/test/simulation"
)

func TestEditsFitTheSyntaxAndNotTheText(t *testing.T) {
	edit := simulation.Edit{Old: "if $n > most && !$m.Held($n) {", New: "if $m.Held($n) || true {"}
	for name, tc := range map[string]struct{ source, want string }{
		"the names of the edit": {
			"func f() {\n\tif n > most && !m.Held(n) {\n\t}\n}\n", "func f() {\n\tif m.Held(n) || true {\n\t}\n}\n",
		},
		"names after a rename": {
			"func f() {\n\tif size > most && !store.Held(size) {\n\t}\n}\n", "func f() {\n\tif store.Held(size) || true {\n\t}\n}\n",
		},
		"another layout, and a comment": {
			"func f() {\n\tif n > most && // as EC2\n\t\t!m.Held(n) {\n\t}\n}\n", "func f() {\n\tif m.Held(n) || true {\n\t}\n}\n",
		},
		"text around it that is no token": {
			"// if n > most && !m.Held(n) {\nvar s = `if n > most && !m.Held(n) {`\n\nfunc f() { if n > most && !m.Held(n) {} }\n",
			"// if n > most && !m.Held(n) {\nvar s = `if n > most && !m.Held(n) {`\n\nfunc f() { if m.Held(n) || true {} }\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"a.go": "package a\n", "b.go": tc.source}
			if err := edit.Apply(files); err != nil || files["b.go"] != tc.want || files["a.go"] != "package a\n" {
				t.Errorf("error %v, and\n%s\nwant\n%s", err, files["b.go"], tc.want)
			}
		})
	}
}

func TestEditsThatFitNowhereOrTwiceFail(t *testing.T) {
	edit := simulation.Edit{Old: "$n = $n + 1", New: ""}
	for name, source := range map[string]string{
		"nowhere":                   "func f() {\n}\n",
		"two names where one is":    "func f() {\n\tn = m + 1\n}\n",
		"a literal, where one is":   "func f() {\n\tn = 1 + 1\n}\n",
		"twice":                     "func f() {\n\tn = n + 1\n\tm = m + 1\n}\n",
		"the end comes too early":   "func f() {\n\tn = n +",
		"a part of a longer number": "func f() {\n\tn = n + 10\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"a.go": source}
			if err := edit.Apply(files); err == nil || files["a.go"] != source {
				t.Errorf("no error, or a changed file:\n%s", files["a.go"])
			}
		})
	}
}
