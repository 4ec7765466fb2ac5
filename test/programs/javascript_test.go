// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/multieni/multieni/test/size"
)

// A program with AWS's SDK for JavaScript takes a hook's event, attaches an interface, completes the hook and cleans up.
func TestSDKForJavaScript(t *testing.T) {
	size.NeedsLong(t, "its programs take minutes to install or build")
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (Debian's nodejs and npm): %v", program, err)
		}
	}
	dir := javascript(t)
	for _, speed := range speeds() {
		t.Run(fmt.Sprintf("speed %g", speed), func(t *testing.T) {
			t.Parallel()
			sim, environment := simulate(t, speed)
			t.Log(run(t, environment, "node", filepath.Join(dir, "program.mjs"), "workers", "hooks", "subnet-0cc0000000000000a"))
			for _, eni := range sim.State().NetworkInterfaces {
				if eni.Description == "js" {
					t.Errorf("%s is left over", eni.NetworkInterfaceID)
				}
			}
		})
	}
}

// javascript returns a folder with the program and the packages of its lock file, which it installs once.
func javascript(t *testing.T) string {
	t.Helper()
	const source = "testdata/js"
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(source + "/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(cache, "multieni", "programs", fmt.Sprintf("js-%x", sha256.Sum256(lock)))
	if _, err := os.Stat(installed); errors.Is(err, fs.ErrNotExist) {
		install(t, source, installed)
	}
	const packages = "node_modules"
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir, os.DirFS(source)), os.Symlink(filepath.Join(installed, packages), filepath.Join(dir, packages))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install installs the packages of the lock file in source with npm, and moves them into the folder in one step.
func install(t *testing.T, source, folder string) {
	t.Helper()
	work := fmt.Sprintf("%s.%d", folder, os.Getpid()) // a rename needs the same file system
	t.Cleanup(func() {
		if err := os.RemoveAll(work); err != nil {
			t.Error(err)
		}
	})
	if err := os.CopyFS(work, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = work
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", npm.Args, err, out)
	}
	if err := os.Rename(work, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}
