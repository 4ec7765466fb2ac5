// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
)

// Reading is what an agent has read before it serves the interfaces of its node.
type Reading struct {
	// Interfaces are the newest versions of the objects of the node's instance that the process has read or written, by
	// name. Read is set once it has read them from the API server. Neither they nor the Node must be changed.
	Interfaces []*v1alpha1.NetworkInterface
	Read       bool
	Node       *corev1.Node
	// Metadata is the last answer of instance metadata; nil for none.
	Metadata *eni.Metadata
	// Observe returns what the kernel says of the desired links and devices at ReadAt, or later. The records are of the
	// devices that the agent has bound, or was about to.
	Observe func(links []hostnet.Link, devices []hostpci.Device, records []hostpci.OriginalBinding) (hostnet.Facts,
		[]hostnet.Observation)
	// Bus is the PCI bus with the devices.
	Bus    hostpci.Facts
	ReadAt time.Time
}

// Pass is the part of one pass of an agent that is about pods and programs, between what the agent has read and what it
// writes to the API server.
type Pass struct {
	agent    *Agent
	snapshot *snapshot
}

// Serve writes the files of pod networks and the checkpoint. It starts no goroutine, and reads and writes through the
// agent's [PodFiles], PodAddresses, [Checkpoints] and Now alone, and through its [AddressAPI] if addresses follow pods:
// test/simulation runs it on nodes without disks and kernels. After an error the pass has what could be done.
func (a *Agent) Serve(ctx context.Context, r Reading) (*Pass, error) {
	s := &snapshot{objects: r.Interfaces, read: r.Read, node: r.Node, metadata: r.Metadata, bus: r.Bus, readAt: r.ReadAt}
	s.instance = instanceOf(r.Metadata, r.Node)
	a.desire(s)
	if r.Observe != nil {
		s.facts, s.observed = r.Observe(s.links, s.devices, s.records)
	}
	return &Pass{a, s}, a.serve(ctx, s)
}

// Reports returns the reports that are due.
func (p *Pass) Reports() []Report { return p.agent.reports(p.snapshot) }

// Answered notes the answer of the API server to a report. An error that is none of the API server's means that there
// was no answer.
func (p *Pass) Answered(r Report, err error) { p.agent.answered(r, err) }

// MayBind reports whether a device may be bound to a driver for programs in user space.
func (p *Pass) MayBind(address string) bool { return p.agent.mayBind[address] }

// Hold writes which addresses pods of the node have.
func (p *Pass) Hold(ctx context.Context) error {
	if !p.snapshot.read {
		return nil // there is no API server to write to
	}
	return p.agent.hold(ctx, p.snapshot)
}
