// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Call is one mutating call to EC2. The set is closed: [Create], [Attach], [Detach], [Delete] and [Change].
type Call interface {
	// Of returns the interface that the call is for.
	Of() identity.Interface
	// Interface returns the ID of the call's interface; empty for one that does not exist yet.
	Interface() string
	// String describes the call in one line.
	String() string
	call()
}

// Create creates an interface. A repetition has the same client token, so that EC2 answers with the same interface.
type Create struct {
	Key      identity.Interface
	SubnetID string
	Slot     eni.Slot
	Spec     eni.Spec
	// Tags are all tags of the interface.
	Tags map[string]string
}

// Attach attaches an interface.
type Attach struct {
	Key         identity.Interface
	InterfaceID string
	Slot        eni.Slot
	// ENAExpress is the setting of the attachment from its start; empty to leave it to EC2, which sets none.
	ENAExpress eni.ENAExpress
}

// Detach begins to detach an interface whose object is final. Force makes it a forced detach, which does not wait for
// the guest operating system.
type Detach struct {
	Key                       identity.Interface
	InterfaceID, AttachmentID string
	Force                     bool
	Why                       string
}

// Delete deletes an unattached interface whose object is final.
type Delete struct {
	Key         identity.Interface
	InterfaceID string
	Why         string
}

// Change updates one attribute of an existing interface in place.
type Change struct {
	Key         identity.Interface
	InterfaceID string
	To          Attribute
	// Repetition is set when EC2 accepted the change before and did not keep it. EC2's acceptance of the repetition is
	// then no evidence that the change lasts.
	Repetition bool
}

// Attribute is the desired value of one attribute that EC2 can update in place. The set is closed: [Groups],
// [Description], [SourceDestCheck], [DeleteOnTermination], [ConnectionTracking], [ENAExpress], [Tags],
// [AssignAddresses] and [UnassignAddresses].
type Attribute interface {
	// Apply returns the interface with the desired value.
	Apply(eni.Interface) eni.Interface
	// IsSatisfiedBy reports whether a read of the interface shows the desired value.
	IsSatisfiedBy(eni.Interface) bool
	// String describes the change in a few words.
	String() string
}

// Of implements [Call].
func (a Create) Of() identity.Interface { return a.Key }

// Of implements [Call].
func (a Attach) Of() identity.Interface { return a.Key }

// Of implements [Call].
func (a Detach) Of() identity.Interface { return a.Key }

// Of implements [Call].
func (a Delete) Of() identity.Interface { return a.Key }

// Of implements [Call].
func (a Change) Of() identity.Interface { return a.Key }

// Interface implements [Call].
func (a Create) Interface() string { return "" }

// Interface implements [Call].
func (a Attach) Interface() string { return a.InterfaceID }

// Interface implements [Call].
func (a Detach) Interface() string { return a.InterfaceID }

// Interface implements [Call].
func (a Delete) Interface() string { return a.InterfaceID }

// Interface implements [Call].
func (a Change) Interface() string { return a.InterfaceID }

// WritesTags reports whether a call writes tags, and nothing else.
func WritesTags(call Call) bool {
	change, _ := call.(Change)
	return isTags(change.To)
}

func (Create) call() {}
func (Attach) call() {}
func (Detach) call() {}
func (Delete) call() {}
func (Change) call() {}

func (a Create) String() string {
	return fmt.Sprintf("create an interface in %s for %s", a.SubnetID, a.Slot)
}

func (a Attach) String() string {
	with := ""
	if a.ENAExpress != "" {
		with = ", ENA Express " + string(a.ENAExpress)
	}
	return fmt.Sprintf("attach %s at %s%s", a.InterfaceID, a.Slot, with)
}

func (a Detach) String() string {
	how := "detach"
	if a.Force {
		how = "force-detach"
	}
	return fmt.Sprintf("%s %s: %s", how, a.InterfaceID, a.Why)
}

func (a Delete) String() string { return fmt.Sprintf("delete %s: %s", a.InterfaceID, a.Why) }

func (a Change) String() string { return fmt.Sprintf("set %s of %s", a.To, a.InterfaceID) }

// Groups replaces the security groups.
type Groups []string

// Apply implements [Attribute].
func (g Groups) Apply(i eni.Interface) eni.Interface { i.Groups = slices.Clone(g); return i }

// IsSatisfiedBy implements [Attribute].
func (g Groups) IsSatisfiedBy(i eni.Interface) bool { return sameSet(g, i.Groups) }

func (g Groups) String() string { return "security groups " + strings.Join(g, ",") }

// Description sets the description.
type Description string

// Apply implements [Attribute].
func (d Description) Apply(i eni.Interface) eni.Interface { i.Description = string(d); return i }

// IsSatisfiedBy implements [Attribute].
func (d Description) IsSatisfiedBy(i eni.Interface) bool { return i.Description == string(d) }

func (d Description) String() string { return fmt.Sprintf("description %q", string(d)) }

// SourceDestCheck switches the source/destination check.
type SourceDestCheck bool

