// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
)

// A process that dies before it attaches an interface leaves it unattached. The clean-up deletes the interface when its
// instance ends.
func TestWhatWasNeverAttachedIsFoundWhenItsInstanceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		dying, die := context.WithCancel(t.Context())
		s.cfg.HTTPClient = &http.Client{Transport: &mortal{RoundTripper: s.sim.Transport(), left: 1, die: die}}
		if _, err := s.joiner().Ensure(dying, join.Request{InstanceID: s.id, Timeout: time.Minute}); err == nil || len(s.has()) != 1 {
			t.Fatalf("it left %q and said %v", s.has(), err)
		}
		s.cfg.HTTPClient = &http.Client{Transport: s.sim.Transport()}
		if err := s.sim.Terminate(s.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := s.joiner().CleanUpTerminated(t.Context(), s.id); err != nil {
			t.Error(err)
		}
		s.want()
	})
}

func TestTheEndOfAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		s.ensure(t.Context(), s.joiner(), join.Request{})
		cloud := awsec2.New(s.cfg, awsec2.Options{Cluster: "c"})
		for _, i := range s.sim.State().NetworkInterfaces {
			if i.SubnetID == subnetA && i.Tags[identity.TagCluster] != "" {
				if err := cloud.SetDeleteOnTermination(t.Context(), i.NetworkInterfaceID, i.Attachment.AttachmentID, false); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.joiner().CleanUpTerminated(t.Context(), s.id); !errors.Is(err, join.ErrInstanceRunning) || len(s.has()) != 2 {
			t.Errorf("burying the living: %v, %q", err, s.has())
		}
		if err := s.sim.Terminate(s.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := s.joiner().CleanUpTerminated(t.Context(), s.id); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		s.want()
	})
}

// The controller deletes the interfaces of a NodeENI on an instance that ended: it knows whether the NodeENI lost its
// finalizer.
func TestABurialLeavesNodeENIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		keep := func(c *lifecycle.Config) { no := false; c.Networks[0].DeleteOnTermination = &no }
		s.ensure(t.Context(), s.joiner(keep), join.Request{})
		cloud, nodeENIs := awsec2.New(s.cfg, awsec2.Options{Cluster: "c"}), 0
		for _, i := range s.sim.State().NetworkInterfaces {
			if i.SubnetID == subnetA && i.Tags[identity.TagCluster] != "" {
				if err := cloud.PutTags(t.Context(), i.NetworkInterfaceID, takenOver(s.id)); err != nil {
					t.Fatal(err)
				}
				nodeENIs++
			}
		}
		time.Sleep(time.Hour)
		if err := s.sim.Terminate(s.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := s.joiner(keep).CleanUpTerminated(t.Context(), s.id); err != nil {
			t.Error(err)
		}
		if left := s.has(); nodeENIs != 1 || len(left) != nodeENIs {
			t.Errorf("%q is left, want the interface of the NodeENI", left)
		}
	})
}

func TestWhatWaitsToBeTerminatedWillGoWithItsInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		keep := func(c *lifecycle.Config) { no := false; c.Networks[0].DeleteOnTermination = &no }
		s.ensure(t.Context(), s.joiner(keep), join.Request{})
		if err := s.joiner(keep).PrepareTermination(t.Context(), s.id); err != nil {
			t.Error(err)
		}
		s.want(both()...)
	})
}
