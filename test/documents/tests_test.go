// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testInProse = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)")
	testInGo    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// TestNamedTestsExist checks that the tests that documents name exist: docs/security.md names the test for each threat.
func TestNamedTestsExist(t *testing.T) {
	exists := map[string]bool{}
	for _, path := range goFiles(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range testInGo.FindAllSubmatch(source, -1) {
			exists[string(match[1])] = true
		}
	}
	named := 0
	for _, page := range all(t) {
		for _, match := range testInProse.FindAllStringSubmatch(prose(page), -1) {
			named++
			if !exists[match[1]] {
				t.Errorf("%s names %s, and no such test exists", page.Path, match[1])
			}
		}
	}
	if named == 0 {
		t.Error("no document names a test, so this test reads the wrong text")
	}
}

// TestEachQuestionIsAnswered checks that each answer in docs/faq.md leads to the page or names the test that has more.
func TestEachQuestionIsAnswered(t *testing.T) {
	answers := 0
	for line := range strings.Lines(read(t, filepath.Join(root, "docs/faq.md"))) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 2 || !strings.HasSuffix(cells[0], "?") {
			continue
		}
		answers++
		if !strings.Contains(cells[1], "](") && !testInProse.MatchString(cells[1]) {
			t.Errorf("%q has the answer %q, which neither leads to a page nor names a test", cells[0], cells[1])
		}
	}
	if answers < 40 {
		t.Errorf("%d questions have an answer, want 40 or more", answers)
	}
}
