// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package podlease keeps the leases of pods' addresses in files of the node: LEASES/NETWORK/ADDRESS.json. Package
// podnet makes the decisions.
//
// Each file is written as a draft next to it and renamed, so a killed program leaves a whole lease or none. The files
// are not flushed to the disk: a node that loses power also loses its pods.
package podlease

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/multieni/multieni/internal/core/podnet"
)

const (
	// Dir is the folder of the leases on a node.
	Dir = "/var/lib/multieni/leases"

	suffix      = ".json"
	draftPrefix = "."
	draftSuffix = ".new"
	unread      = "unreadable"
	// maxFiles is far more than the files of pods that can run on one node. Only a faulty program creates more.
	maxFiles = 1 << 14
)

// Store is the leases of one network, locked. No other process reads or changes them until Close.
type Store struct {
	leases, network string
	folder          *os.Root
	lock            *os.File
}

// Close unlocks the leases.
func (s *Store) Close() {
	_ = s.lock.Close()
	_ = s.folder.Close()
}

// Path returns the path of a lease's file on a node.
func Path(network string, address netip.Addr) string {
	return filepath.Join(Dir, network, address.String()+suffix)
}

// Networks returns the networks that have a folder in a folder of leases.
func Networks(leases string) ([]string, error) {
	entries, err := os.ReadDir(leases)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the networks with leases: %w", err)
	}
	var networks []string
	for _, entry := range entries {
		if entry.IsDir() && podnet.ValidateName(entry.Name()) == nil {
			networks = append(networks, entry.Name())
		}
	}
	return networks, nil
}

// Leases returns all leases, by address: those in use, and former ones. An invalid file keeps its address in use.
func (s *Store) Leases() ([]podnet.Lease, error) {
	names, err := s.list()
	if err != nil {
		return nil, err
	}
	var leases []podnet.Lease
	for _, name := range names {
		text, is := strings.CutSuffix(name, suffix)
		address, err := netip.ParseAddr(text)
		if !is || err != nil {
			continue
		}
		lease, err := s.read(address)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read leases: %w", err)
		}
		leases = append(leases, lease)
	}
	slices.SortFunc(leases, func(a, b podnet.Lease) int { return a.Address.Compare(b.Address) })
	return leases, nil
}

// list returns the names of all files.
func (s *Store) list() ([]string, error) {
	folder, err := s.folder.Open(".")
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("list leases: %s has more than %d files, remove those that are no leases of running pods",
			s.folder.Name(), maxFiles)
	}
	return names, nil
}

func (s *Store) read(address netip.Addr) (podnet.Lease, error) {
	name := address.String() + suffix
	text, err := read(s.folder, name)
	if err != nil && !errors.Is(err, errIrregular) {
		return podnet.Lease{}, err
	}
	if lease, err := podnet.ParseLease(text); err == nil && lease.Address == address {
		return lease, nil
	}
	info, err := s.folder.Lstat(name)
	if err != nil {
		return podnet.Lease{}, err
	}
	holder := podnet.Holder{ContainerID: unread, Interface: unread}
	return podnet.Lease{Address: address, Holder: holder, Since: info.ModTime(), Unreadable: true}, nil
}

// Current returns the leases that decisions need, by address. It first ends those whose pods are gone, and removes the
// files of those that nothing needs any more. So the number of files follows that of the pods.
func (s *Store) Current(now time.Time) ([]podnet.Lease, error) {
	leases, err := s.Leases()
	if err != nil {
		return nil, err
	}
	boot, err := ThisBoot(now)
	if err != nil {
		return nil, err
	}
	kept, ended, stale := podnet.Sweep(leases, boot, now, gone)
	if err := s.End(ended...); err != nil {
		return nil, err
	}
	for _, l := range stale {
		_ = s.remove(l.Address) // it counts for nothing, so the next call may remove it as well
	}
	return kept, nil
}

// Put writes leases. Each replaces the former one of its address.
func (s *Store) Put(leases ...podnet.Lease) error {
	for _, lease := range leases {
		text, err := lease.Encode()
		if err != nil {
			return fmt.Errorf("write the lease of %v: %w", lease.Address, err)
		}
		if err := write(s.folder, lease.Address.String()+suffix, text); err != nil {
			return fmt.Errorf("write the lease of %v: %w", lease.Address, err)
		}
	}
	return nil
}

// End writes leases that ended. Pods must be able to end while the disk takes no file: from a full disk End removes
// such a lease, and its address does not rest. On a read-only disk the lease stays, until [Store.Current] finds that
// the network namespace of its pod is gone.
func (s *Store) End(leases ...podnet.Lease) error {
	var failures []error
	for _, l := range leases {
		failure := s.Put(l)
		if failure == nil {
			continue
		}
		if err := s.remove(l.Address); err != nil && !errors.Is(err, syscall.EROFS) {
			failures = append(failures, failure, err)
		}
	}
	return errors.Join(failures...)
}

func (s *Store) remove(address netip.Addr) error {
	if err := s.folder.Remove(address.String() + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lease of %v: %w", address, err)
	}
	return nil
}

// Remove removes the folder of the network, which must not have leases. A process that waits for the lock makes a new
// folder.
func (s *Store) Remove() error {
	all, err := os.OpenRoot(s.leases)
	if err != nil {
		return err
	}
	defer all.Close()
	if err := s.folder.Remove(lockName); err != nil {
		return fmt.Errorf("remove the folder of network %s: %w", s.network, err)
	}
	if err := all.Remove(s.network); err != nil && !errors.Is(err, fs.ErrExist) { // ENOTEMPTY: it is in use again
		return fmt.Errorf("remove the folder of network %s: %w", s.network, err)
	}
	return nil
}
