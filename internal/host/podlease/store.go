// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package podlease keeps the files of pod networks on the node: PODS/NETWORK/ENI/network.json, and the leases of pods'
// addresses, PODS/NETWORK/ENI/ADDRESS.json. Package podnet makes the decisions. One lock, PODS/NETWORK/lock, guards all
// folders of a network, so an interface can serve pods while another one of the network keeps the leases of its pods.
//
// Each file is written as a draft next to it and renamed, so a killed program leaves a whole file or none. The files
// are in a folder that ends with the boot, as the pods do, so nothing is flushed to a disk.
package podlease

import (
	"bytes"
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
	// Dir is the folder of the files on a node.
	Dir = "/run/multieni/pods"

	networkName = "network.json"
	suffix      = ".json"
	draftPrefix = "."
	draftSuffix = ".new"
	unread      = "unreadable"
	// maxFiles is far more than the files of pods that can run on one node. Only a faulty program creates more.
	maxFiles = 1 << 14
)

// Store is the files of one network, locked. No other process reads or changes the leases until Close.
type Store struct {
	pods, network string
	folder        *os.Root
	lock          *os.File
}

// Close unlocks the leases.
func (s *Store) Close() {
	_ = s.lock.Close()
	_ = s.folder.Close()
}

// Path returns the path of a lease's file on a node.
func Path(network, eni string, address netip.Addr) string {
	return filepath.Join(Dir, network, eni, address.String()+suffix)
}

// All returns the interfaces that have a folder, by network.
func All(pods string) (map[string][]string, error) {
	networks, err := foldersIn(pods)
	if err != nil {
		return nil, fmt.Errorf("list the pod networks: %w", err)
	}
	all := map[string][]string{}
	for _, network := range networks {
		if all[network], err = foldersIn(filepath.Join(pods, network)); err != nil {
			return nil, fmt.Errorf("list the interfaces of network %s: %w", network, err)
		}
	}
	return all, nil
}

func foldersIn(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return foldersOf(entries), nil
}

