// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// IndexOf returns the index of the link with a name or an alternative name in the namespace of the calling thread; 0 if
// there is none, or the kernel does not say.
func IndexOf(name string) int {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return 0
	}
	return link.Attrs().Index
}

// AddStandIn adds a link that takes the place of a lost one: the end of a veth pair. Its alias is the name that it gets
// on the node if the plugin host-device moves it there. The peer stays in the namespace, whose end ends both.
func (h *Host) AddStandIn(name, peer, alias string) error {
	if former, err := h.handle.LinkByName(peer); err == nil { // a repeated call: the plugin moved the other end
		if err := h.handle.LinkDel(former); err != nil {
			return fmt.Errorf("remove the former stand-in of link %s: %w", name, err)
		}
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer}
	if err := h.handle.LinkAdd(pair); err != nil {
		return fmt.Errorf("add a stand-in for link %s: %w", name, err)
	}
	link, err := h.handle.LinkByName(name)
	if err == nil {
		err = h.handle.LinkSetAlias(link, alias)
	}
	if err != nil {
		return fmt.Errorf("name the stand-in for link %s: %w", name, err)
	}
	return nil
}

// ErrNoNamespace means that a path is no network namespace.
var ErrNoNamespace = errors.New("no network namespace")

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
	if err := netns.Set(namespace); errors.Is(err, unix.EINVAL) { // setns(2): the file refers to no namespace
		return nil, fmt.Errorf("enter network namespace %s: %w", path, ErrNoNamespace)
	} else if err != nil {
		return nil, fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	host, err := Open(Options{})
	if back := netns.Set(own); back != nil {
		runtime.LockOSThread() // the thread ends with its goroutine, and no other one gets it
		return nil, fmt.Errorf("leave network namespace %s: %w", path, back)
	}
	return host, err
}
