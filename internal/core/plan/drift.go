// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// Drift is a difference between an interface and the desired one that only a replacement can correct.
type Drift struct {
	Field, Want, Have string
}

// SubnetDrift and SlotDrift are the fields of [Drift].
const (
	SubnetDrift = "subnet"
	SlotDrift   = "slot"
)

// String implements [fmt.Stringer].
func (d Drift) String() string { return fmt.Sprintf("%s: want %s, have %s", d.Field, d.Want, d.Have) }

// attributes lists the attributes of a member's interface to update in place, in the order of the calls.
func (p *planner) attributes(m *Interface, desired DesiredInterface, tags map[string]string, i eni.Interface,
) []Attribute {
	var wanted []Attribute
	if a := i.Attachment; a != nil {
		wanted = append(wanted, DeleteOnTermination{AttachmentID: a.ID, Enabled: desired.Spec.DeleteOnTermination})
	}
	wanted = append(wanted, SourceDestCheck(desired.Spec.SourceDestCheck),
		Description(desired.Spec.Description), Tags(tags))
	if len(desired.Spec.Groups) > 0 {
		wanted = append(wanted, Groups(desired.Spec.Groups))
	}
	wanted = append(wanted, p.enaAttributes(m, i)...)
	wanted = append(wanted, p.demandFor(m, i).changes(i.Addresses)...)

	var todo []Attribute
	for _, a := range wanted {
		if !a.IsSatisfiedBy(i) {
			todo = append(todo, a)
		}
	}
	return todo
}

// addressProblem returns the problem of more addresses than one interface of the instance type supports, with the
// fields to lower; nil for fewer.
func addressProblem(m *Interface, limits eni.Limits, instanceType string) *Problem {
	want := m.Settings.Spec.AddressCounts
	v4, v6 := want.SecondaryIPv4+want.IPv4Prefixes, want.IPv6+want.IPv6Prefixes
	switch {
	case limits.IPv4 > 0 && 1+v4 > limits.IPv4:
		field := "secondaryPrivateIPAddressCount or ipv4PrefixCount"
		if m.PodPrefixes.Max > 0 { // it excludes the other fields
			field = "pods.ipv4.prefixes.min"
		}
		return &Problem{AddressLimit, fmt.Sprintf(
			"%d IPv4 addresses and prefixes are declared in addition to the primary address, and an interface of %s takes %d; "+
				"lower %s, or use a larger instance type", v4, instanceType, limits.IPv4-1, field)}
	case limits.IPv6 > 0 && v6 > limits.IPv6:
		return &Problem{AddressLimit, fmt.Sprintf(
			"%d IPv6 addresses and prefixes are declared, and an interface of %s takes %d; "+
				"lower ipv6AddressCount, ipv6PrefixCount or pods.ipv6.prefixes, or use a larger instance type", v6,
			instanceType, limits.IPv6)}
	}
	return nil
}

// explainDrift says what happens to an attached member with drift.
func (p *planner) explainDrift(s step) step {
	m := s.m
	switch {
	case len(m.Drift) == 0 || s.Phase != Attached || s.Why.Reason != "":
		return s
	case !m.ReplaceAllowed:
		s.Why = Problem{Drifted, driftMessage(m)}
		return s
	}
	if forbids := p.forbidsReplacement(m); forbids != nil {
		s.Why = *forbids
		return s.requeue(p.now.Add(foreignSlotRecheck))
	}
	s.Why = p.waitsForReplacement(m)
	return s
}

// driftMessage says what updatePolicy: Replace would do about the drift of an interface in use. An interface leaves its
// slot by a detach and an attach, and stays the same; it cannot leave its subnet.
func driftMessage(m *Interface) string {
	replace := "only a new interface can have what is declared"
	if !slices.ContainsFunc(m.Drift, func(d Drift) bool { return d.Field != SlotDrift }) {
		replace = "only a detach and an attach move it"
	}
	return fmt.Sprintf("%s is not as declared (%s), and %s; set updatePolicy: Replace, or change the NodeENI back",
		m.Record.ID, joinWords(m.Drift), replace)
}

// joinWords writes drift in one line.
func joinWords(all []Drift) string {
	words := make([]string, len(all))
	for n, d := range all {
		words[n] = d.String()
	}
	return strings.Join(words, ", ")
}

// explainGroups says that an interface in use keeps its security groups, because the desired ones are unknown.
func (s step) explainGroups(i eni.Interface) step {
	if no := s.m.SecurityGroupProblem; no != nil && s.Phase == Attached && s.Why.Reason == "" {
		s.Why = Problem{no.Reason, fmt.Sprintf("%s keeps the security groups that it has (%s), since %s",
			i.ID, strings.Join(i.Groups, ", "), no.Message)}
	}
	return s
}
