// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"cmp"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/host/agent"
)

// TestRecalledPrefixes: EC2 can have given a prefix to another node while the API server was unreachable.
func TestRecalledPrefixes(t *testing.T) {
	record := agent.Checkpoint(state(func(s *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) {
		i.IPv4Prefixes, i.IPv6Prefixes = []string{"10.0.4.16/28", "10.0.4.32/28"}, []string{"2001:db8:0:4:5::/80", "2001:db8:0:4:6::/80"}
	}))
	known := eni.Metadata{Interfaces: []eni.Interface{{ID: "eni-1", MAC: mac, Addresses: eni.Addresses{
		IPv4Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.4.32/28"), netip.MustParsePrefix("10.0.4.48/28")},
		IPv6Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8:0:4:5::/80")},
	}}}}
	recalled := agent.RestoreCheckpoint(record, "node", &known)
	if recalled == nil || len(recalled.Status.Interfaces) != 1 {
		t.Fatalf("recalled %+v", recalled)
	}
	i := recalled.Status.Interfaces[0]
	if !slices.Equal(i.IPv4Prefixes, []string{"10.0.4.32/28"}) || !slices.Equal(i.IPv6Prefixes, []string{"2001:db8:0:4:5::/80"}) {
		t.Errorf("pods get addresses of %v and %v, want those that the record and metadata have", i.IPv4Prefixes, i.IPv6Prefixes)
	}
	if len(record.Status.Interfaces[0].IPv4Prefixes) != 2 {
		t.Error("the record itself has changed")
	}
}

// The agent uses only the part of a checkpoint that instance metadata confirms.
func TestRecall(t *testing.T) {
	const primary = "02:00:00:00:00:01"
	seen := func(change func(*eni.Metadata)) *eni.Metadata {
		m := &eni.Metadata{InstanceID: "i-0123456789abcdef0", PrimaryMAC: primary, Interfaces: []eni.Interface{
			{ID: "eni-0", MAC: primary}, {ID: "eni-1", MAC: mac}, {ID: "eni-cni", MAC: "02:00:00:00:00:0c"},
		}}
		change(m)
		return m
	}
	asItIs := seen(func(*eni.Metadata) {})
	same := func(*v1alpha1.NodeENIState, *v1alpha1.InterfaceState) {}
	cases := map[string]struct {
		record *v1alpha1.NodeENIState
		known  *eni.Metadata
		want   int // links
	}{
		"both say the same":     {state(same), asItIs, 1},
		"there is no record":    {nil, asItIs, 0},
		"metadata is silent":    {state(same), nil, 0},
		"of another node":       {state(func(s *v1alpha1.NodeENIState, _ *v1alpha1.InterfaceState) { s.Name = "other" }), asItIs, 0},
		"of another instance":   {state(same), seen(func(m *eni.Metadata) { m.InstanceID = "i-0fedcba9876543210" }), 0},
		"the interface is gone": {state(same), seen(func(m *eni.Metadata) { m.Interfaces = m.Interfaces[:1] }), 0},
		"another interface has its address": {
			state(same), seen(func(m *eni.Metadata) { m.Interfaces[1].ID = "eni-cni" }), 0,
		},
		"the primary interface": {state(same), seen(func(m *eni.Metadata) { m.PrimaryMAC = mac }), 0},
		"it was being attached": {
			state(func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) { i.Phase = v1alpha1.PhaseAttaching }), asItIs, 0,
		},
		"it was on its way out": {
			state(func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) { i.Phase = v1alpha1.PhaseDetaching }), asItIs, 0,
		},
		"for a program in user space": {
			state(func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) { i.DPDKDriver = v1alpha1.DPDKDriverVFIO }), asItIs, 0,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.record != nil {
				c.record.Spec.InstanceID = "i-0123456789abcdef0"
			}
			recalled := agent.RestoreCheckpoint(c.record, "node", c.known)
			links, devices := agent.DesiredLinks(recalled, 0)
			if len(links) != c.want || len(devices) != 0 {
				t.Errorf("the links are %v and the devices %v, want %d links", links, devices, c.want)
			}
			if recalled != nil && recalled.Status.ObservedGeneration != 0 {
				t.Error("it passes for what the controller says, by which other links would be taken back")
			}
		})
	}
}

// TestADamagedCheckpointIsWrittenAgain: an agent that starts without the API server would not know the networks and the
// marks of prefixes, although this one reported them as drained.
func TestADamagedCheckpointIsWrittenAgain(t *testing.T) {
	pass, file := checkpoints(t)
	whole := pass(withPods())
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := pass(withPods()); !bytes.Equal(got, whole) {
		t.Errorf("the checkpoint is %s", got)
	}
}

// TestTheCheckpointIsOfThisInstance: a state can be that of another instance with the name of this node. It confirms no
// interface of this one.
func TestTheCheckpointIsOfThisInstance(t *testing.T) {
	pass, _ := checkpoints(t)
	mine := withPods()
	mine.Spec.InstanceID = "i-0123456789abcdef0"
	others := withPods()
	others.Spec.InstanceID = "i-0fedcba9876543210"
	if before, got := pass(mine), pass(others); !bytes.Equal(got, before) {
		t.Errorf("the checkpoint is %s", got)
	}
}

// checkpoints returns a function that lets the agent of instance i-0123456789abcdef0 serve a state and returns its
// checkpoint, and the path of that.
func checkpoints(t *testing.T) (pass func(*v1alpha1.NodeENIState) []byte, file string) {
	t.Helper()
	a := agent.New(agent.Options{Node: "node-1", StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	file = filepath.Join(a.StateDir, "agent.json")
	known := &eni.Metadata{InstanceID: "i-0123456789abcdef0"}
	return func(state *v1alpha1.NodeENIState) []byte {
		t.Helper()
		state.Spec.InstanceID = cmp.Or(state.Spec.InstanceID, known.InstanceID)
		if _, err := a.ServePods(t.Context(), agent.Reading{State: state, Metadata: known}); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}, file
}
