// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// OpenAt opens the network of the namespace at a path, such as that of a pod. Close it after use.
func OpenAt(path string) (*Host, error) {
	namespace, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer func() { _ = namespace.Close() }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("open the network namespace of this program: %w", err)
	}
	defer func() { _ = own.Close() }()
	if err := netns.Set(namespace); err != nil {
		return nil, fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	host, err := Open(Options{})
	if back := netns.Set(own); back != nil {
		runtime.LockOSThread() // the thread ends with its goroutine, and no other one gets it
		return nil, fmt.Errorf("leave network namespace %s: %w", path, back)
	}
	return host, err
}
