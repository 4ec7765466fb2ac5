// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/panics"
)

const (
	// settle is how long the observer waits for further events of a namespace: a CNI plugin makes several changes.
	settle = 5 * time.Millisecond
	// ifaTargetNetns is an attribute that the library does not name (IFA_TARGET_NETNSID in linux/if_addr.h).
	ifaTargetNetns = 10
)

// PodNetworks observes the links and addresses in the network namespaces of pods, without entering them: the kernel
// sends a socket the events of all namespaces that have an ID in its own namespace (NETLINK_LISTEN_ALL_NSID). This
// requires CAP_NET_BROADCAST and CAP_NET_ADMIN.
type PodNetworks struct {
	subscription *os.File
	route        *nl.NetlinkSocket
	own          netns.NsHandle
	events       chan struct{}
	running      sync.WaitGroup

	// mu guards namespaces, ownID, dirty, all and complete.
	mu         sync.Mutex
	namespaces map[int]podaddress.Namespace
	// ownID is the ID that the own namespace has for itself; negative while it has none.
	ownID int
	// dirty are the namespaces with events since they were last read; all is set if every namespace must be read.
	dirty    map[int]bool
	all      bool
	complete bool
	wake     chan struct{}
	done     chan struct{}
}

// OpenPodNetworks begins to observe from the calling thread's namespace. It fails with [unix.EPERM] without the
// capabilities. Close it after use.
func OpenPodNetworks() (*PodNetworks, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := &PodNetworks{
		own: netns.None(), ownID: -1, events: make(chan struct{}, 1), namespaces: map[int]podaddress.Namespace{},
		dirty: map[int]bool{}, all: true,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := p.open(); err != nil {
		p.free()
		return nil, fmt.Errorf("observe the network namespaces of pods: %w", err)
	}
	p.running.Go(p.receive)
	p.running.Go(p.keep)
	p.poke()
	return p, nil
}

func (p *PodNetworks) open() (err error) {
	if p.subscription, err = listenToAll(); err != nil {
		return err
	}
	if p.own, err = netns.Get(); err != nil {
		return err
	}
	if p.route, err = nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE); err != nil {
		return err
	}
	// The kernel honors the namespace of a request for addresses only with strict checks.
	return unix.SetsockoptInt(p.route.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
}

// listenToAll opens a socket for events of all namespaces.
func listenToAll() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), "netlink")
	address := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for _, group := range []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_NSID} {
		address.Groups |= 1 << (group - 1)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventBuffer)
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1), unix.Bind(fd, address))
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	return socket, nil
}

// Close ends the observation.
func (p *PodNetworks) Close() {
	close(p.done)
	_ = p.subscription.Close()
	p.running.Wait()
	p.free()
}

func (p *PodNetworks) free() {
	if p.route != nil {
		p.route.Close()
	}
	if p.own.IsOpen() {
		_ = p.own.Close()
	}
}

// Events sends a value when the result of [PodNetworks.Namespaces] has changed.
func (p *PodNetworks) Events() <-chan struct{} { return p.events }

// Namespaces returns the namespaces of pods with links, and whether all of them were read. Until then an absent address
// proves nothing.
func (p *PodNetworks) Namespaces() (namespaces []podaddress.Namespace, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.namespaces)) {
		namespaces = append(namespaces, p.namespaces[id])
	}
	return namespaces, p.complete
}

// receive marks the namespaces of events as dirty until the socket is closed. If the kernel lost events, it marks all.
func (p *PodNetworks) receive() {
	connection, err := p.subscription.SyscallConn()
	if err != nil {
		return
	}
	message, control := make([]byte, nl.RECEIVE_BUFFER_SIZE), make([]byte, 128)
	for {
		var n, oobn int
		var failure error
		err := connection.Read(func(fd uintptr) bool {
			n, oobn, _, _, failure = unix.Recvmsg(int(fd), message, control, 0)
			return failure != unix.EAGAIN
		})
		switch {
		case err != nil:
			return
		case errors.Is(failure, unix.EINTR):
		case failure != nil:
			p.note(func() { p.all = true })
		default:
			if panics.AsError("events of pods", func() error { return p.noteEvent(message[:n], control[:oobn]) }) != nil {
				p.note(func() { p.all = true })
			}
		}
	}
}

func (p *PodNetworks) note(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.poke()
}

