// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
)

// remove detaches and deletes the interfaces of the networks, as an operator does.
func (s *scene) remove() {
	s.t.Helper()
	cloud := awsec2.New(s.cfg, awsec2.Options{Cluster: "c"})
	for _, i := range s.sim.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == "" {
			continue
		}
		if err := cloud.DetachInterface(s.t.Context(), i.Attachment.AttachmentID, false); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := cloud.DeleteInterface(s.t.Context(), i.NetworkInterfaceID); err != nil {
			s.t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Minute)
}

// An interface that an operator deleted comes back with the next event, although EC2 remembers the client token of the
// first one. The next process knows nothing of the first one, and may have little time to wait.
func TestAnInterfaceThatWasDeletedComesBack(t *testing.T) {
	for name, allocation := range map[string]lifecycle.Allocation{
		"at the lowest free address": lifecycle.LowestFree, "at any address": lifecycle.Auto,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t)
				chosen := func(c *lifecycle.Config) {
					for n := range c.Networks {
						c.Networks[n].IPv4Allocation = allocation
					}
				}
				s.ensure(t.Context(), s.joiner(chosen), join.Request{})
				for range 2 {
					s.remove()
					if n := len(s.has()); n != 0 {
						t.Fatalf("%d interfaces are left", n)
					}
					result := s.ensure(t.Context(), s.joiner(chosen), join.Request{Timeout: 30 * time.Second})
					if n := len(s.has()); result.Outcome != lifecycle.Ready || n != 2 {
						t.Fatalf("%d interfaces, %+v", n, result.Result)
					}
				}
			})
		})
	}
}
