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
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/multieni/multieni/internal/core/podnet"
)

const (
	// Dir is the folder of the leases on a node.
	Dir = "/var/lib/multieni/leases"

	lockName = "lock"
	suffix   = ".json"
	unread   = "unreadable"
)

// Store is the leases of one network, locked. No other process reads or changes them until Close.
type Store struct {
	dir  string
	lock *os.File
}

// Open locks the leases of a network in a folder of leases, and waits while another process has them locked. The kernel
// unlocks them when a process ends.
func Open(leases, network string) (*Store, error) {
	if err := podnet.ValidateName(network); err != nil {
		return nil, fmt.Errorf("open the leases of a network: %w", err)
	}
	s := &Store{dir: filepath.Join(leases, network)}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the leases of network %s: %w", network, err)
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the leases of network %s: %w", network, err)
	}
	s.lock = lock
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("lock the leases of network %s: %w", network, err)
	}
	return s, nil
}

// Close unlocks the leases.
func (s *Store) Close() { _ = s.lock.Close() }

// Leases returns all leases, by address: those in use, and former ones. An invalid file keeps its address in use.
func (s *Store) Leases() ([]podnet.Lease, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	var leases []podnet.Lease
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), suffix)
		address, err := netip.ParseAddr(name)
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

func (s *Store) read(address netip.Addr) (podnet.Lease, error) {
	path := s.path(address)
	text, err := os.ReadFile(path)
	if err != nil {
		return podnet.Lease{}, err
	}
	if lease, err := podnet.ParseLease(text); err == nil && lease.Address == address {
		return lease, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return podnet.Lease{}, err
	}
	holder := podnet.Holder{ContainerID: unread, Interface: unread, PodNamespace: unread, Pod: path}
	return podnet.Lease{Version: podnet.Version, Address: address, Holder: holder, Since: info.ModTime()}, nil
}

func (s *Store) path(address netip.Addr) string { return filepath.Join(s.dir, address.String()+suffix) }

// Put writes leases. Each replaces the former one of its address.
func (s *Store) Put(leases ...podnet.Lease) error {
	for _, lease := range leases {
		text, err := lease.Encode()
		if err != nil {
			return fmt.Errorf("write the lease of %v: %w", lease.Address, err)
		}
		if err := WriteFile(s.path(lease.Address), text); err != nil {
			return fmt.Errorf("write the lease of %v: %w", lease.Address, err)
		}
	}
	return nil
}

// WriteFile writes a draft next to a file and renames it, so that readers see the former file or the whole new one. One
// process at a time may write a file.
func WriteFile(path string, text []byte) error {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
