// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podcni

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
)

// errNoNetns means that a path is no network namespace.
var errNoNetns = errors.New("no network namespace")

// netnsID returns the inode of the network namespace at a path.
func netnsID(path string) (uint64, error) {
	var system unix.Statfs_t
	var file unix.Stat_t
	if err := errors.Join(unix.Statfs(path, &system), unix.Stat(path, &file)); err != nil {
		return 0, fmt.Errorf("find network namespace %s: %w", path, err)
	}
	if system.Type != unix.NSFS_MAGIC {
		return 0, fmt.Errorf("%s: %w", path, errNoNetns)
	}
	return file.Ino, nil
}

// gone reports whether the network namespace of a lease no longer exists. The holder is a pod that starts, so its path
// shows which paths this program can see. A path that is not a network namespace proves nothing.
func gone(l podnet.Lease, starting podnet.Holder) bool {
	const processes = "/proc/"
	if l.Netns == "" || strings.HasPrefix(l.Netns, processes) != strings.HasPrefix(starting.Netns, processes) {
		return false
	}
	id, err := netnsID(l.Netns)
	if err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	return l.NetnsID != 0 && id != l.NetnsID
}

// settle makes the settings of the link before it is up, so that no advertisement of a router arrives before them. The
// plugin that creates the link has already created it, and adds the addresses later. IPv6 addresses are usable at once:
// EC2 assigns no address twice, so duplicate address detection is not necessary.
func settle(args *skel.CmdArgs, c podnet.Configuration) error {
	pod, err := openPod(args)
	if errors.Is(err, errNoLink) {
		return nil // a plugin may create its link after it has the addresses
	}
	if err != nil {
		return err
	}
	defer pod.close()
	operations := pod.settings()
	if slices.ContainsFunc(c.Addresses, func(a podnet.Assignment) bool { return a.Address.Addr().Is6() }) {
		operations = append(operations, hostnet.Set{Link: pod.link.Index, Setting: hostnet.AcceptDAD})
	}
	return pod.apply(operations)
}
