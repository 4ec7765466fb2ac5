// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/floating"
)

// TestAddressesOfOneNodeShareACall brings up three addresses while one has just moved.
func TestAddressesOfOneNodeShareACall(t *testing.T) {
	w := newWorld(t)
	w.hold("10.0.4.200", "node-a", eniA)
	w.reconcile("10.0.4.200")
	w.made("assign a [10.0.4.200]")
	for _, address := range []string{"10.0.4.201", "10.0.4.202", "10.0.4.203"} {
		w.hold(address, "node-a", eniA)
		w.reconcile(address)
	}
	w.hold("10.0.4.210", "node-b", eniB)
	w.reconcile("10.0.4.210")
	w.made("assign b [10.0.4.210]")
	w.now = w.now.Add(2 * time.Second)
	w.reconcile("10.0.4.202")
	w.made("assign a [10.0.4.201 10.0.4.202 10.0.4.203]")
	w.reconcile("10.0.4.201")
	w.reconcile("10.0.4.203")
	w.made()
	w.says("10.0.4.203", "Assigned", "")
}

// TestAddressesThatComeTogetherShareACall lets the second address of a node come 20 ms after the first one.
func TestAddressesThatComeTogetherShareACall(t *testing.T) {
	w := newWorld(t)
	w.hold("10.0.4.200", "node-a", eniA)
	if again := w.reconcileOnce("10.0.4.200"); again != floating.Gathering {
		t.Errorf("the first one is reconciled again after %s, want %s", again, floating.Gathering)
	}
	w.now = w.now.Add(20 * time.Millisecond)
	w.hold("10.0.4.201", "node-a", eniA)
	if again := w.reconcileOnce("10.0.4.201"); again != 20*time.Millisecond {
		t.Errorf("the second one is reconciled again after %s, want 20ms", again)
	}
	w.made()
	w.now = w.now.Add(20 * time.Millisecond)
	w.reconcileOnce("10.0.4.200")
	w.made("assign a [10.0.4.200 10.0.4.201]")
	w.reconcileOnce("10.0.4.201")
	w.made()
	w.says("10.0.4.201", "Assigned", "to "+eniA)
}

// TestAddressesOfOtherInterfacesMoveInOneCall moves the addresses of two pods to a third node's interface.
func TestAddressesOfOtherInterfacesMoveInOneCall(t *testing.T) {
	w := newWorld(t)
	w.hold("10.0.4.200", "node-a", eniA)
	w.reconcile("10.0.4.200")
	w.hold("10.0.4.201", "node-b", eniB)
	w.reconcile("10.0.4.201")
	w.made("assign a [10.0.4.200]", "assign b [10.0.4.201]")
	w.now = w.now.Add(floating.MoveInterval)
	w.hold("10.0.4.200", "node-b", eniB)
	w.hold("10.0.4.202", "node-b", eniB)
	w.reconcile("10.0.4.200")
	w.made("assign b [10.0.4.200 10.0.4.202]")
}

// TestARefusedAddressDelaysNoOther has EC2 refuse the call for three addresses because of the second one. The others get
// calls of their own at once, and the second one waits alone.
func TestARefusedAddressDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	for _, address := range []string{"10.0.4.200", "10.0.4.201", "10.0.4.202"} {
		w.hold(address, "node-a", eniA)
	}
	w.refuses = netip.MustParseAddr("10.0.4.201")
	w.reconcile("10.0.4.200")
	w.made("assign a [10.0.4.200 10.0.4.201 10.0.4.202]", "assign a [10.0.4.200]", "assign a [10.0.4.201]", "assign a [10.0.4.202]")
	w.says("10.0.4.200", "Assigned", "to "+eniA)
	w.reconcile("10.0.4.201")
	w.says("10.0.4.201", "AddressRefused", "move is not allowed")
	w.now = w.now.Add(10 * time.Minute)
	w.hold("10.0.4.203", "node-a", eniA)
	w.reconcile("10.0.4.201")
	w.reconcile("10.0.4.203")
	w.now = w.now.Add(floating.MoveInterval)
	w.reconcile("10.0.4.203")
	w.made("assign a [10.0.4.201]", "assign a [10.0.4.203]")
}

// TestAnAddressThatMovesOnIsNotRequestedAlone lets another node hold an address while EC2 refuses the call for two.
func TestAnAddressThatMovesOnIsNotRequestedAlone(t *testing.T) {
	w := newWorld(t)
	w.hold("10.0.4.200", "node-a", eniA)
	w.hold("10.0.4.201", "node-a", eniA)
	w.refuses = netip.MustParseAddr("10.0.4.200")
	w.calling = func() {
		w.calling = func() {}
		w.hold("10.0.4.201", "node-b", eniB)
	}
	w.reconcile("10.0.4.200")
	w.made("assign a [10.0.4.200 10.0.4.201]", "assign a [10.0.4.200]")
}

// TestAThrottledCallIsNotDivided has EC2 throttle the call for two addresses: the next one is for both.
func TestAThrottledCallIsNotDivided(t *testing.T) {
	w := newWorld(t)
	w.hold("10.0.4.200", "node-a", eniA)
	w.hold("10.0.4.201", "node-a", eniA)
	w.fails = &eni.APIError{Class: eni.Throttled, Operation: "AssignPrivateIpAddresses"}
	w.reconcile("10.0.4.200")
	w.fails, w.now = nil, w.now.Add(floating.MoveInterval)
	w.reconcile("10.0.4.201")
	w.made("assign a [10.0.4.200 10.0.4.201]", "assign a [10.0.4.200 10.0.4.201]")
}
