// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"slices"
)

// InterfaceSettings are the settings of an interface at its creation, alone or with an instance.
type InterfaceSettings struct {
	SubnetID      string   `query:"SubnetId" json:"subnetId,omitempty"`
	Description   string   `query:"Description" json:"description,omitempty"`
	Groups        []string `query:"SecurityGroupId" json:"groups,omitempty" xml:"groupSet>groupId"`
	InterfaceType string   `query:"InterfaceType" json:"interfaceType,omitempty"`

	PrivateIPAddress               string                          `query:"PrivateIpAddress" json:"privateIpAddress,omitempty"`
	PrivateIPAddresses             []PrivateIPAddressSpecification `query:"PrivateIpAddresses" json:"privateIpAddresses,omitempty" xml:"privateIpAddressesSet"`
	SecondaryPrivateIPAddressCount *int                            `query:"SecondaryPrivateIpAddressCount" json:"secondaryPrivateIpAddressCount,omitempty"`
	IPv4Prefixes                   []IPv4PrefixSpecification       `query:"Ipv4Prefix" json:"ipv4Prefixes,omitempty" xml:"ipv4PrefixSet"`
	IPv4PrefixCount                *int                            `query:"Ipv4PrefixCount" json:"ipv4PrefixCount,omitempty"`
	IPv6Addresses                  []IPv6AddressSpecification      `query:"Ipv6Addresses" json:"ipv6Addresses,omitempty" xml:"ipv6AddressesSet"`
	IPv6AddressCount               *int                            `query:"Ipv6AddressCount" json:"ipv6AddressCount,omitempty"`
	IPv6Prefixes                   []IPv6PrefixSpecification       `query:"Ipv6Prefix" json:"ipv6Prefixes,omitempty" xml:"ipv6PrefixSet"`
	IPv6PrefixCount                *int                            `query:"Ipv6PrefixCount" json:"ipv6PrefixCount,omitempty"`

	ConnectionTracking *ConnectionTracking `query:"ConnectionTrackingSpecification" json:"connectionTrackingSpecification,omitempty"`
}

// PrivateIPAddressSpecification requests an IPv4 address.
type PrivateIPAddressSpecification struct {
	Primary          bool   `query:"Primary" json:"primary"`
	PrivateIPAddress string `query:"PrivateIpAddress" json:"privateIpAddress"`
}

// IPv4PrefixSpecification requests a /28.
type IPv4PrefixSpecification struct {
	IPv4Prefix string `query:"Ipv4Prefix" json:"ipv4Prefix"`
}

// IPv6AddressSpecification requests an IPv6 address.
type IPv6AddressSpecification struct {
	IPv6Address   string `query:"Ipv6Address" json:"ipv6Address"`
	IsPrimaryIPv6 bool   `query:"IsPrimaryIpv6" json:"isPrimaryIpv6"`
}

// IPv6PrefixSpecification requests a /80.
type IPv6PrefixSpecification struct {
	IPv6Prefix string `query:"Ipv6Prefix" json:"ipv6Prefix"`
}

// addressRequest has the requested addresses, in the form that all operations share.
type addressRequest struct {
	primary   string // "": any, if needPrimary
	needFirst bool   // whether the interface needs a primary IPv4 address

	ipv4, prefixes4, ipv6, prefixes6 family
}

// family requests given members, or a number of any.
type family struct {
	given []string
	count *int
}

func (f family) isEmpty() bool { return len(f.given) == 0 && f.count == nil }

// size returns the number of requested members.
func (f family) size() int {
	if f.count != nil {
		return *f.count
	}
	return len(f.given)
}

// addressRequest reads the settings of a new interface.
func (s InterfaceSettings) addressRequest() (addressRequest, error) {
	w := addressRequest{
		primary:   s.PrivateIPAddress,
		needFirst: s.InterfaceType != interfaceTypeEFAOnly,
		ipv4:      family{count: s.SecondaryPrivateIPAddressCount},
		prefixes4: family{count: s.IPv4PrefixCount,
			given: each(s.IPv4Prefixes, func(p IPv4PrefixSpecification) string { return p.IPv4Prefix })},
		ipv6: family{count: s.IPv6AddressCount,
			given: each(s.IPv6Addresses, func(a IPv6AddressSpecification) string { return a.IPv6Address })},
		prefixes6: family{count: s.IPv6PrefixCount,
			given: each(s.IPv6Prefixes, func(p IPv6PrefixSpecification) string { return p.IPv6Prefix })},
	}
	if slices.ContainsFunc(s.IPv6Addresses, func(a IPv6AddressSpecification) bool { return a.IsPrimaryIPv6 }) {
		return addressRequest{}, notModelled("primary IPv6 addresses")
	}
	for _, address := range s.PrivateIPAddresses {
		switch {
		case !address.Primary:
			w.ipv4.given = append(w.ipv4.given, address.PrivateIPAddress)
		case w.primary != "":
			return addressRequest{}, invalidCombination("Only one primary private IP address can be specified")
		default:
			w.primary = address.PrivateIPAddress
		}
	}
	if !w.needFirst && (w.primary != "" || w.members() > 0) {
		return addressRequest{}, invalidCombination("An EFA-only network interface has no IP addresses")
	}
	return w, w.validate()
}

