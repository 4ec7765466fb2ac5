// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"net/netip"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// assign adds placeholders for the addresses that EC2 would choose, because only their number matters.
func (m *model) assign(i eni.Interface, more plan.AssignAddresses) eni.Interface {
	i = i.Clone()
	for range more.Addresses {
		if more.Family == plan.IPv4 {
			i.SecondaryIPv4 = append(i.SecondaryIPv4, m.nextIPv4())
		} else {
			i.IPv6 = append(i.IPv6, m.nextIPv6())
		}
	}
	for range more.Prefixes {
		if more.Family == plan.IPv4 {
			i.IPv4Prefixes = append(i.IPv4Prefixes, netip.PrefixFrom(m.nextIPv4(), 32))
		} else {
			i.IPv6Prefixes = append(i.IPv6Prefixes, netip.PrefixFrom(m.nextIPv6(), 128))
		}
	}
	return i
}

func (m *model) nextIPv4() netip.Addr {
	m.made++
	return netip.AddrFrom4([4]byte{0, byte(m.made >> 16), byte(m.made >> 8), byte(m.made)})
}

func (m *model) nextIPv6() netip.Addr {
	m.made++
	return netip.AddrFrom16([16]byte{13: byte(m.made >> 16), 14: byte(m.made >> 8), 15: byte(m.made)})
}
