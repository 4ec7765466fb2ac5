// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import "maps"

// Setting is a kernel setting of one link, by family and name: ipv4.rp_filter is net.ipv4.conf.LINK.rp_filter
// (Linux kernel documentation, "IP sysctl"). The settings of all links together are never touched.
type Setting string

// The settings that a link can have.
const (
	AcceptLocal Setting = "ipv4.accept_local"
	ARPAnnounce Setting = "ipv4.arp_announce"
	ARPFilter   Setting = "ipv4.arp_filter"
	ARPIgnore   Setting = "ipv4.arp_ignore"
	ARPNotify   Setting = "ipv4.arp_notify"
	ForceIGMP   Setting = "ipv4.force_igmp_version"
	ProxyARP    Setting = "ipv4.proxy_arp"
	RPFilter    Setting = "ipv4.rp_filter"
	AcceptRA    Setting = "ipv6.accept_ra"
	AddrGenMode Setting = "ipv6.addr_gen_mode"
	Autoconf    Setting = "ipv6.autoconf"
)

// AcceptDAD enables duplicate address detection of IPv6 on a link. Only pods' links set it; it is in no snapshot.
const AcceptDAD Setting = "ipv6.accept_dad"

// Settings returns every setting there is, in order.
func Settings() []Setting {
	return []Setting{
		AcceptLocal, ARPAnnounce, ARPFilter, ARPIgnore, ARPNotify, ForceIGMP, ProxyARP, RPFilter, AcceptRA, AddrGenMode,
		Autoconf,
	}
}

// WithoutRouters returns the settings of a link that takes neither addresses nor routes from the advertisements of a
// router (RFC 4861, RFC 4862), which the router of a VPC sends in every subnet with IPv6. A link that moves to another
// network namespace, and a child of a link, start with the defaults of their namespace.
func WithoutRouters() map[Setting]int { return map[Setting]int{AcceptRA: 0, Autoconf: 0} }

// settings returns the settings of the link's mode, overridden by those of the link.
func (l Link) settings() map[Setting]int {
	settings := WithoutRouters()
	settings[AddrGenMode] = 1 // the host generates no address
	settings[ARPIgnore] = 1   // answer for the addresses of this link only: others may be in the same subnet
	if l.Mode == Primary {
		settings[ARPAnnounce] = 2
		// Loose: the way back to a source is looked up without our rules. The kernel takes the larger of this and the
		// setting of all links, so 2 wins over either.
		settings[RPFilter] = 2
	}
	maps.Copy(settings, l.Settings)
	return settings
}
