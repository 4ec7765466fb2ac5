// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// The agent uses only the part of a checkpoint that instance metadata confirms.
func TestConfirmed(t *testing.T) {
	const primary = "02:00:00:00:00:01"
	seen := func(change func(*eni.Metadata)) *eni.Metadata {
		m := &eni.Metadata{InstanceID: instance, PrimaryMAC: primary, Interfaces: []eni.Interface{
			{ID: "eni-0", MAC: primary}, {ID: "eni-1", MAC: mac}, {ID: "eni-cni", MAC: "02:00:00:00:00:0c"},
		}}
		change(m)
		return m
	}
	network, _ := agent.Network(withPods(), "node-1", 9001)
	record := func(change func(*agent.Checkpoint)) *agent.Checkpoint {
		c := &agent.Checkpoint{Node: "node-1", InstanceID: instance, Interfaces: []v1alpha1.NetworkInterface{*attached()},
			Held: []podnet.Saved{{Network: network}}}
		change(c)
		return c
	}
	same, asItIs := func(*agent.Checkpoint) {}, seen(func(*eni.Metadata) {})
	for name, c := range map[string]struct {
		record      *agent.Checkpoint
		known       *eni.Metadata
		links, held int
	}{
		"both say the same":                 {record(same), asItIs, 1, 1},
		"there is no record":                {nil, asItIs, 0, 0},
		"metadata is silent":                {record(same), nil, 0, 0},
		"of another node":                   {record(func(c *agent.Checkpoint) { c.Node = "other" }), asItIs, 0, 0},
		"of another instance":               {record(same), seen(func(m *eni.Metadata) { m.InstanceID = "i-0fedcba9876543210" }), 0, 0},
		"the interface is gone":             {record(same), seen(func(m *eni.Metadata) { m.Interfaces = m.Interfaces[:1] }), 0, 0},
		"another interface has its address": {record(same), seen(func(m *eni.Metadata) { m.Interfaces[1].ID = "eni-cni" }), 0, 0},
		"the primary interface":             {record(same), seen(func(m *eni.Metadata) { m.PrimaryMAC = mac }), 0, 0},
		"for a program in user space":       {record(func(c *agent.Checkpoint) { c.Held[0].Device = device }), asItIs, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			links, held := c.record.Confirmed("node-1", c.known)
			if len(links) != c.links || len(held) != c.held {
				t.Errorf("the links are %v and the networks %v, want %d and %d", links, held, c.links, c.held)
			}
		})
	}
}

// TestADamagedCheckpointIsWrittenAgain: an agent that starts without the API server would not know the networks.
func TestADamagedCheckpointIsWrittenAgain(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	file := filepath.Join(n.StateDir, "agent.json")
	read := func() []byte {
		t.Helper()
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	whole := read()
	for _, restarts := range []bool{false, true} {
		if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		if restarts {
			n.restart()
		}
		n.settle()
		if got := read(); !bytes.Equal(got, whole) {
			t.Errorf("the checkpoint is %s", got)
		}
	}
}

// TestACheckpointOfAnotherInstanceCountsForNothing: a machine image can have the checkpoint of the machine that it was
// made of.
func TestACheckpointOfAnotherInstanceCountsForNothing(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.node.Spec.ProviderID = "aws:///us-east-1a/i-0fedcba9876543210"
	n.objects = nil
	n.boot()
	n.settle()
	if held := n.checkpoint(); len(held) > 0 {
		t.Errorf("the checkpoint has %+v", held)
	}
}
