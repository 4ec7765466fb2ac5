// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package podlease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/multieni/multieni/internal/core/podnet"
)

const processes = "/proc/"

// errNoNetns means that a path is no network namespace.
var errNoNetns = errors.New("no network namespace")

// RecordNetns sets the network namespace of a holder, so that each process that sees it finds out when it is gone.
func RecordNetns(h *podnet.Holder, path string) error {
	id, err := netnsID(path)
	if err != nil {
		return err
	}
	h.Netns, h.NetnsID = path, id
	if strings.HasPrefix(path, processes) {
		h.PIDNamespaceID, err = pidNamespaceID()
	}
	return err
}

// gone reports whether the network namespace of a lease no longer exists. A path that is not a network namespace proves
// nothing, and neither does one that this process may not see.
func gone(l podnet.Lease) bool {
	if l.Netns == "" || !sees(l.Holder) {
		return false
	}
	id, err := netnsID(l.Netns)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return l.NetnsID != 0 && id != l.NetnsID
}

// sees reports whether this process sees the path of the network namespace as the runtime does. /proc has the processes
// of one PID namespace. Other folders can be missing in the container of the agent, and the container keeps a folder
// that the host has removed: such a folder has no name.
func sees(h podnet.Holder) bool {
	if strings.HasPrefix(h.Netns, processes) {
		id, err := pidNamespaceID()
		return err == nil && id == h.PIDNamespaceID
	}
	folder, err := stat(filepath.Dir(h.Netns))
	return err == nil && folder.Nlink > 0
}

// netnsID returns the inode of the network namespace at a path.
func netnsID(path string) (uint64, error) {
	file, err := stat(path)
	if err != nil {
		return 0, fmt.Errorf("find network namespace %s: %w", path, err)
	}
	own, err := stat("/proc/self/ns/net") // all namespaces are in one file system
	if err != nil {
		return 0, fmt.Errorf("find the network namespace of this process: %w", err)
	}
	if file.Dev != own.Dev {
		return 0, fmt.Errorf("%s: %w", path, errNoNetns)
	}
	return file.Ino, nil
}

func pidNamespaceID() (uint64, error) {
	file, err := stat("/proc/self/ns/pid")
	if err != nil {
		return 0, fmt.Errorf("find the PID namespace of this process: %w", err)
	}
	return file.Ino, nil
}

func stat(path string) (*syscall.Stat_t, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return info.Sys().(*syscall.Stat_t), nil
}
