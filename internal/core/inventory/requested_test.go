// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

func secondary(last ...byte) eni.Addresses {
	var a eni.Addresses
	for _, n := range last {
		a.SecondaryIPv4 = append(a.SecondaryIPv4, netip.AddrFrom4([4]byte{10, 0, 0, n}))
	}
	return a
}

// TestRequested follows the record of an interface that has address 5 of an earlier process, requests 6, and loses 5 to
// another program.
func TestRequested(t *testing.T) {
	v := inventory.New(cluster)
	i := attached(fresh("eni-1", member(0, 1), start), eni.AttachmentAttached)
	i.Addresses = secondary(5, 70)
	v.ObserveInterfaces(after(0), i)
	want := func(when string, last ...byte) {
		t.Helper()
		texts := func(a eni.Addresses) (all []string) {
			for _, p := range a.Prefixes() {
				all = append(all, p.String())
			}
			return all
		}
		if diff := cmp.Diff(texts(secondary(last...)), texts(v.Requested(instance)["eni-1"])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	if _, known := v.Requested(instance)["eni-1"]; known {
		t.Error("a process that made no call knows of an answer")
	}
	v.RecordRequested(after(1), "eni-1", secondary(5), secondary(6), eni.Addresses{})
	want("after the answer", 5, 6)
	v.ObserveInterfaces(after(2), i)
	want("after a stale read", 5, 6)
	i.Addresses = secondary(6, 70)
	v.ObserveInterfaces(after(1).Add(inventory.StaleReadWindow), i)
	want("after a read without an address", 6)
	i.Addresses = secondary(5, 6, 70)
	v.ObserveInterfaces(after(2).Add(inventory.StaleReadWindow), i)
	want("after another program assigned the address as its own", 6)
	v.RecordRequested(after(100), "eni-1", eni.Addresses{}, eni.Addresses{}, secondary(6))
	want("after the address is given back")
	v.ObserveList(after(100).Add(time.Hour), nil)
	v.ObserveList(after(200).Add(time.Hour), nil)
	if _, known := v.Requested(instance)["eni-1"]; known {
		t.Error("the record outlives the interface")
	}
}