// withoutIPv4 returns the request in an IPv6-only subnet: a new interface gets an IPv6 address in place of the primary
// IPv4 address (VPC user guide, "Subnet types").
func (w addressRequest) withoutIPv4() addressRequest {
	w = w.withIPv6()
	w.needFirst = false
	return w
}

// withIPv6 returns the request in a subnet whose interfaces get an IPv6 address when they are created (EC2 API
// reference, "AssignIpv6AddressOnCreation").
func (w addressRequest) withIPv6() addressRequest {
	if one := 1; w.needFirst && w.ipv6.size()+w.prefixes6.size() == 0 {
		w.ipv6 = family{count: &one}
	}
	return w
}

func (w addressRequest) members() int {
	return w.ipv4.size() + w.prefixes4.size() + w.ipv6.size() + w.prefixes6.size()
}

// validate checks EC2's rule that secondary addresses and prefixes of one IP version exclude each other, and that a
// request either names or counts them.
func (w addressRequest) validate() error {
	for _, pair := range [][2]family{{w.ipv4, w.prefixes4}, {w.ipv6, w.prefixes6}} {
		if !pair[0].isEmpty() && !pair[1].isEmpty() {
			return invalidCombination("Addresses and prefixes of one IP version cannot be specified in the same request")
		}
	}
	for _, f := range []family{w.ipv4, w.prefixes4, w.ipv6, w.prefixes6} {
		switch {
		case f.count != nil && *f.count < 0:
			return invalidValue("Value (%d) for a number of addresses is invalid. It cannot be negative.", *f.count)
		case f.count != nil && len(f.given) > 0:
			return invalidCombination("Addresses and a number of addresses cannot be specified in the same request")
		}
	}
	return nil
}

// grant has addresses that were taken from a pool.
type grant struct {
	primary   netip.Addr
	ipv4      []netip.Addr
	prefixes4 []netip.Prefix
	ipv6      []netip.Addr
	prefixes6 []netip.Prefix
}

// unique drops duplicates, so that no address is freed twice.
func (g grant) unique() grant {
	return grant{g.primary, distinct(g.ipv4), distinct(g.prefixes4), distinct(g.ipv6), distinct(g.prefixes6)}
}

func distinct[E comparable](list []E) []E {
	var seen []E
	for _, element := range list {
		if !slices.Contains(seen, element) {
			seen = append(seen, element)
		}
	}
	return seen
}

// grant fulfills a request completely, or takes no address.
func (p *pool) grant(w addressRequest) (grant, error) {
	var g grant
	if !p.hasIPv4() {
		if w.primary != "" || w.ipv4.size()+w.prefixes4.size() > 0 {
			return grant{}, invalidValue("The specified subnet does not have an IPv4 CIDR block associated with it")
		}
		w = w.withoutIPv4()
	}
	for _, step := range []func(*grant, addressRequest) error{p.grantGiven, p.grantPrimary, p.grantIPv4, p.grantPrefixes4,
		p.grantIPv6, p.grantPrefixes6} {
		if err := step(&g, w); err != nil {
			p.giveBack(g)
			return grant{}, err
		}
	}
	return g, nil
}

// grantGiven comes first, so that no request without a named address gets an address that another request names.
func (p *pool) grantGiven(g *grant, w addressRequest) error {
	if w.primary != "" {
		address, err := p.takeNamed(w.primary)
		if err != nil {
			return err
		}
		g.primary = address
	}
	for _, text := range w.ipv4.given {
		address, err := p.takeNamed(text)
		if err != nil {
			return err
		}
		g.ipv4 = append(g.ipv4, address)
	}
	for _, text := range w.prefixes4.given {
		prefix, err := parsePrefix(text, p.cidr, ipv4PrefixBits)
		if err != nil {
			return err
		}
		if !p.takeThisPrefix(prefix) {
			return addressInUse(text)
		}
		g.prefixes4 = append(g.prefixes4, prefix)
	}
	return nil
}

