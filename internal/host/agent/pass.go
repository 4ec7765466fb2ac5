// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
)

// Reading is what an agent has read before it serves pod networks.
type Reading struct {
	// State and Node are nil if the object does not exist. They must not be changed.
	State *v1alpha1.NodeENIState
	Node  *corev1.Node
	// Recalled says that the state is from a checkpoint, because the state in the API server is not known yet.
	Recalled bool
	// Metadata is the last answer of instance metadata; nil for none.
	Metadata *eni.Metadata
	// Facts is what the kernel said at ReadAt, or later. Observed has an observation for each desired link.
	Facts    hostnet.Facts
	ReadAt   time.Time
	Observed []hostnet.Observation
}

// Pass is the part of one pass of an agent that is about pods, between what the agent has read and what it writes to
// the API server.
type Pass struct {
	agent    *Agent
	snapshot *snapshot
}

// ServePods writes the files of pod networks and the checkpoint. It starts no goroutine, and reads and writes through
// the agent's [PodFiles], PodAddresses, WriteCheckpoint and Now alone, and through its [AddressAPI] if addresses follow
// pods: test/simulation runs it on nodes without disks and kernels. After an error the pass has what could be done.
func (a *Agent) ServePods(ctx context.Context, r Reading) (*Pass, error) {
	s := &snapshot{state: r.State, node: r.Node, recalled: r.Recalled, metadata: r.Metadata, facts: r.Facts,
		readAt: r.ReadAt, observed: r.Observed}
	s.links, s.devices = DesiredLinks(s.state, a.DefaultMTU)
	return &Pass{a, s}, a.servePods(ctx, s)
}

// servePods writes the files of pod networks and the checkpoint, and adds the states of the networks to the snapshot.
func (a *Agent) servePods(ctx context.Context, s *snapshot) error {
	err := a.keepNetworks(ctx, s)
	if stale := a.writeCheckpoint(s); stale != nil {
		s.networks = WithoutCheckpoint(s.networks, stale)
		err = errors.Join(err, stale)
	}
	return err
}

// Report returns the pod networks that the agent reports now. Due is false if it writes no report because of them.
func (p *Pass) Report() (networks []v1alpha1.PodNetworkState, due bool) {
	s := p.snapshot
	due = s.state != nil && !s.recalled && !s.networksUnknown && p.agent.podsDue(s)
	return s.networks, due
}

// Reported notes that the API server has the report.
func (p *Pass) Reported() { p.agent.podsReported = p.agent.Now() }

// Hold writes which addresses pods of the node have.
func (p *Pass) Hold(ctx context.Context) error {
	if p.snapshot.recalled {
		return nil // there is no API server to write to
	}
	return p.agent.hold(ctx, p.snapshot)
}
