// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/multieni/multieni/internal/dev/nodenet"
	"github.com/multieni/multieni/test/inputs"
)

// earlierProgram builds multieni-cni as a release that knows version 1 of the files of networks. It returns the folder in
// which the program is installed.
func earlierProgram(t *testing.T) string {
	t.Helper()
	if os.Getenv(guestPrograms) != "" {
		t.Skip("this machine has no compiler")
	}
	dir, source := t.TempDir(), filepath.Join("..", "..", "internal", "core", "podnet", "network.go")
	content, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	const now, before = "NetworkVersion = 2", "NetworkVersion = 1"
	if strings.Count(text, now) != 1 {
		t.Fatalf("%s has %q %d times", source, now, strings.Count(text, now))
	}
	text = strings.Replace(text, now, before, 1)
	absolute, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	replaced, overlay := filepath.Join(dir, "network.go"), filepath.Join(dir, "overlay.json")
	instructions, err := json.Marshal(map[string]map[string]string{"Replace": {absolute: replaced}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{replaced: text, overlay: string(instructions)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "multieni-cni")
	if err := inputs.Build(t.Context(), program, "../../cmd/multieni-cni", "-overlay", overlay, "-ldflags", "-s -w"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "install", dir).CombinedOutput(); err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	return dir
}

// Programs of two releases run on one node while its agent is upgraded, and after a return to the earlier release.
func TestProgramsOfTwoReleases(t *testing.T) {
	folder := earlierProgram(t)
	twoReleases := func(t *testing.T) (n *node, earlier *libcni.CNIConfig) {
		n = newNode(t)
		return n, libcni.NewCNIConfigWithCacheDir([]string{folder, n.programs[1]}, t.TempDir(),
			nodenet.Execution(n.pods, os.Stderr))
	}

	t.Run("the earlier one refuses the file of a later release", func(t *testing.T) {
		n, earlier := twoReleases(t)
		n.write(network("n3", 4, 1))
		n.runtime = earlier
		_, err := n.add(n.addressOnly("n3"), n.pod("late"), "net1")
		if code(err) != tryAgainLater {
			t.Errorf("code %d: %v", code(err), err)
		}
		for _, want := range []string{"later release than multieni-ipam", "version 2", "eni-n3", "delete the agent's pod on node node-1"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		n.links.Do(func() { err = n.runtime.GetStatusNetworkList(t.Context(), n.addressOnly("n3")) })
		if code(err) != 50 {
			t.Errorf("STATUS: code %d: %v", code(err), err)
		}
		if used := n.inUse("n3"); len(used) > 0 {
			t.Errorf("addresses in use: %v", used)
		}
	})
	t.Run("the earlier one ends a pod of the later one", func(t *testing.T) {
		n, earlier := twoReleases(t)
		n.write(network("n3", 4, 1))
		a := n.pod("a")
		n.mustAdd(n.addressOnly("n3"), a, "net1")
		n.runtime = earlier
		n.del(n.addressOnly("n3"), a, "net1")
		if used := n.inUse("n3"); len(used) > 0 {
			t.Errorf("addresses in use: %v", used)
		}
	})
	t.Run("a pod of a release to come ends", func(t *testing.T) {
		n := newNode(t)
		n.write(network("n3", 4, 1))
		a := n.pod("a")
		n.mustAdd(n.addressOnly("n3"), a, "net1")
		files := n.leaseFiles("n3")
		if len(files) == 0 {
			t.Fatal("no leases")
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			to := strings.Replace(string(content), `"version": 1,`, `"version": 7, "toCome": {},`, 1)
			if err := os.WriteFile(file, []byte(to), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n.del(n.addressOnly("n3"), a, "net1")
		if used := n.inUse("n3"); len(used) > 0 {
			t.Errorf("addresses in use: %v", used)
		}
	})
}
