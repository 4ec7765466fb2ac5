// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podhost is a node with pods, for tests of the controller: the product's own agent, on links that follow the
// interfaces in EC2, and pods that get addresses as multieni-ipam gives them, or bring up addresses themselves. It
// needs no root, no kernel and no container runtime, and works in a testing/synctest bubble.
//
// The files: host.go is the node with its agent, kernel.go the links, pods.go the pods, and truth.go the comparison of
// the pods with EC2.
package podhost

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
	"github.com/multieni/multieni/internal/host/agent"
)

// mtu is the MTU of interfaces in bytes, and resync the time between two passes of an agent without pod networks.
const (
	mtu    = 9001
	resync = time.Minute
)

// Options say where a node is.
type Options struct {
	// Node is the name of the Node, and InstanceID its instance.
	Node, InstanceID string
	// API is the agent's access to the API server.
	API *rest.Config
	// EC2 returns the true state of EC2.
	EC2 func() ec2.State
}

// Host is a node. Its methods are safe for concurrent use with its agent.
type Host struct {
	*testing.T
	Options
	// dir has the folders of the agent and of the CNI program.
	dir    string
	stop   context.CancelFunc
	ended  chan error
	events chan struct{}
	came   chan struct{}
	leased chan struct{}

	// mu guards the links, the pods, and the interfaces whose leases the agent watches.
	mu      sync.Mutex
	watched map[string]bool
	kernel  *hostnettest.Kernel
	pods    []*Pod
	// links counts the links that the node ever had, and started the pods.
	links, started int
}

// Start starts a node with its agent, which runs until the test ends.
func Start(t *testing.T, o Options) *Host {
	t.Helper()
	h := &Host{T: t, Options: o, dir: t.TempDir(), kernel: hostnettest.New(boot()), links: primary,
		events: make(chan struct{}, 1), came: make(chan struct{}, 1), leased: make(chan struct{}, 1),
		watched: map[string]bool{}}
	h.StartAgent()
	t.Cleanup(h.StopAgent)
	return h
}

// StartAgent starts an agent, which knows of an earlier one what the folders and the API server have.
func (h *Host) StartAgent() {
	h.Helper()
	api, err := agent.Connect(h.API, h.Node)
	if err != nil {
		h.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(h.Context()))
	h.stop, h.ended = stop, make(chan error, 1)
	a := agent.New(agent.Options{
		Node: h.Node, API: api, Host: h.asHost(), PodAddresses: h.asObserver(), DefaultMTU: mtu, Resync: resync,
		StateDir: filepath.Join(h.dir, "state"), PodsDir: h.podsDir(),
		LeaseEvents: leaseEvents{h}, Log: slog.New(slog.DiscardHandler),
	})
	ended := h.ended
	go func() { ended <- a.Run(ctx) }()
}

// StopAgent stops the agent. Pods run on, and start and end without it.
func (h *Host) StopAgent() {
	h.Helper()
	if h.stop == nil {
		return
	}
	h.stop()
	h.stop = nil
	if err := <-h.ended; err != nil {
		h.Error(err)
	}
}

func (h *Host) podsDir() string { return filepath.Join(h.dir, "pods") }

// signal tells the agent of a change; a signal can be pending already.
func signal(changes chan struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}
