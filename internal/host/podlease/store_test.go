// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package podlease_test

import (
	"errors"
	"io/fs"
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
	addresses = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})
)

func lease(address string) podnet.Lease {
	return podnet.Lease{
		Address: netip.MustParseAddr(address), Since: now,
		Holder: podnet.Holder{ContainerID: "c", Interface: "net1", BootID: "b"},
	}
}

// eni is the interface of most tests, and its folder is eniFolder in that of the networks.
const eni = "eni-1"

var eniFolder = filepath.Join("n3", eni)

// network returns the file of an interface.
func network(eni string) podnet.Network {
	return podnet.Network{
		Name: "n3", NodeENI: "n3", Node: "node-1", Link: "net-n3", ENI: eni, UID: "uid", Phase: podnet.Open,
		Attachment: podnet.IPVLAN, IPv4: &podnet.Family{Subnet: netip.MustParsePrefix("10.0.4.0/24"),
			Gateway: netip.MustParseAddr("10.0.4.1"), Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.4.16/28")}},
	}
}

// open opens the network, in which the interface has a folder.
func open(t *testing.T, dir string) *podlease.Store {
	t.Helper()
	store, err := podlease.Open(dir, "n3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if err := store.WriteNetwork(network(eni)); err != nil {
		t.Fatal(err)
	}
	return store
}

func read(t *testing.T, store *podlease.Store) []podnet.Lease {
	t.Helper()
	all, err := store.Folders()
	if err != nil {
		t.Fatal(err)
	}
	return leasesOf(all)
}

// leasesOf returns the leases of all interfaces.
func leasesOf(all []podlease.Folder) (leases []podnet.Lease) {
	for _, one := range all {
		leases = append(leases, one.Leases...)
	}
	return leases
}

func TestLeasesOutliveTheProgram(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	want := []podnet.Lease{lease("10.0.4.9"), lease("10.0.4.10"), lease("2001:db8::1")}
	if err := store.Put(eni, want[2], want[0], want[1]); err != nil {
		t.Fatal(err)
	}
	want[0].Freed = now.Add(time.Hour)
	if err := store.Put(eni, want[0]); err != nil {
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
	if err := first.Put(eni, lease("10.0.4.9")); err != nil {
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
		if err := os.WriteFile(filepath.Join(dir, eniFolder, name), []byte(text), 0o600); err != nil {
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

// An interface that replaces another one has a folder of its own, and one lock guards both.
func TestFoldersOfANetwork(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.WriteNetwork(network("eni-2")); err != nil {
		t.Fatal(err)
	}
	if err := store.Put("eni-2", lease("10.0.4.9")); err != nil {
		t.Fatal(err)
	}
	all, err := store.Folders()
	if err != nil {
		t.Fatal(err)
	}
	want := []podlease.Folder{
		{Folder: podnet.Folder{Network: network(eni)}},
		{Folder: podnet.Folder{Network: network("eni-2"), Leases: []podnet.Lease{lease("10.0.4.9")}}},
	}
	if diff := cmp.Diff(want, all, addresses); diff != "" {
		t.Error(diff)
	}
	if one, err := podlease.Find(dir, "n3", podnet.Holder{ContainerID: "c", Interface: "net1"}); err != nil || one.ENI != "eni-2" {
		t.Errorf("the pod has its address from %s, %v", one.ENI, err)
	}
	if err := store.RemoveFolder("eni-2"); err == nil {
		t.Error("the folder goes with the lease of a pod")
	}
	if err := store.RemoveFolder(eni); err != nil {
		t.Error(err)
	}
	ended := lease("10.0.4.9")
	ended.Freed = now
	if err := store.End("eni-2", ended); err != nil {
		t.Fatal(err)
	}
	if err := store.RemoveFolder("eni-2"); err != nil {
		t.Error(err)
	}
	if _, err := podlease.Find(dir, "n3", podnet.Holder{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a network without folders: %v", err)
	}
}

// A damaged file opens nothing, and the leases next to it count.
func TestADamagedFileIsClosed(t *testing.T) {
	for name, text := range map[string]string{"damaged": "{", "of a later release": `{"version": 99, "name": "n3"}`, "empty": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := open(t, dir)
			if err := store.Put(eni, lease("10.0.4.9")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, eniFolder, "network.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := store.Folders()
			if err != nil || len(all) != 1 || all[0].IsOpen() || all[0].Invalid == nil || all[0].ENI != eni || len(all[0].Leases) != 1 {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

// One agent at a time has the files of a node.
func TestOneAgentAtATime(t *testing.T) {
	pods := filepath.Join(t.TempDir(), "run", "pods")
	unexpected := func(path string) { t.Errorf("waits for %s", path) }
	release, err := podlease.LockAgent(t.Context(), pods, unexpected)
	if err != nil {
		t.Fatal(err)
	}
	waits, ended := make(chan string, 1), make(chan func())
	go func() {
		next, err := podlease.LockAgent(t.Context(), pods, func(path string) { waits <- path })
		if err != nil {
			t.Error(err)
		}
		ended <- next
	}()
	if path := <-waits; path != filepath.Join(filepath.Dir(pods), "agent.lock") {
		t.Errorf("waits for %s", path)
	}
	select {
	case <-ended:
		t.Fatal("two agents have the files")
	default:
	}
	release()
	(<-ended)()
}
