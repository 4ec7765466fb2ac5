// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// PodFiles are the files of pod networks, and the leases of their addresses. The CNI program reads the files and writes
// the leases.
type PodFiles interface {
	// Networks returns the networks that have a file. A network with an invalid file has only a name.
	Networks() (map[string]podnet.Network, error)
	// Network returns the content of a network's file; the zero value if there is none, or an invalid one.
	Network(network string) (podnet.Network, error)
	// WriteNetwork writes the file of a network whose leases the caller has locked, unless it has that content.
	WriteNetwork(podnet.Network) error
	// RemoveNetwork removes the file of a network.
	RemoveNetwork(network string) error
	// Leased returns the networks that have, or had, leases.
	Leased() ([]string, error)
	// Lock locks the leases of a network, and waits no longer than until the context ends. The error is
	// [podlease.ErrLocked] if another process has them. LockLeased is like Lock, but returns [fs.ErrNotExist] for a
	// network without leases.
	Lock(ctx context.Context, network string) (Leases, error)
	LockLeased(ctx context.Context, network string) (Leases, error)
}

// Leases are the leases of one network, locked. [podlease.Store] says what the methods do.
type Leases interface {
	Leases() ([]podnet.Lease, error)
	Current(now time.Time) ([]podnet.Lease, error)
	Put(leases ...podnet.Lease) error
	Remove() error
	Close()
}

// folders are the folders of a node with the files of networks and with the leases.
type folders struct{ networks, leases string }

// networkSuffix is the end of the name of a network's file.
const networkSuffix = ".json"

func (f folders) path(network string) string { return filepath.Join(f.networks, network+networkSuffix) }

// Networks is part of [PodFiles].
func (f folders) Networks() (map[string]podnet.Network, error) {
	entries, err := os.ReadDir(f.networks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the files of networks: %w", err)
	}
	present := map[string]podnet.Network{}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), networkSuffix)
		if !is {
			continue
		}
		content, err := os.ReadFile(f.path(name))
		if err != nil {
			return nil, fmt.Errorf("read the file of network %s: %w", name, err)
		}
		network, _ := podnet.ParseNetwork(content) // the agent of a later release can have written it
		network.Name = name
		present[name] = network
	}
	return present, nil
}

// Network is part of [PodFiles].
func (f folders) Network(network string) (podnet.Network, error) {
	content, err := os.ReadFile(f.path(network))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return podnet.Network{}, fmt.Errorf("read the file of network %s: %w", network, err)
	}
	present, _ := podnet.ParseNetwork(content) // an invalid file is written again, and so is one of a later release
	return present, nil
}

// WriteNetwork is part of [PodFiles].
func (f folders) WriteNetwork(network podnet.Network) error {
	content, err := network.Encode()
	if err != nil {
		return fmt.Errorf("write the file of network %s: %w", network.Name, err)
	}
	path := f.path(network.Name)
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(content, present) {
		return nil
	}
	if err := errors.Join(os.MkdirAll(f.networks, 0o755), podlease.WriteFile(path, content)); err != nil {
		return fmt.Errorf("write the file of network %s: %w", network.Name, err)
	}
	return nil
}

// RemoveNetwork is part of [PodFiles].
func (f folders) RemoveNetwork(network string) error {
	if err := os.Remove(f.path(network)); err != nil {
		return fmt.Errorf("remove the file of network %s: %w", network, err)
	}
	return nil
}

// Leased is part of [PodFiles].
func (f folders) Leased() ([]string, error) { return podlease.Networks(f.leases) }

// Lock is part of [PodFiles].
func (f folders) Lock(ctx context.Context, network string) (Leases, error) {
	return podlease.OpenContext(ctx, f.leases, network)
}

// LockLeased is part of [PodFiles].
func (f folders) LockLeased(ctx context.Context, network string) (Leases, error) {
	return podlease.OpenPresent(ctx, f.leases, network)
}