func (p *PodNetworks) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // a signal is pending already
	}
}

// noteEvent marks the namespaces that an event is about as dirty, except the own one.
func (p *PodNetworks) noteEvent(message, control []byte) error {
	ids, err := affected(message, control)
	if len(ids) > 0 {
		p.note(func() {
			for _, id := range ids {
				if id != p.ownID {
					p.dirty[id] = true
				}
			}
		})
	}
	return err
}

// affected returns the IDs of the namespaces that an event is about: its source, and one whose ID it announces or
// withdraws. The latter matters in events of the own namespace. Before upstream's commits 88b126b39f97 and 70f8592ee905
// (2026) kernels send these with an ID too, or with a negative one. So events from other namespaces, whose IDs mean
// nothing here, look the same, and cause a read of a namespace that did not change.
func affected(message, control []byte) ([]int, error) {
	var ids []int
	if id, is := namespaceOf(control); is && id >= 0 {
		ids = append(ids, id)
	}
	messages, err := syscall.ParseNetlinkMessage(message)
	if err != nil {
		return ids, err
	}
	for _, m := range messages {
		if m.Header.Type != unix.RTM_NEWNSID && m.Header.Type != unix.RTM_DELNSID {
			continue
		}
		attributes, err := nl.ParseRouteAttr(m.Data[nl.NewRtGenMsg().Len():])
		if err != nil {
			return ids, err
		}
		if id := int(int32(number(attributes, unix.NETNSA_NSID))); id >= 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// namespaceOf returns the ID of the namespace that an event is from, if the kernel sent it.
func namespaceOf(control []byte) (id int, is bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, false
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_NETLINK && m.Header.Type == unix.NETLINK_LISTEN_ALL_NSID && len(m.Data) >= 4 {
			return int(int32(binary.NativeEndian.Uint32(m.Data))), true
		}
	}
	return 0, false
}

// keep reads the dirty namespaces after events.
func (p *PodNetworks) keep() {
	for {
		select {
		case <-p.done:
			return
		case <-p.wake:
		}
		select {
		case <-p.done:
			return
		case <-time.After(settle):
		}
		err := panics.AsError("the namespaces of pods", p.refresh)
		if err != nil {
			p.note(func() { p.all = true })
			select {
			case <-p.done:
				return
			case <-time.After(time.Second):
			}
		}
	}
}

// refresh reads the namespaces with events, and signals a change if any differs.
func (p *PodNetworks) refresh() error {
	p.mu.Lock()
	dirty, all := p.dirty, p.all
	p.dirty, p.all = map[int]bool{}, false
	p.mu.Unlock()
	if all {
		ids, err := p.namespaceIDs()
		if err != nil {
			return fmt.Errorf("list the network namespaces: %w", err)
		}
		for id := range p.namespaces { // only this goroutine writes them
			dirty[id] = true
		}
		for _, id := range ids {
			dirty[id] = true
		}
	}
	changed := false
	for _, id := range slices.Sorted(maps.Keys(dirty)) {
		namespace, exists, err := p.namespace(id)
		if err != nil {
			return fmt.Errorf("read network namespace %d: %w", id, err)
		}
		changed = p.set(id, namespace, exists) || changed
	}
	p.mu.Lock()
	changed = changed || all && !p.complete
	p.complete = p.complete || all
	p.mu.Unlock()
	if changed {
		select {
		case p.events <- struct{}{}:
		default: // a signal is pending already
		}
	}
	return nil
}

func (p *PodNetworks) set(id int, namespace podaddress.Namespace, exists bool) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.namespaces[id]
	if !exists {
		delete(p.namespaces, id)
		return known
	}
	p.namespaces[id] = namespace
	return !known || !slices.EqualFunc(before.Links, namespace.Links, sameLink)
}

func sameLink(a, b podaddress.Link) bool {
	return a.Index == b.Index && a.HostLink == b.HostLink && a.Lower == b.Lower && a.MAC == b.MAC &&
		slices.Equal(a.Addresses, b.Addresses)
}

