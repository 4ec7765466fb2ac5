// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"errors"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/hostnet"
)

// eventBuffer is the size of the receive buffer for events, in bytes. The kernel reports the loss of events that do not
// fit.
const eventBuffer = 1 << 20

// subscribe subscribes to every change of links, addresses, routes and rules.
func subscribe() (*nl.NetlinkSocket, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return nil, err
	}
	// Without CAP_NET_ADMIN the buffer stays within the system's limit.
	if socket.SetReceiveBufferSize(eventBuffer, true) != nil {
		_ = socket.SetReceiveBufferSize(eventBuffer, false)
	}
	return socket, nil
}

// Events sends a value when links, addresses, routes or rules have changed since the last receive. [Host.Facts] returns
// the changed state. It begins when the Host is opened, and is closed when no more events can be read.
func (h *Host) Events() <-chan struct{} { return h.events }

// read reads events until the subscription is closed or fails.
func (h *Host) read() {
	defer close(h.events)
	for {
		concerns := false
		err := panics.AsError("events of the network", func() error {
			messages, _, err := h.subscription.Receive()
			concerns = err == nil && relevant(messages)
			return err
		})
		_, unread := errors.AsType[*panics.Error](err)
		switch {
		case errors.Is(err, unix.ENOBUFS), concerns, unread:
			h.notify()
		case errors.Is(err, unix.EINTR), err == nil:
		default:
			return
		}
	}
}

func (h *Host) notify() {
	select {
	case h.events <- struct{}{}:
	default: // a signal is pending already
	}
}

// relevant reports whether an event is about anything other than routes of pods. These do not matter here, and every
// pod that starts or stops causes one.
func relevant(messages []syscall.NetlinkMessage) bool {
	for _, m := range messages {
		if m.Header.Type != unix.RTM_NEWROUTE && m.Header.Type != unix.RTM_DELROUTE {
			return true
		}
		if len(m.Data) < unix.SizeofRtMsg {
			continue
		}
		if protocol := int(nl.DeserializeRtMsg(m.Data).Protocol); protocol == hostnet.Protocol || byOthers(protocol) {
			return true
		}
	}
	return false
}
