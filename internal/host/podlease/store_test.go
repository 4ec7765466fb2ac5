// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package podlease_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

var (
	now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// addresses compares values of net/netip, which have unexported fields.
	addresses = cmpopts.EquateComparable(netip.Addr{})
)

func lease(address string) podnet.Lease {
	return podnet.Lease{
		Address: netip.MustParseAddr(address), Since: now,
		Holder: podnet.Holder{ContainerID: "c", Interface: "net1", BootID: "b"},
	}
}

func open(t *testing.T, dir string) *podlease.Store {
	t.Helper()
	store, err := podlease.Open(dir, "n3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func read(t *testing.T, store *podlease.Store) []podnet.Lease {
	t.Helper()
	leases, err := store.Leases()
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

func TestLeasesOutliveTheProgram(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	want := []podnet.Lease{lease("10.0.4.9"), lease("10.0.4.10"), lease("2001:db8::1")}
	if err := store.Put(want[2], want[0], want[1]); err != nil {
		t.Fatal(err)
	}
	want[0].Freed = now.Add(time.Hour)
	if err := store.Put(want[0]); err != nil {
		t.Fatal(err)
	}
	store.Close()
	if diff := cmp.Diff(want, read(t, open(t, dir)), addresses); diff != "" {
		t.Error(diff)
	}
}

func TestOneProcessAtATimeHasTheLeases(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	opened := make(chan *podlease.Store)
	go func() {
		second, err := podlease.Open(dir, "n3")
		if err != nil {
			t.Error(err)
		}
		opened <- second
	}()
	if err := first.Put(lease("10.0.4.9")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-opened:
		t.Fatal("two have the leases")
	default:
	}
	first.Close()
	second := <-opened
	defer second.Close()
	if leases := read(t, second); len(leases) != 1 {
		t.Errorf("the second sees %v", leases)
	}
}

func TestAFileThatIsNoLeaseKeepsItsAddressInUse(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	for name, text := range map[string]string{"10.0.4.9.json": "{", "10.0.4.10.json.new": "{", "notes.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, "n3", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leases := read(t, store)
	if len(leases) != 1 || !leases[0].InUse() || leases[0].Address != netip.MustParseAddr("10.0.4.9") {
		t.Fatalf("got %v", leases)
	}
	before := podnet.Boot{ID: "b", Time: leases[0].Since.Add(-time.Hour)}
	if ended := podnet.EndOfBoots(leases, before); len(ended) != 0 {
		t.Errorf("a file of this boot ends: %v", ended)
	}
	after := podnet.Boot{ID: "c", Time: leases[0].Since.Add(time.Hour)}
	if ended := podnet.EndOfBoots(leases, after); len(ended) != 1 {
		t.Error("a file of an earlier boot keeps its address")
	}
}

func TestANameIsNoPath(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "../x"} {
		if store, err := podlease.Open(t.TempDir(), name); err == nil {
			store.Close()
			t.Errorf("%q is a network", name)
		}
	}
}
