// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

const (
	// NetworkVersion is the version of the file of a network. A CNI program and an agent of different releases share the
	// files for a while, during an upgrade or after a return to an earlier release. So a file only gains fields, and
	// programs ignore those that they do not know. A field without which a network would be misread raises the version.
	NetworkVersion = 2
	// LeaseVersion is the version of the file of a lease. It has no fields that raise it: every release must be able to
	// end the leases of every other.
	LeaseVersion = 1
	// IPv4PrefixBits is the length of the IPv4 prefixes that EC2 assigns to interfaces.
	IPv4PrefixBits = 28
	// IPv6PrefixBits is the length of the IPv6 prefixes that EC2 assigns to interfaces.
	IPv6PrefixBits = 80
	// MaxSize bounds both files, in bytes.
	MaxSize = 64 << 10

	maxPrefixes = 64
	maxGranted  = 32
	maxRoutes   = 64
	maxName     = 253
)

// Attachment says how a pod gets its link.
type Attachment string

const (
	// IPVLAN gives each pod its own link on the interface, and an address from the interface's prefixes.
	IPVLAN Attachment = "IPVLAN"
	// HostDevice moves the interface itself into one pod, which gets the interface's primary address.
	HostDevice Attachment = "HostDevice"
	// Observed leaves links and addresses to the user. No pod gets an address from the network.
	Observed Attachment = "Observed"
)

// Network is the pod network of one interface on one node, as the agent writes it.
type Network struct {
	Name    string `json:"name"`
	NodeENI string `json:"nodeENI"`
	Node    string `json:"node"`
	// Link is a name of the link on the node.
	Link       string     `json:"link"`
	ENI        string     `json:"eniID"`
	MAC        string     `json:"mac"`
	MTU        int        `json:"mtu,omitempty"`
	Attachment Attachment `json:"attachment"`
	// UID is that of the NetworkInterface for which the file is open or closed.
	UID string `json:"uid"`
	// Phase says whether further pods can get addresses.
	Phase Phase `json:"phase"`
	// IPv4 and IPv6 are the families from which a pod gets an address. A pod gets one address of each, or none at all.
	// Only a closed network can have neither family, because the ranges of its subnet may be unknown.
	IPv4 *Family `json:"ipv4,omitempty"`
	IPv6 *Family `json:"ipv6,omitempty"`
	// Addresses are the interface's own, the primary one first. Pods get them with HostDevice.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Routes are the destinations that pods reach through the gateway of the subnet.
	Routes []netip.Prefix `json:"routes,omitempty"`
}

// Phase says whether further pods can get addresses of a network.
type Phase string

const (
	// Open networks take further pods: the API server knows that they can.
	Open Phase = "Open"
	// Closed networks keep the leases of their pods.
	Closed Phase = "Closed"
)

// Family is the IPv4 or the IPv6 part of a pod network.
type Family struct {
	Subnet  netip.Prefix `json:"subnet"`
	Gateway netip.Addr   `json:"gateway"`
	// MaxPrefixes is the largest number of prefixes that the NodeENI allows; 0 if unknown.
	MaxPrefixes int `json:"maxPrefixes,omitempty"`
	// Prefixes are the blocks of addresses that EC2 assigned to the interface.
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	// Granted are the IPv4 ranges of the subnet whose addresses pods may ask for. An address of a prefix is not one of
	// them: EC2 moves none.
	Granted []netip.Prefix `json:"granted,omitempty"`
}

// networkFile is the content of the file of a network.
type networkFile struct {
	Version int `json:"version"`
	Network
}

// LaterVersionError means that an agent of a later release wrote the file of a network, with a field without which the
// network is misread.
type LaterVersionError struct{ Version int }

func (e *LaterVersionError) Error() string {
	return fmt.Sprintf("the file has version %d, and this program reads version %d", e.Version, NetworkVersion)
}

// ParseNetwork parses the file of a network. It ignores unknown fields, which a later agent can write, and rejects
// invalid values. The error is a [LaterVersionError] for a file that only a later release reads as it is meant. The
// network that ParseNetwork returns with that error has the known fields: it is good for an agent, which writes the
// file again, and no pod may get an address of it.
func ParseNetwork(text []byte) (Network, error) {
	var file networkFile
	if err := decode(text, &file); err != nil {
		return Network{}, err
	}
	if file.Version < NetworkVersion {
		return Network{}, fmt.Errorf("version is %d, want %d", file.Version, NetworkVersion)
	}
	var later error
	if file.Version > NetworkVersion {
		later = &LaterVersionError{file.Version}
	}
	if err := file.Validate(); err != nil {
		return Network{}, cmp.Or(later, err)
	}
	return file.Network, later
}

// decode reads one JSON value and nothing after it.
func decode(text []byte, value any) error {
	if len(text) > MaxSize {
		return fmt.Errorf("%d bytes, at most %d are allowed", len(text), MaxSize)
	}
	return json.Unmarshal(text, value)
}

// Encode returns the content of the network's file.
func (n Network) Encode() ([]byte, error) {
	if err := n.Validate(); err != nil {
		return nil, err
	}
	return encode(networkFile{NetworkVersion, n})
}

