// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// TestTheDocumentHasTheDriftTable keeps docs/launch-time.md from saying something else than the program does.
func TestTheDocumentHasTheDriftTable(t *testing.T) {
	document, err := os.ReadFile("../../../docs/launch-time.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, path := range slices.Sorted(maps.Keys(launchtemplate.Fields())) {
		f := launchtemplate.Fields()[path]
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", path, f.Class, f.Action)
	}
	if !strings.Contains(string(document), "| field | class | action |\n|---|---|---|\n"+rows.String()+"\n") {
		t.Errorf("docs/launch-time.md must have these rows, in this order:\n%s", rows.String())
	}
}
