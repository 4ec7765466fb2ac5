// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/podaddress"
)

const (
	// settle is how long the observer waits for further events of a namespace: a CNI plugin makes several changes.
	settle = 5 * time.Millisecond
	// listingsPerSecond and listingBurst bound the reads of all namespaces: a pod can make the kernel lose events.
	listingsPerSecond = 1
	listingBurst      = 3
)

// PodNetworks observes the links and addresses in the network namespaces of pods, without entering them: the kernel
// sends a socket the events of all namespaces that have an ID in its own namespace (NETLINK_LISTEN_ALL_NSID). This
// requires CAP_NET_BROADCAST and CAP_NET_ADMIN.
type PodNetworks struct {
	subscription *os.File
	route        *nl.NetlinkSocket
	own          netns.NsHandle
	// device is [Options.Device].
	device  func(name, mac string) string
	events  chan struct{}
	running sync.WaitGroup

	// list and read ask the kernel; tests replace them.
	list func() ([]int, error)
	read func(id int) (namespace podaddress.Namespace, exists bool, err error)
	// pace bounds the reads of each namespace; listings bounds those of all namespaces after lost events. Only keep uses
	// them.
	pace     readPace
	listings *rate.Limiter

	// mu guards namespaces, ownID, dirty, all, listed and unread.
	mu         sync.Mutex
	namespaces map[int]podaddress.Namespace
	// ownID is the ID that the own namespace has for itself; negative while it has none.
	ownID int
	// dirty are the namespaces with events since they were last read; all is set if every namespace must be read.
	dirty map[int]bool
	all   bool
	// listed is set once all namespaces were listed; unread are those among them that were never read.
	listed bool
	unread map[int]bool
	wake   chan struct{}
	done   chan struct{}
}

// OpenPodNetworks begins to observe from the calling thread's namespace. The argument device is [Options.Device]. It
// fails with [unix.EPERM] without the capabilities. Close it after use.
func OpenPodNetworks(device func(name, mac string) string) (*PodNetworks, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := newPodNetworks()
	p.device = device
	p.list, p.read = p.namespaceIDs, p.namespace
	if err := p.open(); err != nil {
		p.free()
		return nil, fmt.Errorf("observe the network namespaces of pods: %w", err)
	}
	p.running.Go(p.receive)
	p.running.Go(p.keep)
	p.poke()
	return p, nil
}

func newPodNetworks() *PodNetworks {
	return &PodNetworks{
		own: netns.None(), ownID: -1, events: make(chan struct{}, 1), namespaces: map[int]podaddress.Namespace{},
		dirty: map[int]bool{}, unread: map[int]bool{}, all: true,
		listings: rate.NewLimiter(listingsPerSecond, listingBurst),
		wake:     make(chan struct{}, 1), done: make(chan struct{}),
	}
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
	return namespaces, p.listed && len(p.unread) == 0
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

// keep reads the dirty namespaces after events, each as often as its pace allows.
func (p *PodNetworks) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-p.wake:
		case <-timer.C:
		}
		select {
		case <-p.done:
			return
		case <-time.After(settle):
		}
		var next time.Time
		err := panics.AsError("the namespaces of pods", func() (err error) {
			next, err = p.refresh()
			return err
		})
		if err != nil {
			next = time.Now().Add(firstReadRetry)
			p.mu.Lock()
			p.all = true
			p.mu.Unlock()
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(time.Until(next), settle))
		}
	}
}

// refresh reads the namespaces with events that may be read now, and signals a change if any differs. It returns when
// the next of the others may be read, or zero. A namespace that cannot be read delays no other one.
func (p *PodNetworks) refresh() (next time.Time, err error) {
	relist, next, err := p.relist(time.Now())
	if err != nil {
		return time.Time{}, err
	}
	p.mu.Lock()
	waiting := slices.Sorted(maps.Keys(p.dirty))
	p.mu.Unlock()
	slices.SortStableFunc(waiting, func(x, y int) int { return cmp.Compare(p.sizeOf(x), p.sizeOf(y)) })
	changed := relist
	for _, id := range waiting {
		if at := p.pace.due(id, time.Now()); at.After(time.Now()) {
			next = earlier(next, at)
			continue
		}
		differs, err := p.readOne(id)
		if err != nil {
			p.pace.failed(id, time.Now())
			next = earlier(next, p.pace.due(id, time.Now()))
		}
		changed = changed || differs
	}
	if changed {
		select {
		case p.events <- struct{}{}:
		default: // a signal is pending already
		}
	}
	return next, nil
}

// relist marks all namespaces as dirty if events were lost, and reports whether this is the first time. If it has to
// wait, it returns until when.
func (p *PodNetworks) relist(now time.Time) (first bool, waits time.Time, err error) {
	p.mu.Lock()
	all := p.all
	p.mu.Unlock()
	switch {
	case !all:
		return false, time.Time{}, nil
	case !p.listings.AllowN(now, 1):
		return false, now.Add(time.Second / listingsPerSecond), nil
	}
	p.mu.Lock()
	p.all = false
	p.mu.Unlock()
	ids, err := p.list()
	if err != nil {
		return false, time.Time{}, fmt.Errorf("list the network namespaces: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.namespaces {
		p.dirty[id] = true
	}
	for _, id := range ids {
		p.dirty[id] = true
		if _, known := p.namespaces[id]; !known {
			p.unread[id] = true
		}
	}
	first, p.listed = !p.listed, true
	return first, time.Time{}, nil
}

// readOne reads a namespace, and reports whether it differs from the last read. After a failure it stays dirty.
func (p *PodNetworks) readOne(id int) (changed bool, err error) {
	p.mu.Lock()
	delete(p.dirty, id)
	p.mu.Unlock()
	namespace, exists, err := p.read(id)
	switch {
	case err != nil:
		p.mu.Lock()
		p.dirty[id] = true
		p.mu.Unlock()
		return false, err
	case exists:
		p.pace.read(id, entries(namespace), time.Now())
	default:
		p.pace.forget(id)
	}
	return p.set(id, namespace, exists), nil
}

// sizeOf returns the number of entries of a namespace in the last read.
func (p *PodNetworks) sizeOf(id int) int { return entries(p.namespaces[id]) } // only this goroutine writes them

// entries returns the number of links and addresses of a namespace.
func entries(namespace podaddress.Namespace) int {
	n := len(namespace.Links)
	for _, link := range namespace.Links {
		n += len(link.Addresses)
	}
	return n
}

// earlier returns the earlier of two times. A zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p *PodNetworks) set(id int, namespace podaddress.Namespace, exists bool) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.namespaces[id]
	unread := p.unread[id]
	delete(p.unread, id)
	if !exists {
		delete(p.namespaces, id)
		return known || unread
	}
	p.namespaces[id] = namespace
	return !known || unread || !slices.EqualFunc(before.Links, namespace.Links, sameLink)
}

func sameLink(a, b podaddress.Link) bool {
	return a.Index == b.Index && a.HostLink == b.HostLink && a.Lower == b.Lower && a.OnNode == b.OnNode &&
		a.Physical == b.Physical && a.MAC == b.MAC && slices.Equal(a.Addresses, b.Addresses)
}
