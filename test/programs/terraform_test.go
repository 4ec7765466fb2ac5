// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/size"
)

// Terraform creates a network with an instance, finds nothing to change afterwards, and removes it.
func TestTerraform(t *testing.T) {
	size.NeedsLong(t, "its waits take a minute at any speed")
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skipf("terraform is not installed: %v", err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/terraform")); err != nil {
		t.Fatal(err)
	}
	sim, environment := simulate(t, 20)
	terraform := func(arguments ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), "terraform", append([]string{"-chdir=" + dir}, arguments...)...)
		command.Env = append(environment, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_DATA_DIR="+filepath.Join(dir, "data"))
		return command
	}
	if out, err := terraform("init", "-input=false", "-no-color").CombinedOutput(); err != nil {
		t.Skipf("the AWS provider of Terraform cannot be installed: %v\n%s", err, out)
	}
	before := len(sim.State().VPCs)
	for _, arguments := range []string{"apply -auto-approve", "plan -detailed-exitcode", "destroy -auto-approve"} {
		if out, err := terraform(append(strings.Fields(arguments), "-input=false", "-no-color")...).CombinedOutput(); err != nil {
			t.Fatalf("terraform %s: %v\n%s", arguments, err, out)
		}
	}
	if after := len(sim.State().VPCs); after != before {
		t.Errorf("%d VPCs, want %d as before", after, before)
	}
}
