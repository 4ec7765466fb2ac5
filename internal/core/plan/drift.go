// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// Drift is a difference between an interface and the desired one that only a replacement can correct.
type Drift struct {
	Field, Want, Have string
}

// String implements [fmt.Stringer].
func (d Drift) String() string { return fmt.Sprintf("%s: want %s, have %s", d.Field, d.Want, d.Have) }

// fixedDrift lists the differences that cannot be updated in place: EC2 binds an interface to its subnet, and an
// attachment to its slot. The target is the slot where the interface belongs.
func fixedDrift(wish DesiredInterface, target eni.Slot, i eni.Interface) []Drift {
	var drift []Drift
	if !wish.allows(i.SubnetID) {
		drift = append(drift, Drift{"subnet", strings.Join(wish.Subnets, " or "), i.SubnetID})
	}
	if i.Attachment != nil && i.Attachment.Slot != target {
		drift = append(drift, Drift{"slot", target.String(), i.Attachment.Slot.String()})
	}
	return drift
}

// changes lists the attributes to update in place, in the order of the calls.
func changes(wish DesiredInterface, tags map[string]string, i eni.Interface, addresses addressDemand) []Attribute {
	var wanted []Attribute
	if a := i.Attachment; a != nil {
		wanted = append(wanted, DeleteOnTermination{AttachmentID: a.ID, Enabled: wish.Spec.DeleteOnTermination})
	}
	wanted = append(wanted, SourceDestCheck(wish.Spec.SourceDestCheck), Description(wish.Spec.Description), Tags(tags))
	if len(wish.Spec.Groups) > 0 {
		wanted = append(wanted, Groups(wish.Spec.Groups))
	}
	wanted = append(wanted, addresses.changes(i.Addresses)...)

	var todo []Attribute
	for _, a := range wanted {
		if !a.IsSatisfiedBy(i) {
			todo = append(todo, a)
		}
	}
	return todo
}

// addressProblem reports more addresses than one interface of the instance type supports.
func addressProblem(want eni.AddressCounts, limits eni.Limits, instanceType string) *Problem {
	v4, v6 := 1+want.SecondaryIPv4+want.IPv4Prefixes, want.IPv6+want.IPv6Prefixes
	switch {
	case limits.IPv4 > 0 && v4 > limits.IPv4:
		return &Problem{AddressLimit, fmt.Sprintf("%d IPv4 addresses and prefixes are asked for beside the primary one, and an interface of %s takes %d; lower the count or use a larger instance type",
			v4-1, instanceType, limits.IPv4-1)}
	case limits.IPv6 > 0 && v6 > limits.IPv6:
		return &Problem{AddressLimit, fmt.Sprintf("%d IPv6 addresses and prefixes are asked for, and an interface of %s takes %d; lower the count or use a larger instance type",
			v6, instanceType, limits.IPv6)}
	}
	return nil
}

// explainDrift says what happens to a member with drift.
func (m *member) explainDrift(p *planner) {
	switch {
	case len(m.Drift) == 0 || m.Why.Reason != "":
	case m.claim.ReplaceAllowed:
		m.Why = p.waitsForReplacement(m)
	default:
		m.Why = Problem{Drifted, fmt.Sprintf("%s differs in what only a new interface can mend (%s); set updatePolicy: Replace, or change the NodeENI back",
			m.record.ID, joinWords(m.Drift))}
	}
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
func (m *member) explainGroups(i eni.Interface) {
	if no := m.claim.SecurityGroupProblem; no != nil && m.Phase == Attached && m.Why.Reason == "" {
		m.Why = Problem{no.Reason, fmt.Sprintf("%s keeps the security groups that it has (%s), since %s",
			i.ID, strings.Join(i.Groups, ", "), no.Message)}
	}
}