// namespaceIDs returns the IDs that the own namespace has for others.
func (p *PodNetworks) namespaceIDs() ([]int, error) {
	var ids []int
	err := retryDump(func() error {
		ids = nil
		request := p.request(unix.RTM_GETNSID, unix.NLM_F_DUMP)
		request.AddData(nl.NewRtGenMsg())
		messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNSID)
		for _, m := range messages {
			attributes, err := nl.ParseRouteAttr(m[nl.NewRtGenMsg().Len():])
			if err != nil {
				return err
			}
			ids = append(ids, int(int32(number(attributes, unix.NETNSA_NSID))))
		}
		return err
	})
	return ids, err
}

// namespace reads the links and addresses of a namespace. It reports whether the namespace exists and is not the own
// one.
func (p *PodNetworks) namespace(id int) (namespace podaddress.Namespace, exists bool, err error) {
	namespace = podaddress.Namespace{ID: id}
	var ownID int
	namespace.Links, ownID, err = p.links(id)
	if err == nil {
		p.mu.Lock()
		p.ownID = ownID
		p.mu.Unlock()
		if id == ownID {
			return podaddress.Namespace{}, false, nil
		}
		err = p.addresses(id, namespace.Links)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.EACCES) {
		return podaddress.Namespace{}, false, nil // it ended, or belongs to another user namespace
	}
	return namespace, err == nil, err
}

// home returns the ID that the own namespace has for itself; a negative one if it has none.
func (p *PodNetworks) home() (int, error) {
	request := p.request(unix.RTM_GETNSID, 0)
	request.AddData(nl.NewRtGenMsg())
	request.AddData(nl.NewRtAttr(unix.NETNSA_FD, nl.Uint32Attr(uint32(p.own))))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNSID)
	if err != nil || len(messages) == 0 {
		return -1, err
	}
	attributes, err := nl.ParseRouteAttr(messages[0][nl.NewRtGenMsg().Len():])
	return int(int32(number(attributes, unix.NETNSA_NSID))), err
}

// links reads the links of a namespace, and the ID that it has for the own namespace. The kernel assigns that ID during
// the read, if a link has a lower link in the own namespace.
func (p *PodNetworks) links(id int) (links []podaddress.Link, ownID int, err error) {
	var all []netlink.Link
	err = retryDump(func() error {
		all = nil
		request := p.request(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		request.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(id))))
		request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(rtextSkipStats)))
		messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		for _, m := range messages {
			link, err := netlink.LinkDeserialize(nil, m)
			if err != nil {
				return err
			}
			all = append(all, link)
		}
		return err
	})
	if err != nil {
		return nil, -1, err
	}
	ownID, err = p.home()
	links = make([]podaddress.Link, len(all))
	for n, link := range all {
		a := link.Attrs()
		links[n] = podaddress.Link{Index: a.Index, MAC: a.HardwareAddr.String()}
		switch {
		case a.NetNsID < 0:
			links[n].Lower = a.ParentIndex
		case a.NetNsID == ownID && link.Type() != "veth": // the index of a veth is that of its peer
			links[n].HostLink = a.ParentIndex
		}
	}
	return links, ownID, err
}

func (p *PodNetworks) addresses(id int, links []podaddress.Link) error {
	return retryDump(func() error {
		for n := range links {
			links[n].Addresses = nil
		}
		request := p.request(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfAddrmsg(unix.AF_UNSPEC))
		request.AddData(nl.NewRtAttr(ifaTargetNetns, nl.Uint32Attr(uint32(id))))
		messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
		for _, m := range messages {
			attributes, err := nl.ParseRouteAttr(m[unix.SizeofIfAddrmsg:])
			if err != nil {
				return err
			}
			index := int(nl.DeserializeIfAddrmsg(m).Index)
			at := slices.IndexFunc(links, func(l podaddress.Link) bool { return l.Index == index })
			if address, is := localAddress(attributes); is && at >= 0 {
				links[at].Addresses = append(links[at].Addresses, address)
			}
		}
		return err
	})
}

// localAddress returns the address of a link. If the address has a peer, IFA_ADDRESS is the address of the peer.
func localAddress(attributes []syscall.NetlinkRouteAttr) (address netip.Addr, is bool) {
	for _, a := range attributes {
		if a.Attr.Type == unix.IFA_LOCAL || a.Attr.Type == unix.IFA_ADDRESS && !is {
			address, is = netip.AddrFromSlice(a.Value)
		}
	}
	return address, is
}

func (p *PodNetworks) request(kind, flags int) *nl.NetlinkRequest {
	request := nl.NewNetlinkRequest(kind, flags)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: p.route}}
	return request
}
