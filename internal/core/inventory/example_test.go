// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// EC2 accepts an attach call, and for a while returns the interface as it was before. The inventory keeps the effect of the
// call until EC2 returns it.
func Example() {
	begin := time.Unix(1700000000, 0)
	const instance = "i-0123456789abcdef0"
	m := identity.Interface{
		Cluster: "prod", UID: "0bf0a4c2", Name: identity.ObjectName("storage", instance, 0), NodeENI: "storage", Node: "node-1",
		InstanceID: instance,
	}
	before := eni.Interface{ID: "eni-1", Status: eni.Available, Tags: m.Tags(begin, nil)}
	after := before.Clone()
	after.Status = eni.InUse
	after.Attachment = &eni.Attachment{InstanceID: m.InstanceID, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttaching}

	known := inventory.New("prod")
	known.ObserveInterfaces(begin, before)
	known.RecordCall(begin.Add(time.Second), after, inventory.Effect{
		Aspect: "attachment", IsVisible: func(i eni.Interface) bool { return i.Attachment != nil },
	})
	known.ObserveInterfaces(begin.Add(2*time.Second), before) // a stale read
	fmt.Println(known.Of(m.InstanceID)[0].Interface.Status)

	known.ObserveAbsence(begin.Add(3*time.Minute), "eni-1")
	fmt.Println("missing after one read:", known.Of(m.InstanceID)[0].Missing, known.Len())
	known.ObserveAbsence(begin.Add(3*time.Minute+inventory.AbsenceConfirmation), "eni-1")
	fmt.Println("interfaces after the second read:", known.Len())
	// Output:
	// in-use
	// missing after one read: true 1
	// interfaces after the second read: 0
}
