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
