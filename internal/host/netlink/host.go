// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ipv6Settings is the folder with the IPv6 settings of links.
const ipv6Settings = "/proc/sys/net/ipv6/conf"

// Host is the network of the namespace it was opened in. Facts and Apply are for one goroutine at a time.
type Host struct {
	options Options
	handle  *netlink.Handle
	// route is a socket for the requests that the library has no function for.
	route *nl.NetlinkSocket
	// settings is nil if the IPv6 settings cannot be written. An open folder stays with the namespace it was opened in.
	settings *os.Root

	subscription *nl.NetlinkSocket
	events       chan struct{}
	reader       sync.WaitGroup
}

// Open opens the network of the calling thread's namespace. Close it after use.
func Open(options Options) (*Host, error) {
	// One thread opens all sockets, so that they belong to one namespace.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	options.Sysfs = cmp.Or(options.Sysfs, "/sys")
	h := &Host{options: options, events: make(chan struct{}, 1)}
	if err := h.open(); err != nil {
		h.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	h.settings = writableSettings()
	h.reader.Go(h.read)
	return h, nil
}

func (h *Host) open() (err error) {
	if h.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return err
	}
	if h.route, err = nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE); err != nil {
		return err
	}
	h.subscription, err = subscribe()
	return err
}

// Close ends the subscription and closes the sockets and files.
func (h *Host) Close() {
	if h.subscription != nil {
		h.subscription.Close()
	}
	h.reader.Wait()
	if h.handle != nil {
		h.handle.Close()
	}
	if h.route != nil {
		h.route.Close()
	}
	if h.settings != nil {
		_ = h.settings.Close()
	}
}

// request returns a request that the library has no function for.
func (h *Host) request(kind, flags int) *nl.NetlinkRequest {
	request := nl.NewNetlinkRequest(kind, flags)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: h.route}}
	return request
}

// writableSettings opens the folder of IPv6 settings if they can be written.
func writableSettings() *os.Root {
	root, err := os.OpenRoot(ipv6Settings)
	if err != nil {
		return nil
	}
	file, err := root.OpenFile("default/accept_ra", os.O_WRONLY, 0)
	if err != nil {
		_ = root.Close()
		return nil
	}
	_ = file.Close()
	return root
}

// dumps is how often an interrupted listing is tried: the kernel's state changed during it.
const dumps = 10

// retryDump calls list until no change interrupts it.
func retryDump(list func() error) error {
	var err error
	for range dumps {
		if err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return err
		}
	}
	return err
}
