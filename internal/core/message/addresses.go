// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// TooManyIPv4 says that an interface of an instance type takes fewer addresses in addition to its primary one.
func TooManyIPv4(declared, most int, instanceType string, forPods bool) string {
	field := "secondaryPrivateIPAddressCount or ipv4PrefixCount"
	if forPods { // they exclude the other fields
		field = "pods.ipv4.prefixes.min"
	}
	return fmt.Sprintf("%d IPv4 addresses and prefixes are declared in addition to the primary address, and an interface "+
		"of %s takes %d; lower %s, or use a larger instance type", declared, instanceType, most, field)
}

// TooManyIPv6 says that an interface of an instance type takes fewer IPv6 addresses.
func TooManyIPv6(declared, most int, instanceType string) string {
	return fmt.Sprintf("%d IPv6 addresses and prefixes are declared, and an interface of %s takes %d; lower "+
		"ipv6AddressCount, ipv6PrefixCount or pods.ipv6.prefixes, or use a larger instance type", declared, instanceType,
		most)
}

// PrefixesLimited says that an interface of an instance type takes fewer prefixes than the maximum of a NodeENI.
func PrefixesLimited(nodeENI string, most int, instanceType string, limit int) string {
	return fmt.Sprintf("pods.ipv4.prefixes.max of NodeENI %s is %d, and an interface of %s takes %d prefixes in addition "+
		"to its addresses; it grows up to that; lower max, or use a larger instance type", nodeENI, most, instanceType,
		limit)
}

// AddressesInUse says that an interface keeps addresses that pods may use.
func AddressesInUse(id string) string {
	return id + " keeps more addresses than its NodeENI asks for, because pods use them or can start to; it keeps them " +
		"until it is replaced"
}

// Form names a form of addresses.
type Form string

// The forms of addresses.
const (
	SecondaryIPv4 Form = "secondary IPv4 addresses"
	IPv4Prefixes  Form = "IPv4 prefixes"
	IPv6          Form = "IPv6 addresses"
	IPv6Prefixes  Form = "IPv6 prefixes"
)

// AddressesKept says that an interface has more addresses of one form than its NodeENI asks for, and fewer that
// multieni requested.
func AddressesKept(id string, form Form, want, have, requested int) string {
	command := "unassign-private-ip-addresses"
	if form == IPv6 || form == IPv6Prefixes {
		command = "unassign-ipv6-addresses"
	}
	return fmt.Sprintf("%s keeps its %d %s, although its NodeENI asks for %d: multieni has a record of requesting only "+
		"%d, and the others may be in use; unassign those that nothing uses with aws ec2 %s --network-interface-id %s",
		id, have, form, want, requested, command, id)
}

// Counts writes how many addresses of each form an interface has.
func Counts(c eni.AddressCounts) string {
	return fmt.Sprintf("%d %s, %d %s, %d %s and %d %s",
		c.SecondaryIPv4, SecondaryIPv4, c.IPv4Prefixes, IPv4Prefixes, c.IPv6, IPv6, c.IPv6Prefixes, IPv6Prefixes)
}

// SubnetFull says that EC2 has too few free addresses for an interface in any of the subnets.
func SubnetFull(subnets []string, counts eni.AddressCounts, retry time.Duration) string {
	return fmt.Sprintf("EC2 has %s in %s; free some, or add a subnet; whether there are some again is tried every %s, by "+
		"one node at a time", missing(counts), strings.Join(subnets, ", "), duration(retry))
}

// missing says how many free IPv4 addresses a subnet needs for an interface: it can have some, and still too few.
func missing(counts eni.AddressCounts) string {
	prefixes := ""
	if counts.IPv4Prefixes > 0 {
		prefixes = ", 16 of them in a free block for each prefix (kubectl eni subnets shows the blocks)"
	}
	needed := 1 + counts.SecondaryIPv4 + eni.IPv4PrefixSize*counts.IPv4Prefixes
	if needed == 1 {
		return "no free address"
	}
	return fmt.Sprintf("fewer than the %d free addresses that the interface needs%s", needed, prefixes)
}

// NoFreePrefix says that EC2 has no free block for a prefix in any of the subnets.
func NoFreePrefix(subnets []string, retry time.Duration) string {
	return fmt.Sprintf("EC2 has no free block for a prefix in %s; %s; whether there is one again is tried every %s, by "+
		"one node at a time", strings.Join(subnets, ", "), reservePrefixes, duration(retry))
}
