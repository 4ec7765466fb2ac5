// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podlease_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// mine returns a lease of this boot in the network namespace of the test.
func mine(t *testing.T, address string) podnet.Lease {
	t.Helper()
	boot, err := podlease.ThisBoot(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l := lease(address)
	l.BootID = boot.ID
	if err := podlease.RecordNetns(&l.Holder, fmt.Sprintf("/proc/%d/ns/net", os.Getpid())); err != nil {
		t.Fatal(err)
	}
	return l
}

func files(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestTheNumberOfFilesFollowsThePods: a node that has run for long has no more files to read than its pods need.
func TestTheNumberOfFilesFollowsThePods(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.Put(eni, mine(t, "10.0.4.9")); err != nil {
		t.Fatal(err)
	}
	freed := mine(t, "10.1.0.0")
	freed.Freed = time.Now().Add(-10*time.Minute - time.Second)
	for range 500 {
		freed.Address = freed.Address.Next()
		if err := store.Put(eni, freed); err != nil {
			t.Fatal(err)
		}
	}
	freed.Address, freed.Freed = netip.MustParseAddr("10.0.4.10"), time.Now().Add(-time.Second)
	if err := store.Put(eni, freed); err != nil {
		t.Fatal(err)
	}
	all, err := store.Current(time.Now())
	if leases := leasesOf(all); err != nil || len(leases) != 2 {
		t.Errorf("the leases are %v, %v; want the one in use and the one at rest", leases, err)
	}
	if got, want := files(t, filepath.Join(dir, eniFolder)), 3; got != want { // with that of the network
		t.Errorf("%d files are left, want %d", got, want)
	}
}

// TestLeasesOfPodsThatAreGoneEnd: no runtime ends the leases of earlier boots and of sandboxes that it lost.
func TestLeasesOfPodsThatAreGoneEnd(t *testing.T) {
	folder := t.TempDir()
	for name, tc := range map[string]struct {
		change func(*podnet.Lease)
		ended  bool
	}{
		"a pod that runs":              {func(*podnet.Lease) {}, false},
		"a pod of an earlier boot":     {func(l *podnet.Lease) { l.BootID = "another" }, true},
		"a process that is gone":       {func(l *podnet.Lease) { l.Netns = "/proc/4194305/ns/net" }, true},
		"another namespace at a path":  {func(l *podnet.Lease) { l.NetnsID++ }, true},
		"a process of another machine": {func(l *podnet.Lease) { l.Netns, l.PIDNamespaceID = "/proc/4194305/ns/net", 1 }, false},
		"a process of no known PID namespace": {func(l *podnet.Lease) {
			l.Netns, l.PIDNamespaceID = "/proc/4194305/ns/net", 0
		}, false},
		"a namespace without its file":         {func(l *podnet.Lease) { l.Netns = filepath.Join(folder, "cni-1") }, true},
		"a namespace in a folder of the host":  {func(l *podnet.Lease) { l.Netns = filepath.Join(folder, "none", "cni-1") }, false},
		"a path that is no namespace":          {func(l *podnet.Lease) { l.Netns = "/proc/self/status" }, false},
		"a lease without a network namespace":  {func(l *podnet.Lease) { l.Netns, l.NetnsID = "", 0 }, false},
		"a namespace at a path without its ID": {func(l *podnet.Lease) { l.NetnsID = 0 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := open(t, dir)
			l := mine(t, "10.0.4.9")
			tc.change(&l)
			if err := store.Put(eni, l); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Current(time.Now()); err != nil {
				t.Fatal(err)
			}
			inUse := false
			for _, l := range read(t, store) {
				inUse = inUse || l.InUse()
			}
			if inUse == tc.ended {
				t.Errorf("in use: %t", inUse)
			}
		})
	}
}

// A folder that the host has removed stays in the container of the agent, without a name and empty.
func TestARemovedFolderProvesNothing(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "netns")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	kept, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	store := open(t, t.TempDir())
	l := mine(t, "10.0.4.9")
	l.Netns = fmt.Sprintf("/dev/fd/%d/cni-1", kept.Fd()) // a bind mount shows the folder in the same way
	if err := store.Put(eni, l); err != nil {
		t.Fatal(err)
	}
	if all, err := store.Current(time.Now()); err != nil || len(leasesOf(all)) != 1 || !leasesOf(all)[0].InUse() {
		t.Errorf("the leases are %v, %v; want one in use", all, err)
	}
}

// disk mounts a small disk, and returns its folder.
func disk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("needs root, to mount a small disk: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// TestPodsEndOnAFullDisk: a node whose disk is full frees space by ending pods.
func TestPodsEndOnAFullDisk(t *testing.T) {
	dir := disk(t)
	store := open(t, dir)
	l := mine(t, "10.0.4.9")
	if err := store.Put(eni, l); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 1024))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	l.Freed = time.Now()
	if err := store.End(eni, l); err != nil {
		t.Error(err)
	}
	if leases := read(t, store); len(leases) != 0 {
		t.Errorf("in use: %v", leases)
	}
	if got := files(t, filepath.Join(dir, eniFolder)); got != 1 {
		t.Errorf("%d files are left, want that of the network alone", got)
	}
}