func encode(value any) ([]byte, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, err
	}
	if len(text) >= MaxSize {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(text)+1, MaxSize)
	}
	return append(text, '\n'), nil
}

// Validate returns the first invalid field of the network.
func (n Network) Validate() error {
	for field, name := range map[string]string{"name": n.Name, "nodeENI": n.NodeENI, "node": n.Node, "link": n.Link} {
		if err := ValidateName(name); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	if err := n.validatePhase(); err != nil {
		return err
	}
	if err := n.IPv4.validate(true); err != nil {
		return fmt.Errorf("ipv4: %w", err)
	}
	if err := n.IPv6.validate(false); err != nil {
		return fmt.Errorf("ipv6: %w", err)
	}
	return n.validateRest()
}

// validatePhase validates what the use of the network depends on. A closed one may lack everything about addresses: the
// interface may have no network for pods any more.
func (n Network) validatePhase() error {
	none := n.Attachment == "" && !n.IsOpen()
	switch {
	case n.Attachment != IPVLAN && n.Attachment != HostDevice && n.Attachment != Observed && !none:
		return fmt.Errorf("attachment is %q, want %s, %s or %s", n.Attachment, IPVLAN, HostDevice, Observed)
	case n.Phase != Open && n.Phase != Closed:
		return fmt.Errorf("phase is %q, want %s or %s", n.Phase, Open, Closed)
	case n.UID == "" || len(n.UID) > maxText:
		return fmt.Errorf("uid is %q, want that of the NetworkInterface", n.UID)
	case n.IPv4 == nil && n.IPv6 == nil && n.Attachment != Observed && n.IsOpen():
		return errors.New("neither ipv4 nor ipv6: pods would get no address")
	}
	return nil
}

func (n Network) validateRest() error {
	if n.MTU < 0 || n.MTU > 1<<16 {
		return fmt.Errorf("mtu is %d, want 0 to 65536", n.MTU)
	}
	if len(n.Addresses) > maxPrefixes {
		return fmt.Errorf("%d addresses, at most %d are allowed", len(n.Addresses), maxPrefixes)
	}
	seen := map[netip.Addr]bool{}
	for _, a := range n.Addresses {
		if !n.Covers(a) || seen[a] {
			return fmt.Errorf("addresses: %v is twice there, or in no subnet of the network", a)
		}
		seen[a] = true
	}
	if len(n.Routes) > maxRoutes {
		return fmt.Errorf("%d routes, at most %d are allowed", len(n.Routes), maxRoutes)
	}
	for _, r := range n.Routes {
		if !isNetwork(r) {
			return fmt.Errorf("routes: %v is no network", r)
		}
	}
	return nil
}

// Covers reports whether the network has a family whose subnet contains the address.
func (n Network) Covers(a netip.Addr) bool {
	family := n.family(a)
	return family != nil && family.Subnet.Contains(a)
}

// family returns the family of the address, or nil.
func (n Network) family(a netip.Addr) *Family {
	switch {
	case a.Is4():
		return n.IPv4
	case a.Is6() && !a.Is4In6():
		return n.IPv6
	}
	return nil
}

func (f *Family) validate(is4 bool) error {
	if f == nil {
		return nil
	}
	bits := IPv6PrefixBits
	if is4 {
		bits = IPv4PrefixBits
	}
	if !isNetwork(f.Subnet) || f.Subnet.Addr().Is4() != is4 {
		return fmt.Errorf("subnet: %v is no network of this family", f.Subnet)
	}
	if !isAddress(f.Gateway) || f.Gateway.Is4() != is4 {
		return fmt.Errorf("gateway: %v is no address of this family", f.Gateway)
	}
	if f.MaxPrefixes < 0 || len(f.Prefixes) > maxPrefixes {
		return fmt.Errorf("%d prefixes of %d, at most %d are allowed", len(f.Prefixes), f.MaxPrefixes, maxPrefixes)
	}
	seen := map[netip.Prefix]bool{}
	for _, p := range f.Prefixes {
		if !isNetwork(p) || p.Bits() != bits || !contains(f.Subnet, p) || seen[p] {
			return fmt.Errorf("prefixes: %v is twice there, or no /%d of subnet %v", p, bits, f.Subnet)
		}
		seen[p] = true
	}
	return f.validateGranted()
}

// isNetwork reports whether a prefix is valid and has no host bits.
func isNetwork(p netip.Prefix) bool { return p.IsValid() && p == p.Masked() && !p.Addr().Is4In6() }

func isAddress(a netip.Addr) bool { return a.IsValid() && !a.Is4In6() && a.Zone() == "" }

func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// ValidateName rejects a name, for example of a network, that is not a single path element.
func ValidateName(name string) error {
	if name == "" || len(name) > maxName || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q is no name of 1 to %d characters that starts without a dot", name, maxName)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r) {
			return fmt.Errorf("%q contains %q; a name has letters, digits, '-', '_' and '.'", name, r)
		}
	}
	return nil
}