func (p *pool) grantPrimary(g *grant, w addressRequest) error {
	if !w.needFirst || g.primary.IsValid() {
		return nil
	}
	address, ok := p.take()
	if !ok {
		return subnetFull()
	}
	g.primary = address
	return nil
}

func (p *pool) grantIPv4(g *grant, w addressRequest) error {
	for len(g.ipv4) < w.ipv4.size() {
		address, ok := p.take()
		if !ok && w.needFirst {
			return noAddresses()
		}
		if !ok {
			return subnetFull()
		}
		g.ipv4 = append(g.ipv4, address)
	}
	return nil
}

func (p *pool) grantPrefixes4(g *grant, w addressRequest) error {
	for len(g.prefixes4) < w.prefixes4.size() {
		prefix, ok := p.takePrefix()
		if !ok && p.free < 16 {
			return noAddresses()
		}
		if !ok {
			return refuse("InsufficientCidrBlocks",
				"The specified subnet does not have enough free cidr blocks to satisfy the request.")
		}
		g.prefixes4 = append(g.prefixes4, prefix)
	}
	return nil
}

func (p *pool) grantIPv6(g *grant, w addressRequest) error {
	if w.ipv6.size()+w.prefixes6.size() > 0 && !p.hasIPv6() {
		return invalidValue("The specified subnet does not have an IPv6 CIDR block associated with it")
	}
	for _, text := range w.ipv6.given {
		address, err := parseAddress(text, p.cidr6)
		if err != nil {
			return err
		}
		if !p.takeThis6(address) {
			return addressInUse(text)
		}
		g.ipv6 = append(g.ipv6, address)
	}
	for len(g.ipv6) < w.ipv6.size() {
		g.ipv6 = append(g.ipv6, p.take6())
	}
	return nil
}

func (p *pool) grantPrefixes6(g *grant, w addressRequest) error {
	for _, text := range w.prefixes6.given {
		prefix, err := parsePrefix(text, p.cidr6, ipv6PrefixBits)
		if err != nil {
			return err
		}
		if !p.takeThisPrefix6(prefix) {
			return addressInUse(text)
		}
		g.prefixes6 = append(g.prefixes6, prefix)
	}
	for len(g.prefixes6) < w.prefixes6.size() {
		g.prefixes6 = append(g.prefixes6, p.takePrefix6())
	}
	return nil
}

// takeNamed takes a requested IPv4 address.
func (p *pool) takeNamed(text string) (netip.Addr, error) {
	address, err := parseAddress(text, p.cidr)
	if err != nil {
		return netip.Addr{}, err
	}
	if i := p.offset(address); i < reservedAtStart || i >= p.size-reservedAtEnd {
		return netip.Addr{}, invalidValue("Address %s is in subnet's reserved address range", text)
	}
	if !p.takeThis(address) {
		return netip.Addr{}, addressInUse(text)
	}
	return address, nil
}

// restore returns what was granted to the pool.
func (p *pool) giveBack(g grant) {
	if g.primary.IsValid() {
		p.release(g.primary)
	}
	for _, address := range g.ipv4 {
		p.release(address)
	}
	for _, prefix := range g.prefixes4 {
		p.releasePrefix(prefix)
	}
	for _, address := range g.ipv6 {
		p.release6(address)
	}
	for _, prefix := range g.prefixes6 {
		p.releasePrefix6(prefix)
	}
}

func parseAddress(text string, cidr netip.Prefix) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Is4() != cidr.Addr().Is4() {
		return netip.Addr{}, invalidValue("invalid value for parameter address: %s", text)
	}
	if !cidr.Contains(address) {
		return netip.Addr{}, invalidValue("Address %s does not fall within the subnet's address range", text)
	}
	return address, nil
}

func parsePrefix(text string, cidr netip.Prefix, bits int) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Bits() != bits || prefix != prefix.Masked() || !cidr.Contains(prefix.Addr()) {
		return netip.Prefix{}, invalidValue("%s is not a /%d prefix of the subnet %s", text, bits, cidr)
	}
	return prefix, nil
}

func addressInUse(text string) error {
	return refuse("InvalidIPAddress.InUse", "The specified address is already in use: %s", text)
}