// TestPodsEndOnAReadOnlyDisk: the lease stays there, and ends with the network namespace of its pod.
func TestPodsEndOnAReadOnlyDisk(t *testing.T) {
	dir := disk(t)
	store := open(t, dir)
	l := mine(t, "10.0.4.9")
	l.Netns = filepath.Join(dir, "cni-1") // gone
	if err := store.Put(eni, l); err != nil {
		t.Fatal(err)
	}
	store.Close()
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, "size=256k"); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	store, err := podlease.OpenPresent(t.Context(), dir, "n3")
	if err != nil {
		t.Fatal(err)
	}
	freed := l
	freed.Freed = time.Now()
	if err := store.End(eni, freed); err != nil {
		t.Error(err)
	}
	if all, err := store.Current(time.Now()); err != nil || len(leasesOf(all)) != 1 || leasesOf(all)[0].InUse() {
		t.Errorf("the leases are %v, %v; want one that ended", all, err)
	}
	store.Close()
	remount(0)
	if all, err := open(t, dir).Current(time.Now()); err != nil || len(leasesOf(all)) != 1 || leasesOf(all)[0].InUse() {
		t.Errorf("once the disk is writable the leases are %v, %v; want one that ended", all, err)
	}
}

// TestALockThatIsHeldEndsTheWait: one process that does not run must not stop the pods of the node.
func TestALockThatIsHeldEndsTheWait(t *testing.T) {
	dir := t.TempDir()
	held := open(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for what, open := range map[string]func(context.Context, string, string) (*podlease.Store, error){
		"OpenContext": podlease.OpenContext, "OpenPresent": podlease.OpenPresent,
	} {
		if store, err := open(ctx, dir, "n3"); !errors.Is(err, podlease.ErrLocked) {
			t.Errorf("%s: %v, %v; want ErrLocked", what, store, err)
		}
		if store, err := open(ctx, dir, "n4"); err == nil {
			store.Close()
		} else if !errors.Is(err, fs.ErrNotExist) || what == "OpenContext" {
			t.Errorf("%s of another network: %v", what, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "n4")); err != nil {
			t.Fatal(err)
		}
	}
	held.Close()
	store, err := podlease.OpenContext(ctx, dir, "n3") // one attempt
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
}

// TestAFolderIsRemovedUnderItsLock: a process that waits for the lock of a folder that another one removes gets a new
// folder, and no two processes have the leases of one network.
func TestAFolderIsRemovedUnderItsLock(t *testing.T) {
	dir := t.TempDir()
	first, err := podlease.Open(dir, "n3")
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan *podlease.Store)
	go func() {
		second, err := podlease.Open(dir, "n3")
		if err != nil {
			t.Error(err)
		}
		opened <- second
	}()
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	second := <-opened // the removed lock is no lock of the new folder
	if err := second.WriteNetwork(network(eni)); err != nil {
		t.Fatal(err)
	}
	if err := second.Put(eni, mine(t, "10.0.4.9")); err != nil {
		t.Fatal(err)
	}
	first.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := podlease.OpenContext(ctx, dir, "n3"); !errors.Is(err, podlease.ErrLocked) {
		t.Errorf("a third process has the leases too: %v", err)
	}
	second.Close()
	if networks, err := podlease.All(dir); err != nil || len(networks) != 1 {
		t.Errorf("the networks are %v, %v", networks, err)
	}
	if leases := read(t, open(t, dir)); len(leases) != 1 {
		t.Errorf("the leases are %v", leases)
	}
}
