// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
)

// An interface of the published Multus functions serves a network: Ensure does not create a second one.
func TestAnInterfaceWithoutAnOwnerServesANetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		s.attachUnowned(subnetA, 1)
		result := s.ensure(t.Context(), s.joiner(), join.Request{})
		if result.Outcome != lifecycle.Ready || len(result.Served) != 1 {
			t.Fatalf("%+v, served by %v", result.Result, result.Served)
		}
		s.want("device 2 " + subnetA2 + " 10.0.112.4 ipv6=0")

		found, err := s.joiner().Importable(t.Context(), s.id)
		if err != nil || len(found.Matches) != 1 || len(found.Passed) > 0 {
			t.Fatalf("importable: %+v, %v", found, err)
		}
		if err := s.joiner().Import(t.Context(), found.Matches[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		s.sim.ResetCalls()
		if result := s.ensure(t.Context(), s.joiner(), join.Request{}); result.Outcome != lifecycle.Ready || len(result.Interfaces) != 2 {
			t.Errorf("imported: %+v of %d interfaces", result.Result, len(result.Interfaces))
		}
		if calls := s.sim.Calls().Actions; calls["CreateNetworkInterface"].Count+calls["DetachNetworkInterface"].Count+calls["AttachNetworkInterface"].Count != 0 {
			t.Errorf("imported: %v", calls)
		}
	})
}

// An interface of the published Multus functions at another index does not serve the network. Ensure creates a second
// one, and warns of the first.
func TestAnInterfaceAtAnotherIndexIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		device   int
		warnings int
	}{
		"at the declared index": {1, 0},
		"at another one":        {3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t)
				s.attachUnowned(subnetA, tc.device)
				var log strings.Builder
				j := s.joiner()
				j.Log = slog.New(slog.NewTextHandler(&log, nil))
				if result := s.ensure(t.Context(), j, join.Request{}); result.Outcome != lifecycle.Ready {
					t.Fatalf("%+v", result.Result)
				}
				warned := strings.Count(log.String(), "two interfaces in this subnet now")
				if warned != tc.warnings || warned > 0 && !strings.Contains(log.String(), "subnet="+subnetA) {
					t.Errorf("%d warnings, want %d:\n%s", warned, tc.warnings, log.String())
				}
			})
		})
	}
}

// attachUnowned attaches an interface to the instance as the published functions do.
func (s *scene) attachUnowned(subnet string, device int) {
	s.t.Helper()
	cloud := awsec2.New(s.cfg, awsec2.Options{})
	made, err := cloud.CreateInterface(s.t.Context(), executor.CreateRequest{
		Token: "unowned", SubnetID: subnet, Groups: []string{group}, Tags: map[string]string{identity.TagNoManage: "true"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(30 * time.Second) // virtual time: all reads of EC2 return it
	if _, err := cloud.AttachInterface(s.t.Context(), made.ID, s.id, eni.Slot{Device: device}); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(30 * time.Second)
}
