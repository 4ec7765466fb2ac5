// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"os"
	"strings"
	"testing"
)

// TestTheCommandsOfTheDocument runs every command of docs/launch-time.md that needs no cluster.
func TestTheCommandsOfTheDocument(t *testing.T) {
	const root = "../../../"
	document, err := os.ReadFile(root + "docs/launch-time.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for line := range strings.Lines(string(document)) {
		words, is := strings.CutPrefix(line, "multieni launch-template ")
		if !is {
			continue
		}
		commands++
		arguments := strings.Fields(strings.ReplaceAll(words, "examples/", root+"examples/"))
		if out, _, err := run(t, "", arguments...); err != nil || out == "" {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	if commands < 7 {
		t.Errorf("only %d commands were found", commands)
	}
}
