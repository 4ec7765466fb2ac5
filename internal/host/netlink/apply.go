// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// Apply executes an operation. It succeeds if the state is already as desired.
func (h *Host) Apply(op hostnet.Operation) error {
	if err := h.apply(op); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

func (h *Host) apply(op hostnet.Operation) error {
	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: op.LinkIndex()}}
	switch op := op.(type) {
	case hostnet.SetAlias:
		return h.handle.LinkSetAlias(link, op.Alias)
	case hostnet.AddAltName:
		return h.handle.LinkAddAltName(link, op.Name)
	case hostnet.RemoveAltName:
		return h.handle.LinkDelAltName(link, op.Name)
	case hostnet.Set:
		return h.set(link, op.Setting, op.Value)
	case hostnet.SetMTU:
		return h.handle.LinkSetMTU(link, op.MTU)
	case hostnet.SetUp:
		return h.handle.LinkSetUp(link)
	case hostnet.SetDown:
		return h.handle.LinkSetDown(link)
	case hostnet.AddAddress:
		return ignoreExists(h.handle.AddrAdd(link, address(op)))
	case hostnet.RemoveAddress:
		return ignoreNotFound(h.handle.AddrDel(link, &netlink.Addr{IPNet: netOf(op.Address)}))
	case hostnet.AddRoute:
		return ignoreExists(h.handle.RouteAdd(route(op.Route)))
	case hostnet.RemoveRoute:
		return ignoreNotFound(h.handle.RouteDel(route(op.Route)))
	case hostnet.AddRule:
		return ignoreExists(h.handle.RuleAdd(rule(op.Rule)))
	case hostnet.RemoveRule:
		return ignoreNotFound(h.handle.RuleDel(rule(op.Rule)))
	default:
		return fmt.Errorf("no such operation: %T", op)
	}
}

// ignoreExists ignores the error that an added object already exists.
func ignoreExists(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// ignoreNotFound ignores the error that a removed object does not exist.
func ignoreNotFound(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return err
}

// address returns the address without a route to its subnet. EC2 assigns no address twice, so an IPv6 address needs no
// duplicate address detection, and is usable at once.
func address(op hostnet.AddAddress) *netlink.Addr {
	flags := unix.IFA_F_NOPREFIXROUTE
	if op.Address.Addr().Is6() {
		flags |= unix.IFA_F_NODAD
	}
	return &netlink.Addr{IPNet: netOf(op.Address), Flags: flags}
}

func route(r hostnet.Route) *netlink.Route {
	route := &netlink.Route{
		LinkIndex: r.Link, Table: r.Table, Dst: netOf(r.To), Priority: r.Metric, Protocol: netlink.RouteProtocol(r.Protocol),
	}
	switch {
	case r.Gateway.Is4():
		route.Gw = r.Gateway.AsSlice()
		if r.Protocol == hostnet.Protocol {
			// The link has no address of the router's subnet, so the kernel does not know that the link reaches the
			// router.
			route.Flags = int(netlink.FLAG_ONLINK)
		}
	case r.Gateway.Is6():
		route.Gw = r.Gateway.AsSlice()
	case r.To.Addr().Is4():
		route.Scope = netlink.SCOPE_LINK
	}
	return route
}

func rule(r hostnet.Rule) *netlink.Rule {
	rule := netlink.NewRule()
	rule.Priority, rule.Src, rule.Table, rule.Protocol = r.Priority, netOf(r.From), r.Table, hostnet.Protocol
	rule.Family = netlink.FAMILY_V6
	if r.From.Addr().Is4() {
		rule.Family = netlink.FAMILY_V4
	}
	return rule
}
