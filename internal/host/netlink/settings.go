// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// ipv4Numbers are the kernel's numbers of settings (IPV4_DEVCONF_* in linux/ip.h).
func ipv4Numbers() map[hostnet.Setting]int {
	return map[hostnet.Setting]int{
		hostnet.ProxyARP: 3, hostnet.RPFilter: 8, hostnet.ARPFilter: 13, hostnet.ForceIGMP: 17, hostnet.ARPAnnounce: 18,
		hostnet.ARPIgnore: 19, hostnet.ARPNotify: 22, hostnet.AcceptLocal: 23,
	}
}

// ipv6Numbers are the kernel's numbers of settings (DEVCONF_* in linux/ipv6.h).
func ipv6Numbers() map[hostnet.Setting]int {
	return map[hostnet.Setting]int{hostnet.AcceptRA: 3, hostnet.Autoconf: 5}
}

// readSettings reads the settings of a link from the attributes of its address families.
func readSettings(attributes []syscall.NetlinkRouteAttr) map[hostnet.Setting]int {
	settings := map[hostnet.Setting]int{}
	families := nested(value(attributes, unix.IFLA_AF_SPEC))
	ipv4 := value(nested(value(families, unix.AF_INET)), unix.IFLA_INET_CONF)
	for setting, n := range ipv4Numbers() { // counted from 1
		if len(ipv4) >= 4*n {
			settings[setting] = int(int32(binary.NativeEndian.Uint32(ipv4[4*(n-1):])))
		}
	}
	ipv6 := nested(value(families, unix.AF_INET6))
	values := value(ipv6, unix.IFLA_INET6_CONF)
	for setting, n := range ipv6Numbers() { // counted from 0
		if len(values) >= 4*(n+1) {
			settings[setting] = int(int32(binary.NativeEndian.Uint32(values[4*n:])))
		}
	}
	if mode := value(ipv6, unix.IFLA_INET6_ADDR_GEN_MODE); len(mode) > 0 {
		settings[hostnet.AddrGenMode] = int(mode[0])
	}
	return settings
}

// value returns the value of the attribute, or nil.
func value(attributes []syscall.NetlinkRouteAttr, kind uint16) []byte {
	for _, a := range attributes {
		if a.Attr.Type&nl.NLA_TYPE_MASK == kind {
			return a.Value
		}
	}
	return nil
}

func nested(value []byte) []syscall.NetlinkRouteAttr {
	attributes, err := nl.ParseRouteAttr(value)
	if err != nil {
		return nil
	}
	return attributes
}

// number returns the value of a 32 bit attribute, or 0.
func number(attributes []syscall.NetlinkRouteAttr, kind uint16) uint32 {
	if v := value(attributes, kind); len(v) == 4 {
		return binary.NativeEndian.Uint32(v)
	}
	return 0
}

// set changes a setting of a link.
func (h *Host) set(link netlink.Link, setting hostnet.Setting, value int) error {
	if n, is := ipv4Numbers()[setting]; is {
		return h.setIPv4(link.Attrs().Index, n, value)
	}
	if setting == hostnet.AddrGenMode {
		return h.handle.LinkSetIP6AddrGenMode(link, value)
	}
	return h.setIPv6(link.Attrs().Index, strings.TrimPrefix(string(setting), "ipv6."), value)
}

// setIPv4 changes a setting through the link's attributes, for which /proc/sys may be read-only.
func (h *Host) setIPv4(index, setting, value int) error {
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(index)
	families := nl.NewRtAttr(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, nil)
	settings := families.AddRtAttr(unix.AF_INET|unix.NLA_F_NESTED,
		nil).AddRtAttr(unix.IFLA_INET_CONF|unix.NLA_F_NESTED, nil)
	settings.AddRtAttr(setting, nl.Uint32Attr(uint32(int32(value))))
	request := h.request(unix.RTM_SETLINK, unix.NLM_F_ACK)
	request.AddData(message)
	request.AddData(families)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// setIPv6 changes a setting through /proc/sys. An open file there always belongs to one link, and fails once the link
// was renamed. So the file is that of the link if the link still has the name after the file was opened.
func (h *Host) setIPv6(index int, setting string, value int) error {
	if h.settings == nil {
		return fmt.Errorf("%s is read-only", ipv6Settings)
	}
	link, err := h.handle.LinkByIndex(index)
	if err != nil {
		return err
	}
	file, err := h.settings.OpenFile(path.Join(link.Attrs().Name, setting), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if again, err := h.handle.LinkByIndex(index); err != nil || again.Attrs().Name != link.Attrs().Name {
		return fmt.Errorf("link %d was renamed meanwhile", index)
	}
	_, err = file.WriteString(strconv.Itoa(value))
	return err
}
