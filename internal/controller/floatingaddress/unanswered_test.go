// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestACallWithoutAnAnswerIsFoundAtTheEnd moves an address by a call whose answer is lost, and then the pod drops it. The
// controller reads both interfaces, and unassigns the address where it is.
func TestACallWithoutAnAnswerIsFoundAtTheEnd(t *testing.T) {
	w := newWorld(t)
	w.hold(vip, "node-a", eniA)
	w.reconcile(vip)
	w.now = w.now.Add(2 * time.Second)
	w.hold(vip, "node-b", eniB)
	w.fails = &eni.APIError{Class: eni.Transient, Operation: "assign"}
	w.calling = func() {
		w.interfaces[eniA].SecondaryIPv4, w.interfaces[eniB].SecondaryIPv4 = nil, []netip.Addr{netip.MustParseAddr(vip)}
	}
	w.reconcile(vip)
	w.made("assign a [10.0.4.200]", "assign b [10.0.4.200]")
	w.fails, w.calling = nil, func() {}
	w.hold(vip, "", "")
	w.reconcile(vip)
	w.now = w.now.Add(time.Minute)
	for range 3 {
		w.reconcile(vip)
	}
	w.made("read a", "read b", "unassign b [10.0.4.200]")
	if !w.gone(vip) {
		t.Error("the object is left")
	}
}

// TestACallWithoutAnAnswerIsFoundAtTheEndOnALaunchInterface loses the answer of the call that assigns an address to an
// interface from a launch template. Reads do not show the address before a minute has passed.
func TestACallWithoutAnAnswerIsFoundAtTheEndOnALaunchInterface(t *testing.T) {
	w := newWorld(t)
	w.interfaces[eniA].Tags = map[string]string{identity.TagCluster: cluster, identity.TagNodeTemplate: "workers"}
	w.restart()
	w.hold(vip, "node-a", eniA)
	w.fails = &eni.APIError{Class: eni.Transient, Operation: "assign"}
	w.reconcile(vip)
	w.made("assign a [10.0.4.200]")
	w.fails = nil
	w.hold(vip, "", "")
	w.reconcile(vip)
	w.interfaces[eniA].SecondaryIPv4 = []netip.Addr{netip.MustParseAddr(vip)}
	w.now = w.now.Add(time.Minute)
	for range 4 {
		w.reconcile(vip)
	}
	w.made("read a", "unassign a [10.0.4.200]")
}
