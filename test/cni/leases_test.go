// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/multieni/multieni/internal/host/podcni"
	"github.com/multieni/multieni/internal/host/podlease"
)

// TestTwoLinksOfAPodToOneNetwork: the annotation of a pod can name one network twice.
func TestTwoLinksOfAPodToOneNetwork(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list, p := n.addressOnly("n3"), n.pod("twice")
	p.uid = "uid-1"
	first, second := n.mustAdd(list, p, "net1"), n.mustAdd(list, p, "net2")
	for i := range first.IPs {
		if first.IPs[i].Address.IP.Equal(second.IPs[i].Address.IP) {
			t.Errorf("both links have %v", first.IPs[i].Address)
		}
	}
	for _, l := range n.read("n3") {
		if l.PodUID != p.uid {
			t.Errorf("the lease of %v has the pod's UID %q", l.Address, l.PodUID)
		}
	}
	n.del(list, p, "net1")
	if err := n.check(list, p, "net2"); err != nil {
		t.Errorf("DEL of one link ends the leases of the other: %v", err)
	}
	if left := slices.Collect(maps.Keys(n.inUse("n3"))); len(left) != len(second.IPs) {
		t.Errorf("in use: %v", left)
	}
}

// TestAProgramThatDoesNotRunStopsNoOtherPod: the runtime does not read the answer of one call, and another process has
// the leases of the network locked.
func TestAProgramThatDoesNotRunStopsNoOtherPod(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.addressOnly("n3")
	blocked := ipamCommand(t, n, list, n.pod("blocked"))
	if err := blocked.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blocked.Process.Kill(); _ = blocked.Wait() }()
	eventually(t, "the lease of the blocked call", func() bool {
		files := n.leaseFiles("n3")
		return len(files) == 2
	})
	running := n.pod("running")
	n.mustAdd(list, running, "net1")
	t.Run("with the lock", func(t *testing.T) {
		store, err := podlease.Open(n.pods, "n3")
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		late := n.pod("late")
		var calls sync.WaitGroup
		var added, ended error
		calls.Go(func() { _, added = n.add(list, late, "net1") })
		calls.Go(func() { ended = n.end(list, running, "net1") })
		calls.Wait()
		for call, err := range map[string]error{"ADD": added, "DEL": ended} {
			if code(err) != tryAgainLater || !strings.Contains(fmt.Sprint(err), "fuser /run/multieni/pods/n3/lock") {
				t.Errorf("%s: code %d: %v", call, code(err), err)
			}
		}
	})
	n.del(list, running, "net1")
}

// TestADefinitionNamesNoFolder: the author of a definition has fewer rights on nodes than the program.
func TestADefinitionNamesNoFolder(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	others := t.TempDir()
	list := n.configuration("n3", fmt.Sprintf(
		`{"type": "multieni-ipam", "ipam": {"type": "multieni-ipam", "network": "n3", "networksDir": %q, "leasesDir": %q}}`, others, others))
	n.mustAdd(list, n.pod("a"), "net1")
	if entries, err := os.ReadDir(others); err != nil || len(entries) > 0 {
		t.Errorf("the folder of the definition has %v, %v", entries, err)
	}
	if len(n.inUse("n3")) != 2 {
		t.Errorf("in use: %v", n.inUse("n3"))
	}
}

