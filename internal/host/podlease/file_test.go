// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package podlease_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// TestLinksLeadToNoFileOutside: a compromised agent can put links into the folder of leases, and the CNI program runs
// as root.
func TestLinksLeadToNoFileOutside(t *testing.T) {
	for name, link := range map[string]func(outside, leases string) error{
		"a draft": func(o, l string) error { return os.Symlink(o, filepath.Join(l, eniFolder, ".10.0.4.9.json.new")) },
		"a lease": func(o, l string) error { return os.Symlink(o, filepath.Join(l, eniFolder, "10.0.4.9.json")) },
		"the file of a network": func(o, l string) error {
			return os.Symlink(o, filepath.Join(l, eniFolder, "network.json"))
		},
		"the folder of an interface": func(o, l string) error {
			return errors.Join(os.Remove(filepath.Join(l, eniFolder)), os.Symlink(filepath.Dir(o), filepath.Join(l, eniFolder)))
		},
		"the lock": func(o, l string) error { return os.Symlink(o, filepath.Join(l, "n3", "lock")) },
		"a draft, to a file that does not exist": func(o, l string) error {
			return os.Symlink(o+"-2", filepath.Join(l, eniFolder, ".10.0.4.9.json.new"))
		},
		"the lock, to a file that does not exist": func(o, l string) error {
			return os.Symlink(o+"-2", filepath.Join(l, "n3", "lock"))
		},
		"the folder of the network": func(o, l string) error {
			return os.Symlink(filepath.Dir(o), filepath.Join(l, "n3"))
		},
		"the folder of the network, to a relative path": func(_, l string) error {
			return os.Symlink("../outside", filepath.Join(l, "n3"))
		},
		"the folder of the network, to that of another one": func(_, l string) error {
			return os.Symlink("n4", filepath.Join(l, "n3"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			outside, leases := filepath.Join(dir, "outside", "kubelet-config"), filepath.Join(dir, "leases")
			for _, folder := range []string{filepath.Dir(outside), filepath.Join(leases, "n4")} {
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(outside, []byte("of the host"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := link(outside, leases); os.IsNotExist(err) {
				err = os.MkdirAll(filepath.Join(leases, eniFolder), 0o755)
				if err == nil {
					err = link(outside, leases)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if store, err := podlease.Open(leases, "n3"); err == nil {
				for _, err := range []error{store.WriteNetwork(network(eni)), store.Put(eni, lease("10.0.4.9"))} {
					if err != nil {
						t.Log("refused:", err)
					}
				}
				_, _ = store.Folders()
				store.Close()
			} else {
				t.Log("refused:", err)
			}
			if text, err := os.ReadFile(outside); err != nil || string(text) != "of the host" {
				t.Errorf("the file of the host has %q, %v", text, err)
			}
			for _, folder := range []string{filepath.Dir(outside), filepath.Join(leases, "n4")} {
				entries, err := os.ReadDir(folder)
				if most := map[string]int{"outside": 1}[filepath.Base(folder)]; err != nil || len(entries) > most {
					t.Errorf("%s has %v, %v", folder, entries, err)
				}
			}
		})
	}
}

// TestSpecialFilesAreNotRead: a pipe would stop the program, and an endless file would take all memory.
func TestSpecialFilesAreNotRead(t *testing.T) {
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	for name, tc := range map[string]struct {
		make func(path string) error
		// refused is set if the file is not read at all.
		refused bool
	}{
		"a pipe":              {fifo, true},
		"a link to a device":  {func(path string) error { return os.Symlink("/dev/zero", path) }, true},
		"a folder":            {func(path string) error { return os.Mkdir(path, 0o700) }, true},
		"a file without data": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, false},
		"a file of a terabyte": {func(path string) error {
			file, err := os.Create(path)
			if err == nil {
				err = file.Truncate(1 << 40)
			}
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			leases := t.TempDir()
			store := open(t, leases)
			if err := tc.make(filepath.Join(leases, eniFolder, "10.0.4.9.json")); err != nil {
				t.Skip(err) // not every file system has files of a terabyte
			}
			file := filepath.Join(leases, eniFolder, "network.json")
			if err := errors.Join(os.Remove(file), tc.make(file)); err != nil {
				t.Fatal(err)
			}
			if one, err := podlease.Find(leases, "n3", podnet.Holder{}); err != nil || one.Invalid == nil {
				t.Errorf("the file of the network is %+v, %v; want an invalid one", one, err)
			}
			if got := read(t, store); len(got) != 1 || !got[0].InUse() || !got[0].Unreadable {
				t.Errorf("the leases are %v; want one that keeps its address in use", got)
			}
		})
		t.Run(name+" instead of the lock", func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "n3"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tc.make(filepath.Join(dir, "n3", "lock")); err != nil {
				t.Skip(err)
			}
			store, err := podlease.Open(dir, "n3")
			if err == nil {
				store.Close()
			}
			if tc.refused != (err != nil) {
				t.Errorf("%v; refused: want %t", err, tc.refused)
			}
		})
	}
}

// A program that was killed leaves a draft, and the next one writes its own.
func TestADraftOfAKilledProgramIsReplaced(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	draft := filepath.Join(dir, eniFolder, ".10.0.4.9.json.new")
	if err := os.WriteFile(draft, bytes.Repeat([]byte("x"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(eni, lease("10.0.4.9")); err != nil {
		t.Fatal(err)
	}
	if leases := read(t, store); len(leases) != 1 || leases[0].Unreadable {
		t.Errorf("the leases are %v", leases)
	}
	if _, err := os.Stat(draft); !os.IsNotExist(err) {
		t.Errorf("the draft is left: %v", err)
	}
}

// A file that was copied to another address is no lease of it: one pod would free the address of another.
func TestALeaseOfAnotherAddressIsUnreadable(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.Put(eni, lease("10.0.4.9")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, eniFolder, "10.0.4.9.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, eniFolder, "10.0.4.10.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	leases := read(t, store)
	if len(leases) != 2 || leases[0].Unreadable || !leases[1].Unreadable || leases[1].Is(leases[0].Holder) {
		t.Errorf("the leases are %+v", leases)
	}
}
