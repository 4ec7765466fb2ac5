// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/podaddress"
)

const (
	// ifaTargetNetns is an attribute that the library does not name (IFA_TARGET_NETNSID in linux/if_addr.h).
	ifaTargetNetns = 10
	// namespaceDumps is how often an interrupted listing of one namespace is tried.
	namespaceDumps = 3
)

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
	all := map[int]netlink.Link{}
	err = unionOfDumps(func() error {
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
			all[link.Attrs().Index] = link
		}
		return err
	})
	if err != nil {
		return nil, -1, err
	}
	ownID, err = p.home()
	links = make([]podaddress.Link, len(all))
	for n, index := range slices.Sorted(maps.Keys(all)) {
		link := all[index]
		a := link.Attrs()
		links[n] = podaddress.Link{Index: a.Index, MAC: a.HardwareAddr.String(), Physical: p.isPhysical(link)}
		if len(a.PermHWAddr) > 0 {
			links[n].MAC = a.PermHWAddr.String()
		}
		switch {
		case a.NetNsID < 0:
			links[n].Lower = a.ParentIndex
		case a.NetNsID == ownID:
			links[n].OnNode = true
			if link.Type() != "veth" { // the index of a veth is that of its peer
				links[n].HostLink = a.ParentIndex
			}
		}
	}
	return links, ownID, err
}

func (p *PodNetworks) isPhysical(link netlink.Link) bool {
	if p.device != nil {
		return p.device(link.Attrs().Name, link.Attrs().HardwareAddr.String()) != ""
	}
	return physical(link)
}

// physical reports whether a link is that of a PCI device. Links that a user makes have a kind. Kernels before 5.14 do
// not name the device; the link of a device then still has a permanent MAC address.
func physical(link netlink.Link) bool {
	a := link.Attrs()
	return link.Type() == "device" && (a.ParentDevBus == "pci" || a.ParentDev == "" && len(a.PermHWAddr) > 0)
}

func (p *PodNetworks) addresses(id int, links []podaddress.Link) error {
	at := map[int]int{}
	for n, link := range links {
		at[link.Index] = n
	}
	seen := map[linkAddress]bool{}
	return unionOfDumps(func() error {
		request := p.request(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfAddrmsg(unix.AF_UNSPEC))
		request.AddData(nl.NewRtAttr(ifaTargetNetns, nl.Uint32Attr(uint32(id))))
		messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
		for _, m := range messages {
			attributes, err := nl.ParseRouteAttr(m[unix.SizeofIfAddrmsg:])
			if err != nil {
				return err
			}
			n, known := at[int(nl.DeserializeIfAddrmsg(m).Index)]
			address, is := localAddress(attributes)
			if one := (linkAddress{n, address}); is && known && !seen[one] {
				seen[one] = true
				links[n].Addresses = append(links[n].Addresses, address)
			}
		}
		return err
	})
}

// linkAddress is an address of the link at a position of a list.
type linkAddress struct {
	at      int
	address netip.Addr
}

// unionOfDumps calls list until no change interrupts it, at most [namespaceDumps] times. The argument list adds to what
// it found before: an interrupted listing can miss an entry, and a pod that changes its addresses all the time
// interrupts each one. An entry that is gone is in the union until the event about it leads to the next read.
func unionOfDumps(list func() error) error {
	for range namespaceDumps {
		if err := list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return err
		}
	}
	return nil
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