// TestGarbageCollectionWithoutTheListEndsNothing: the list says which links exist, and all pods may run.
func TestGarbageCollectionWithoutTheListEndsNothing(t *testing.T) {
	const invalidConfiguration = 7
	n := newNode(t)
	n.write(network("n3", 4, 1))
	n.mustAdd(n.addressOnly("n3"), n.pod("a"), "net1")
	for _, tc := range []struct {
		name, list string
		code       uint
		inUse      int
	}{
		{"no list", "", invalidConfiguration, 2},
		{"an empty list", `, "cni.dev/valid-attachments": []`, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), filepath.Join(n.programs[0], "multieni-ipam"))
			command.Env = []string{"CNI_COMMAND=GC", "CNI_PATH=/", podcni.PodsVariable + "=" + n.pods}
			command.Stdin = strings.NewReader(fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "n3", "type": "multieni-ipam", "ipam": %s%s}`, n.ipam("n3"), tc.list))
			answer, err := command.Output()
			var fault types.Error
			if failed := err != nil; failed != (tc.code != 0) || failed && json.Unmarshal(answer, &fault) != nil || fault.Code != tc.code {
				t.Errorf("%v: %s; want code %d", err, answer, tc.code)
			}
			if used := n.inUse("n3"); len(used) != tc.inUse {
				t.Errorf("in use: %v, want %d", used, tc.inUse)
			}
		})
	}
}

// TestFilesOfACompromisedAgent: the agent can write the folder, and must neither reach other files of the host nor
// stop the program.
func TestFilesOfACompromisedAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(n *node, outside string) error
		added   bool
	}{
		"a link in place of a draft": {func(n *node, outside string) error {
			return os.Symlink(outside, filepath.Join(n.folder("n3"), ".10.0.4.16.json.new"))
		}, true},
		"a link in place of the folder": {func(n *node, outside string) error {
			return errors.Join(os.RemoveAll(filepath.Join(n.pods, "n3")), os.Symlink(filepath.Dir(outside), filepath.Join(n.pods, "n3")))
		}, false},
		"a link in place of the folder of the interface": {func(n *node, outside string) error {
			folder := n.folder("n3")
			return errors.Join(os.RemoveAll(folder), os.Symlink(filepath.Dir(outside), folder))
		}, false},
		"a pipe as the file of the network": {func(n *node, _ string) error {
			path := n.file("n3")
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		}, false},
		"an endless file of the network": {func(n *node, _ string) error {
			path := n.file("n3")
			return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path))
		}, false},
		"a pipe as a lease": {func(n *node, _ string) error {
			return syscall.Mkfifo(filepath.Join(n.folder("n3"), "10.0.4.16.json"), 0o600)
		}, true},
		"a pipe as the lock": {func(n *node, _ string) error {
			lock := filepath.Join(n.pods, "n3", "lock")
			return errors.Join(os.Remove(lock), syscall.Mkfifo(lock, 0o600))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.write(network("n3", 4, 1))
			outside := filepath.Join(t.TempDir(), "kubelet-config")
			err := os.WriteFile(outside, []byte("of the host"), 0o600)
			if err := errors.Join(err, tc.prepare(n, outside)); err != nil {
				t.Fatal(err)
			}
			if _, err := n.add(n.addressOnly("n3"), n.pod("a"), "net1"); (err == nil) != tc.added {
				t.Errorf("ADD: %v; want success: %t", err, tc.added)
			}
			entries, err := os.ReadDir(filepath.Dir(outside))
			text, failure := os.ReadFile(outside)
			if err = errors.Join(err, failure); err != nil || len(entries) != 1 || string(text) != "of the host" {
				t.Errorf("the folder of the host has %v, its file %q, %v", entries, text, err)
			}
		})
	}
}

// TestPodsEndWhileTheDiskIsFull: the kubelet ends pods to free the disk.
func TestPodsEndWhileTheDiskIsFull(t *testing.T) {
	n := newNode(t)
	if err := syscall.Mount("tmpfs", n.pods, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(n.pods, syscall.MNT_DETACH) })
	n.write(network("n3", 4, 1))
	list, p := n.addressOnly("n3"), n.pod("a")
	n.mustAdd(list, p, "net1")
	data, err := os.Create(filepath.Join(n.pods, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	for err == nil {
		_, err = data.Write(make([]byte, 512))
	}
	n.del(list, p, "net1")
	if used := n.inUse("n3"); len(used) > 0 {
		t.Errorf("in use: %v", used)
	}
	if _, err := n.add(list, n.pod("b"), "net1"); err == nil {
		t.Error("a pod starts without a lease")
	}
	if err := os.Remove(data.Name()); err != nil {
		t.Fatal(err)
	}
	_ = data.Close()
	third := n.pod("c")
	n.mustAdd(list, third, "net1")
	if err := syscall.Mount("", n.pods, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=256k"); err != nil {
		t.Fatal(err)
	}
	n.del(list, third, "net1")
	n.del(list, n.pod("d"), "net1") // without leases
}
