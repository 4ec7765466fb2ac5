// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The bounds of the time between the end of one leader and the start of the next.
const (
	fastHandover = 2 * time.Second
	leaseEnds    = 20 * time.Second
)

// cluster is one Kubernetes cluster with everything that acts on it.
type cluster struct {
	run       *run
	name      string
	api       *apiServer
	processes []*process
	started   int
	// earlier is set while an earlier release is deployed.
	earlier bool
	// vanished are Nodes that will return.
	vanished []*corev1.Node
	// stripped is when a user removed the finalizer of a NodeENI, or when the NodeENI was lost.
	stripped map[string]time.Time
	// lostAt is when the last NodeENI of each name ended.
	lostAt map[string]time.Time
	// booting is an instance that gets interfaces before it joins; it may be nil.
	booting *boot
}

// newCluster returns a cluster without anything in it.
func (r *run) newCluster(name string) *cluster {
	c := &cluster{run: r, name: name, api: newAPIServer(func() time.Time {
		return r.now
	}), stripped: map[string]time.Time{}, lostAt: map[string]time.Time{}}
	c.api.uidSpace = 0x8000 + uint16(len(r.clusters))
	c.api.changed = func(k kind, change change) { r.changed(c, k, change) }
	c.api.refused = func(err error) { r.violate("I9", "the API server refuses a write: %v", err) }
	return c
}

// inhabit draws the first nodes and the first NodeENI of a cluster, and starts its controller.
func (r *run) inhabit(c *cluster) *cluster {
	for range 2 {
		c.join()
	}
	c.declare()
	c.processes = []*process{r.newProcess(c, r.now)}
	return c
}

// isStripped reports whether a user removed the finalizer of a NodeENI.
func (c *cluster) isStripped(uid string) bool { return !c.stripped[uid].IsZero() }

// replace puts another replica in the place of one that has ended.
func (c *cluster) replace(old *process) {
	c.processes = slices.DeleteFunc(c.processes, func(p *process) bool { return p == old })
	if len(c.processes) > 0 {
		return
	}
	wait := fastHandover
	if c.run.chance(0.5) {
		wait = leaseEnds
	}
	c.processes = append(c.processes, c.run.newProcess(c, c.run.now.Add(wait)))
}
