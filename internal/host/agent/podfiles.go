// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// PodFiles are the files of pod networks, which the agent shares with the CNI program.
type PodFiles interface {
	// Folders returns the interfaces that have a folder, by network. It takes no lock.
	Folders() (map[string][]string, error)
	// Lock locks the files of a network, and waits no longer than until the context ends. The error is
	// [podlease.ErrLocked] if another process has them. LockPresent is like Lock, but returns [fs.ErrNotExist] for a
	// network without a folder.
	Lock(ctx context.Context, network string) (Files, error)
	LockPresent(ctx context.Context, network string) (Files, error)
}

// Files are the files of one network, locked. [podlease.Store] says what the methods do.
type Files interface {
	Current(now time.Time) ([]podlease.Folder, error)
	WriteNetwork(podnet.Network) error
	RemoveFolder(eni string) error
	Put(eni string, leases ...podnet.Lease) error
	Remove() error
	Close()
}

// podFolder is the folder of a node with the files.
type podFolder string

// Folders is part of [PodFiles].
func (f podFolder) Folders() (map[string][]string, error) { return podlease.All(string(f)) }

// Lock is part of [PodFiles].
func (f podFolder) Lock(ctx context.Context, network string) (Files, error) {
	return podlease.OpenContext(ctx, string(f), network)
}

// LockPresent is part of [PodFiles].
func (f podFolder) LockPresent(ctx context.Context, network string) (Files, error) {
	return podlease.OpenPresent(ctx, string(f), network)
}
