// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/podaddress"
)

// TestAFailingNamespaceDelaysNoOther has one namespace that cannot be read and gets events all the time. The observer
// sees each change of another namespace at once, and retries the failing one at growing intervals. It does not know all
// namespaces until that one is read or ends.
func TestAFailingNamespaceDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failing, other = 1, 2
		exists, address, reads := true, netip.AddrFrom4([4]byte{10, 0, 4, 1}), 0
		p := newPodNetworks()
		p.list = func() ([]int, error) { return []int{failing, other}, nil }
		p.read = func(id int) (podaddress.Namespace, bool, error) {
			if id == failing {
				reads++
				if exists {
					return podaddress.Namespace{}, false, unix.ENOBUFS
				}
				return podaddress.Namespace{}, false, nil
			}
			return podaddress.Namespace{ID: id, Links: []podaddress.Link{{Addresses: []netip.Addr{address}}}}, true, nil
		}
		p.running.Go(p.keep)
		defer func() {
			close(p.done)
			p.running.Wait()
		}()
		begin := time.Now()
		for time.Since(begin) < 10*time.Minute {
			p.note(func() { p.dirty[failing] = true })
			if time.Since(begin)%(10*time.Second) == 0 {
				synctest.Wait()
				address = address.Next()
				p.note(func() { p.dirty[other] = true })
				time.Sleep(2 * settle)
				synctest.Wait()
				namespaces, complete := p.Namespaces()
				if len(namespaces) != 1 || namespaces[0].Links[0].Addresses[0] != address || complete {
					t.Fatalf("after %s: %+v, and all are known: %t", time.Since(begin), namespaces, complete)
				}
				time.Sleep(100*time.Millisecond - 2*settle)
				continue
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if reads < 10 || reads > 16 {
			t.Errorf("%d reads of the failing namespace in ten minutes, want about one a minute", reads)
		}
		p.note(func() { exists = false })
		time.Sleep(lastReadRetry + time.Second)
		synctest.Wait()
		if _, complete := p.Namespaces(); !complete {
			t.Error("the failing namespace ended, and the observer does not know all")
		}
	})
}

// TestUnlistedNamespacesAreNotKnown has an event of a namespace while the list of all cannot be read. An address that the
// observer does not see may be in another namespace, so it does not know all until it has the list and has read those in
// it.
func TestUnlistedNamespacesAreNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error = unix.ENOBUFS
		p := newPodNetworks()
		p.list = func() ([]int, error) { return []int{1, 2}, failure }
		p.read = func(id int) (podaddress.Namespace, bool, error) { return podaddress.Namespace{ID: id}, true, nil }
		p.running.Go(p.keep)
		defer func() {
			close(p.done)
			p.running.Wait()
		}()
		p.note(func() { p.dirty[1] = true })
		time.Sleep(time.Minute)
		synctest.Wait()
		if namespaces, complete := p.Namespaces(); complete {
			t.Errorf("without a list all namespaces are known: %+v", namespaces)
		}
		p.note(func() { failure = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		if namespaces, complete := p.Namespaces(); !complete || len(namespaces) != 2 {
			t.Errorf("with the list, known are %+v, all of them: %t", namespaces, complete)
		}
	})
}
