// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import "net/netip"

// GroupRules are the rules of one security group. A group allows what one of its rules allows, and an interface what
// one of its groups allows (Amazon VPC user guide, "Security group rules").
type GroupRules struct {
	ID string
	// Ingress has the rules for packets to an interface with the group, Egress those for packets from it.
	Ingress, Egress []GroupRule
}

// GroupRule is one rule of a security group.
type GroupRule struct {
	// Protocol is tcp, udp, icmp, icmpv6, another protocol's number, or [AnyProtocol].
	Protocol string
	// FromPort and ToPort are the first and the last port. With icmp and icmpv6, FromPort is the type and ToPort the code;
	// [AnyPort] is every one.
	FromPort, ToPort int
	// CIDRs, Groups and PrefixLists are the other ends: ranges, the IDs of security groups, and of managed prefix lists.
	CIDRs               []netip.Prefix
	Groups, PrefixLists []string
}

// The values of a [GroupRule] for every protocol, and for every port, type or code.
const (
	AnyProtocol = "-1"
	AnyPort     = -1
)
