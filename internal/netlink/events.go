// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"errors"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/panics"
)

// eventBuffer is how many bytes of events may wait to be read. More than that are lost, and known to be.
const eventBuffer = 1 << 20

// subscribe asks the kernel to tell of every change of links, addresses, routes and rules.
func subscribe() (*nl.NetlinkSocket, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return nil, err
	}
	// Without CAP_NET_ADMIN the buffer stays as small as the system says.
	if socket.SetReceiveBufferSize(eventBuffer, true) != nil {
		_ = socket.SetReceiveBufferSize(eventBuffer, false)
	}
	return socket, nil
}

// Events has something to receive once links, addresses, routes or rules have changed since it was last received from.
// What changed is for [Host.Input] to say. It begins when the Host is opened, and is closed when events can be read no
// more.
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

// relevant reports whether an event concerns more than routes of pods. Those do not matter here, and there is one event
// for every pod that starts or stops.
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