// Apply implements [Attribute].
func (s SourceDestCheck) Apply(i eni.Interface) eni.Interface { i.SourceDestCheck = bool(s); return i }

// IsSatisfiedBy implements [Attribute].
func (s SourceDestCheck) IsSatisfiedBy(i eni.Interface) bool { return i.SourceDestCheck == bool(s) }

func (s SourceDestCheck) String() string { return fmt.Sprintf("source/dest check %t", bool(s)) }

// DeleteOnTermination says whether EC2 deletes the interface with its instance. It is an attribute of the attachment.
type DeleteOnTermination struct {
	AttachmentID string
	Enabled      bool
}

// Apply implements [Attribute].
func (d DeleteOnTermination) Apply(i eni.Interface) eni.Interface {
	if i.Attachment != nil && i.Attachment.ID == d.AttachmentID {
		a := *i.Attachment
		a.DeleteOnTermination = d.Enabled
		i.Attachment = &a
	}
	return i
}

// IsSatisfiedBy implements [Attribute]. Without an attachment there is nothing to satisfy.
func (d DeleteOnTermination) IsSatisfiedBy(i eni.Interface) bool {
	return i.Attachment == nil || i.Attachment.ID != d.AttachmentID || i.Attachment.DeleteOnTermination == d.Enabled
}

func (d DeleteOnTermination) String() string {
	return fmt.Sprintf("delete on termination %t", d.Enabled)
}

// Tags adds tags to those of the interface.
type Tags map[string]string

// Apply implements [Attribute].
func (t Tags) Apply(i eni.Interface) eni.Interface {
	tags := maps.Clone(i.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, t)
	i.Tags = tags
	return i
}

// IsSatisfiedBy implements [Attribute].
func (t Tags) IsSatisfiedBy(i eni.Interface) bool {
	for k, v := range t {
		if have, ok := i.Tags[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func (t Tags) String() string {
	return "tags " + strings.Join(slices.Sorted(maps.Keys(t)), ",")
}

// Family is an IP family.
type Family int

// The families of addresses.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// AssignAddresses makes EC2 assign a number of further addresses or prefixes of one family.
type AssignAddresses struct {
	Family              Family
	Addresses, Prefixes int
	// Had is the number before the change.
	Had eni.AddressCounts
}

// Apply implements [Attribute]. The chosen addresses are known only from EC2's answer.
func (m AssignAddresses) Apply(i eni.Interface) eni.Interface { return i }

// IsSatisfiedBy implements [Attribute].
func (m AssignAddresses) IsSatisfiedBy(i eni.Interface) bool {
	have, had := i.Counts(), m.Had
	addresses, prefixes := have.SecondaryIPv4-had.SecondaryIPv4, have.IPv4Prefixes-had.IPv4Prefixes
	if m.Family == IPv6 {
		addresses, prefixes = have.IPv6-had.IPv6, have.IPv6Prefixes-had.IPv6Prefixes
	}
	return (m.Addresses == 0 || addresses >= m.Addresses) && (m.Prefixes == 0 || prefixes >= m.Prefixes)
}

func (m AssignAddresses) String() string {
	return difference("more", m.Family, m.Addresses, m.Prefixes)
}

// UnassignAddresses unassigns the named addresses and prefixes of one family.
type UnassignAddresses struct {
	Family  Family
	Surplus eni.Addresses
}

// Apply implements [Attribute].
func (f UnassignAddresses) Apply(i eni.Interface) eni.Interface {
	i.SecondaryIPv4 = without(i.SecondaryIPv4, f.Surplus.SecondaryIPv4)
	i.IPv4Prefixes = without(i.IPv4Prefixes, f.Surplus.IPv4Prefixes)
	i.IPv6 = without(i.IPv6, f.Surplus.IPv6)
	i.IPv6Prefixes = without(i.IPv6Prefixes, f.Surplus.IPv6Prefixes)
	return i
}

// IsSatisfiedBy implements [Attribute].
func (f UnassignAddresses) IsSatisfiedBy(i eni.Interface) bool {
	after := f.Apply(i)
	return after.Counts() == i.Counts()
}

func (f UnassignAddresses) String() string {
	c := f.Surplus.Counts()
	return difference("fewer", f.Family, c.SecondaryIPv4+c.IPv6, c.IPv4Prefixes+c.IPv6Prefixes)
}

// difference describes the counts of a change that are not zero.
func difference(direction string, family Family, addresses, prefixes int) string {
	var parts []string
	add := func(n int, noun string) {
		switch {
		case n == 1:
			parts = append(parts, fmt.Sprintf("1 %s IPv%d %s", direction, family, noun))
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s IPv%d %ses", n, direction, family, noun))
		}
	}
	add(addresses, "address")
	add(prefixes, "prefix")
	return strings.Join(parts, " and ")
}

func without[T interface{ netip.Addr | netip.Prefix }](all, surplus []T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(a T) bool { return slices.Contains(surplus, a) })
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func isTags(a Attribute) bool {
	_, is := a.(Tags)
	return is
}
