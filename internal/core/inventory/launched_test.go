// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

func launchedInterface(id string, device int) eni.Interface {
	return eni.Interface{
		ID: id, Status: eni.InUse,
		Tags:       map[string]string{identity.TagCluster: "c", identity.TagNodeTemplate: "default", identity.TagNodeTemplateUID: "uid-t"},
		Attachment: &eni.Attachment{InstanceID: "i-1", Slot: eni.Slot{Device: device}, Status: eni.AttachmentAttached},
	}
}

func TestLaunchedInterfacesAreKnownAndNoMembers(t *testing.T) {
	v, at := inventory.New("c"), time.Unix(1_000_000, 0)
	v.ObserveList(at, []eni.Interface{launchedInterface("eni-b", 1), launchedInterface("eni-a", 0)})
	if got := v.Launched("i-1"); len(got) != 2 || got[0].ID != "eni-a" || len(v.Of("i-1")) != 0 || v.Len() != 0 {
		t.Errorf("launched %v, members %v", got, v.Of("i-1"))
	}
	if got := v.LaunchedFrom("uid-t"); len(got["i-1"]) != 2 || len(v.LaunchedFrom("uid-other")) != 0 {
		t.Errorf("by node template: %v", got)
	}
}

func TestALaunchedInterfaceIsGoneAfterTwoReadingsThatMissIt(t *testing.T) {
	v, at := inventory.New("c"), time.Unix(1_000_000, 0)
	v.ObserveList(at, []eni.Interface{launchedInterface("eni-a", 1)})
	v.ObserveList(at.Add(time.Minute), nil)
	if len(v.Launched("i-1")) != 1 {
		t.Error("a single reading was believed")
	}
	v.ObserveInstance(eni.InstanceSnapshot{At: at.Add(time.Minute + inventory.AbsenceConfirmation), Instance: eni.Instance{ID: "i-1"}})
	if len(v.Launched("i-1")) != 0 {
		t.Error("it is still known")
	}
}

func TestOurOwnChangeOfALaunchedInterfaceOutlivesAnOlderReading(t *testing.T) {
	v, at := inventory.New("c"), time.Unix(1_000_000, 0)
	v.ObserveList(at, []eni.Interface{launchedInterface("eni-a", 1)})
	after := launchedInterface("eni-a", 1)
	after.Description = "mended"
	v.RecordCall(at.Add(2*time.Second), after, inventory.Effect{IsVisible: func(eni.Interface) bool { return true }})
	v.ObserveList(at.Add(time.Second), []eni.Interface{launchedInterface("eni-a", 1)})
	if got, known := v.Interface("eni-a"); !known || got.Description != "mended" {
		t.Errorf("got %+v", got)
	}
}

// EC2's reads lag: one that began after our call may show the state before it, which must not repeat the call.
func TestOurOwnChangeOfALaunchedInterfaceOutlivesALaggingReading(t *testing.T) {
	v, at := inventory.New("c"), time.Unix(1_000_000, 0)
	before := launchedInterface("eni-a", 1)
	v.ObserveList(at, []eni.Interface{before})
	after := launchedInterface("eni-a", 1)
	after.Description = "mended"
	v.RecordCall(at.Add(time.Second), after, inventory.Effect{IsVisible: func(i eni.Interface) bool { return i.Description == "mended" }})
	v.ObserveList(at.Add(2*time.Second), []eni.Interface{before})
	if got, known := v.Interface("eni-a"); !known || got.Description != "mended" {
		t.Errorf("a reading that lags is believed: %+v", got)
	}
	v.ObserveList(at.Add(time.Second+inventory.StaleReadWindow), []eni.Interface{before})
	if got, _ := v.Interface("eni-a"); got.Description != "" {
		t.Errorf("what EC2 shows for long is not believed: %+v", got)
	}
}