func foldersOf(entries []fs.DirEntry) []string {
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && podnet.ValidateName(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	return names
}

// Folders returns the files of the network's interfaces, by ENI, with all leases: those in use, and former ones. An
// invalid lease keeps its address in use. An invalid file of a network has no more than the names of both.
func (s *Store) Folders() ([]Folder, error) { return folders(s.folder, s.network, true) }

// Folder is the files of one interface. Invalid is why its network is not to be used; nil if it is.
type Folder struct {
	podnet.Folder
	Invalid error
}

// Find returns the files from which the link of a pod has its addresses, without a lock. It reads leases only if
// several interfaces have a folder. The error is [fs.ErrNotExist] if none has.
func Find(pods, network string, holder podnet.Holder) (Folder, error) {
	folder, err := openFolder(pods, network, false)
	if err != nil {
		return Folder{}, err
	}
	defer folder.Close()
	all, err := folders(folder, network, false)
	if err == nil && len(all) > 1 {
		all, err = folders(folder, network, true)
	}
	if err != nil {
		return Folder{}, err
	}
	if len(all) == 0 {
		return Folder{}, fs.ErrNotExist
	}
	return all[Choose(all, holder)], nil
}

// Choose is [podnet.FolderOf].
func Choose(all []Folder, holder podnet.Holder) int {
	plain := make([]podnet.Folder, len(all))
	for n := range all {
		plain[n] = all[n].Folder
	}
	return podnet.FolderOf(plain, holder)
}

func folders(network *os.Root, name string, withLeases bool) ([]Folder, error) {
	here, err := network.Open(".")
	if err != nil {
		return nil, fmt.Errorf("list the interfaces of network %s: %w", name, err)
	}
	defer here.Close()
	entries, err := here.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list the interfaces of network %s: %w", name, err)
	}
	var all []Folder
	for _, eni := range slices.Sorted(slices.Values(foldersOf(entries))) {
		one, err := readFolder(network, name, eni, withLeases)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removed it a moment ago
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func readFolder(network *os.Root, name, eni string, withLeases bool) (Folder, error) {
	root, err := network.OpenRoot(eni)
	if err != nil {
		return Folder{}, fmt.Errorf("open the folder of %s of network %s: %w", eni, name, err)
	}
	defer root.Close()
	var one Folder
	switch text, err := read(root, networkName); {
	case err == nil:
		one.Network, one.Invalid = podnet.ParseNetwork(text)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errIrregular):
		one.Invalid = err
	default:
		return Folder{}, fmt.Errorf("read the file of %s of network %s: %w", eni, name, err)
	}
	if one.Name, one.ENI = name, eni; one.Invalid != nil {
		one.Phase = podnet.Closed
	}
	if withLeases {
		one.Leases, err = readLeases(root)
	}
	return one, err
}

// WriteNetwork writes the file of an interface, and makes its folder. It changes no file that has the content already.
func (s *Store) WriteNetwork(network podnet.Network) error {
	content, err := network.Encode()
	if err != nil {
		return fmt.Errorf("write the file of network %s: %w", s.network, err)
	}
	root, err := s.open(network.ENI, true)
	if err == nil {
		defer root.Close()
		if present, reading := read(root, networkName); reading == nil && bytes.Equal(content, present) {
			return nil
		}
		err = write(root, networkName, content)
	}
	if err != nil {
		return fmt.Errorf("write the file of %s of network %s: %w", network.ENI, s.network, err)
	}
	return nil
}

// RemoveFolder removes the folder of an interface, with former leases. It fails if a lease is in use.
func (s *Store) RemoveFolder(eni string) error {
	root, err := s.open(eni, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = removeFiles(root)
		err = errors.Join(err, root.Close())
	}
	if err == nil {
		err = s.folder.Remove(eni)
	}
	if err != nil {
		return fmt.Errorf("remove the folder of %s of network %s: %w", eni, s.network, err)
	}
	return nil
}

func removeFiles(root *os.Root) error {
	leases, err := readLeases(root)
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(leases, podnet.Lease.InUse); at >= 0 {
		return fmt.Errorf("pod %s has %v", leases[at].PodName(), leases[at].Address)
	}
	names, err := list(root)
	for _, name := range names {
		err = errors.Join(err, root.Remove(name))
	}
	return err
}

// open opens the folder of an interface, which is no link to another folder.
func (s *Store) open(eni string, create bool) (*os.Root, error) {
	if err := podnet.ValidateName(eni); err != nil {
		return nil, err
	}
	if create {
		if err := s.folder.Mkdir(eni, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	info, err := s.folder.Lstat(eni)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder: remove it", filepath.Join(s.pods, s.network, eni))
	}
	return s.folder.OpenRoot(eni)
}

func readLeases(root *os.Root) ([]podnet.Lease, error) {
	names, err := list(root)
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
		lease, err := readLease(root, address)
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
func list(root *os.Root) ([]string, error) {
	folder, err := root.Open(".")
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
			root.Name(), maxFiles)
	}
	return names, nil
}

func readLease(root *os.Root, address netip.Addr) (podnet.Lease, error) {
	name := address.String() + suffix
	text, err := read(root, name)
	if err != nil && !errors.Is(err, errIrregular) {
		return podnet.Lease{}, err
	}
	if lease, err := podnet.ParseLease(text); err == nil && lease.Address == address {
		return lease, nil
	}
	info, err := root.Lstat(name)
	if err != nil {
		return podnet.Lease{}, err
	}
	holder := podnet.Holder{ContainerID: unread, Interface: unread}
	return podnet.Lease{Address: address, Holder: holder, Since: info.ModTime(), Unreadable: true}, nil
}

// Current returns the files of the network's interfaces with the leases that decisions need. It first ends those whose
// pods are gone, and removes the files of those that nothing needs any more. So the number of files follows that of the
// pods.
func (s *Store) Current(now time.Time) ([]Folder, error) {
	all, err := s.Folders()
	if err != nil {
		return nil, err
	}
	boot, err := ThisBoot(now)
	if err != nil {
		return nil, err
	}
	for n := range all {
		kept, ended, stale := podnet.Sweep(all[n].Leases, boot, now, gone)
		if err := s.End(all[n].ENI, ended...); err != nil {
			return nil, err
		}
		for _, l := range stale {
			_ = s.remove(all[n].ENI, l.Address) // it counts for nothing, so the next call may remove it as well
		}
		all[n].Leases = kept
	}
	return all, nil
}

// Put writes leases of an interface, whose folder must exist. Each replaces the former one of its address.
func (s *Store) Put(eni string, leases ...podnet.Lease) error {
	if len(leases) == 0 {
		return nil
	}
	root, err := s.open(eni, false)
	if err != nil {
		return fmt.Errorf("write leases of %s: %w", eni, err)
	}
	defer root.Close()
	for _, lease := range leases {
		text, err := lease.Encode()
		if err != nil {
			return fmt.Errorf("write the lease of %v: %w", lease.Address, err)
		}
		if err := write(root, lease.Address.String()+suffix, text); err != nil {
			return fmt.Errorf("write the lease of %v: %w", lease.Address, err)
		}
	}
	return nil
}

// End writes leases of an interface that ended. Pods must be able to end while the disk takes no file: from a full disk
// End removes such a lease, and its address does not rest. On a read-only disk the lease stays, until [Store.Current]
// finds that the network namespace of its pod is gone.
func (s *Store) End(eni string, leases ...podnet.Lease) error {
	var failures []error
	for _, l := range leases {
		failure := s.Put(eni, l)
		if failure == nil {
			continue
		}
		if err := s.remove(eni, l.Address); err != nil && !errors.Is(err, syscall.EROFS) {
			failures = append(failures, failure, err)
		}
	}
	return errors.Join(failures...)
}

func (s *Store) remove(eni string, address netip.Addr) error {
	if err := s.folder.Remove(filepath.Join(eni, address.String()+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lease of %v: %w", address, err)
	}
	return nil
}

// Remove removes the folder of the network, in which no interface may have a folder. A process that waits for the lock
// makes a new folder.
func (s *Store) Remove() error {
	all, err := os.OpenRoot(s.pods)
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
