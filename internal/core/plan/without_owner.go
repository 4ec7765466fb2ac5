// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// FilledBy reports whether an interface of the instance that has no owner is in a subnet and at the slot of the desired
// one, as the published Multus functions leave interfaces. Creating another would give the node two in one subnet.
func (w DesiredInterface) FilledBy(i eni.Interface, instanceID string) bool {
	return identity.HasNoOwner(i.Tags) && i.AttachedTo(instanceID) && i.Attachment.Slot == w.Slot &&
		w.Slot != eni.Primary && w.Allows(i.SubnetID)
}

// notImported returns the problem of an interface without an owner that fills the desired one, or nil. The planner
// never changes foreign interfaces, so a person must import the interface or remove it.
func (p *planner) notImported(desired *DesiredInterface) *Problem {
	if p.Snapshot == nil {
		return nil
	}
	n := slices.IndexFunc(p.Snapshot.Interfaces, func(i eni.Interface) bool { return desired.FilledBy(i, p.InstanceID) })
	if n < 0 {
		return nil
	}
	i := p.Snapshot.Interfaces[n]
	return &Problem{NotImported, fmt.Sprintf(
		"%s in %s is already at %s, and its tags name no owner; import it with kubectl eni import --from "+
			"multus-function, or detach it", i.ID, i.SubnetID, desired.Slot)}
}
