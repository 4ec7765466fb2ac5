// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents_test

import (
	"archive/zip"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/size"
)

// TestTheProgramsForNodesAreBuilt runs, unchanged, the documented commands that build the programs for other machines,
// in a folder with the files of a checkout. No story runs them, since they take half a minute with a warm cache.
func TestTheProgramsForNodesAreBuilt(t *testing.T) {
	size.NeedsAll(t, "it compiles the programs for another processor")
	if _, err := exec.LookPath("zip"); err != nil {
		t.Skip("needs zip, as the page does")
	}
	folder := t.TempDir()
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(checkout)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(checkout, entry.Name()), filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	script := "set -eu\n"
	for _, page := range all(t) {
		for _, command := range page.Commands() {
			if page.Path == "docs/multus-node-groups.md" && command.Mark == "minutes" {
				script += command.Text + "\n"
			}
		}
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", script)
	shell.Dir = folder
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s%v\n%s", script, err, out)
	}
	for _, program := range []string{"bootstrap", "eni-bootstrap"} {
		file, err := elf.Open(filepath.Join(folder, program))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if libraries, err := file.ImportedLibraries(); file.Machine != elf.EM_AARCH64 || err != nil || len(libraries) > 0 {
			t.Errorf("%s is for %s and needs %v, %v", program, file.Machine, libraries, err)
		}
	}
	archive, err := zip.OpenReader(filepath.Join(folder, "lifecycle-hook.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	// provided.al2023 starts the file of this name, which must be executable.
	if len(archive.File) != 1 || archive.File[0].Name != "bootstrap" || archive.File[0].Mode()&0o111 == 0 {
		t.Errorf("the archive holds %s", strings.TrimSpace(script))
	}
}
