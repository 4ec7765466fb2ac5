// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// Traffic are packets that security groups must allow.
type Traffic struct {
	// Protocol is ICMP, TCP, UDP or SCTP.
	Protocol Protocol
	// Port is the destination port; with ICMP it has no meaning.
	Port int
}

// Protocol is a protocol on top of IP.
type Protocol string

// The protocols.
const (
	// ICMP is an echo request of ICMP, or of ICMPv6 between IPv6 addresses.
	ICMP Protocol = "ICMP"
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// ParseTraffic parses PORT[/PROTOCOL], such as 8805/UDP. The protocol is TCP if it is absent.
func ParseTraffic(text string) (Traffic, error) {
	number, protocol, named := strings.Cut(text, "/")
	t := Traffic{Protocol: TCP}
	if named {
		t.Protocol = Protocol(strings.ToUpper(protocol))
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 || !slices.Contains([]Protocol{TCP, UDP, SCTP}, t.Protocol) {
		return Traffic{}, fmt.Errorf("%q is not PORT[/PROTOCOL] with a port from 1 to 65535 and TCP, UDP or SCTP", text)
	}
	t.Port = int(port)
	return t, nil
}

func (t Traffic) String() string {
	if t.Protocol == ICMP {
		return "ICMP echo"
	}
	return fmt.Sprintf("%s port %d", t.Protocol, t.Port)
}

// The types of echo requests (RFC 792 and RFC 4443).
const (
	echoRequest   = 8
	echoRequestV6 = 128
)

// matches reports whether a rule is about the traffic to an address. EC2 compares ports for TCP and UDP only: a rule
// with the number of another protocol has all of its ports (Amazon VPC user guide, "Security group rules").
func (t Traffic) matches(rule eni.GroupRule, to netip.Addr) bool {
	if rule.Protocol == eni.AnyProtocol {
		return true
	}
	switch t.Protocol {
	case SCTP:
		const number = "132" // IANA, "Protocol Numbers"
		return rule.Protocol == number
	case ICMP:
		protocol, kind := "icmp", echoRequest
		if to.Is6() {
			protocol, kind = "icmpv6", echoRequestV6
		}
		return rule.Protocol == protocol && (rule.FromPort == eni.AnyPort ||
			rule.FromPort == kind && (rule.ToPort == eni.AnyPort || rule.ToPort == 0))
	default:
		return rule.Protocol == strings.ToLower(string(t.Protocol)) &&
			(rule.FromPort == eni.AnyPort || rule.FromPort <= t.Port && t.Port <= rule.ToPort)
	}
}

// permission is whether security groups allow packets.
type permission int

const (
	denied permission = iota
	// perhaps is the permission by a prefix list, whose entries other calls return.
	perhaps
	allowed
)

// permits returns whether one of the rules allows the traffic to an address, where the other end has an address and
// security groups.
func (t Traffic) permits(rules []eni.GroupRule, to, other netip.Addr, groups []string) permission {
	best := denied
	for _, rule := range rules {
		if !t.matches(rule, to) {
			continue
		}
		switch {
		case slices.ContainsFunc(rule.CIDRs, func(p netip.Prefix) bool { return p.Contains(other) }),
			slices.ContainsFunc(rule.Groups, func(id string) bool { return slices.Contains(groups, id) }):
			return allowed
		case len(rule.PrefixLists) > 0:
			best = perhaps
		}
	}
	return best
}

// rulesOf returns the rules of groups in one direction, and false if EC2 did not return one of the groups.
func (e EC2) rulesOf(groups []string, direction func(eni.GroupRules) []eni.GroupRule) ([]eni.GroupRule, bool) {
	var rules []eni.GroupRule
	complete := true
	for _, id := range groups {
		group, known := e.Groups[id]
		complete = complete && known
		rules = append(rules, direction(group)...)
	}
	return rules, complete
}

func ingress(g eni.GroupRules) []eni.GroupRule { return g.Ingress }

func egress(g eni.GroupRules) []eni.GroupRule { return g.Egress }
