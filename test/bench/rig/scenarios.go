// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

const (
	// glance is the interval between reads of EC2's whole state, which use CPU time that is being measured.
	glance = 500 * time.Millisecond
	// patience is the limit of each wait.
	patience = 20 * time.Minute
	// A controller is at rest when it has requested no change of EC2 for calm and uses less than busy of a core. If a
	// controller never uses less, the bench continues after busyTime.
	calm     = 3 * time.Second
	busy     = 0.1
	busyTime = time.Minute
	// joins is how many nodes join an idle cluster.
	joins = 20
)

// Run runs one of the live scenarios. They build on each other: those after the first need a fleet with interfaces,
// which Run creates if it is missing, and the last one removes the interfaces.
func (r *Rig) Run(ctx context.Context, s scenario.Scenario, show func(scenario.Progress)) (*scenario.Outcome, error) {
	steps := map[string]func(context.Context, *measurement) error{
		"a-live": r.coldStart, "c-live": r.joinIdle, "b-live": r.idle, "e-live": r.restart, "d1-live": r.undeclare,
	}
	step, known := steps[s.ID]
	if !known {
		return nil, fmt.Errorf("scenario %s does not run on real servers", s.ID)
	}
	m := &measurement{Rig: r, show: show, speed: s.Speed, values: map[string]float64{}}
	if s.ID != "a-live" {
		if err := m.settledFleet(ctx); err != nil {
			return nil, err
		}
	}
	err := step(ctx, m)
	return &scenario.Outcome{Measured: m.values, Ready: scenario.Thin(m.curve, 500)}, err
}

// measurement is one scenario while it runs.
type measurement struct {
	*Rig
	show   func(scenario.Progress)
	speed  float64
	values map[string]float64
	curve  []scenario.Point
	// begun is the start in the machine's time, since in EC2's; cpu is the CPU time that the controller had used by
	// then.
	begun, since time.Time
	cpu          float64
}

// settledFleet ensures that the fleet has its interfaces and that a controller runs for the speed of the scenario.
func (m *measurement) settledFleet(ctx context.Context) error {
	if ready, _ := m.holding(true); ready < len(m.nodes) {
		aside := &measurement{Rig: m.Rig, show: m.show, values: map[string]float64{}}
		if err := m.coldStart(ctx, aside); err != nil {
			return err
		}
	}
	if m.Rig.speed == m.speed {
		return nil
	}
	if err := m.stop(); err != nil {
		return err
	}
	return m.run(ctx, m.speed)
}

// run starts the controller with an EC2 at a speed, and waits until it is idle.
func (r *Rig) run(ctx context.Context, speed float64) error {
	r.clock.set(speed)
	r.speed = speed
	if err := r.start(ctx); err != nil {
		return err
	}
	return r.rest(ctx)
}

// rest waits until the controller has requested no change of EC2 for a while, the audit log has no new writes, and the
// controller has finished its own work, such as reading a fleet at its start.
func (r *Rig) rest(ctx context.Context) error {
	changes, changed := -1, time.Now()
	used, usedAt := -1.0, changed
	var failed error
	err := r.await(ctx, glance, "an idle controller", func() bool {
		w, err := r.audit.since(time.Time{})
		u, usageErr := r.usage()
		if failed = errors.Join(err, usageErr); failed != nil {
			return true
		}
		now := time.Now()
		if all := r.cloud.Calls().Mutating.Count + w.count; all != changes {
			changes, changed = all, now
		}
		if u.cpu-used > busy*calm.Seconds() {
			used, usedAt = u.cpu, now
		}
		return now.Sub(changed) > calm && (now.Sub(usedAt) > calm || now.Sub(changed) > busyTime)
	})
	return errors.Join(err, failed)
}

// begin starts the counters.
func (m *measurement) begin() error {
	m.cloud.ResetCalls()
	u, err := m.usage()
	m.begun, m.since, m.cpu = time.Now(), m.clock.Now(), u.cpu
	return err
}

// coldStart declares the interfaces of all nodes at once.
func (r *Rig) coldStart(ctx context.Context, m *measurement) error {
	if r.process == nil {
		const speed = 20
		if err := r.run(ctx, speed); err != nil {
			return err
		}
	}
	if err := m.begin(); err != nil {
		return err
	}
	if err := r.declare(ctx); err != nil {
		return err
	}
	m.curve = []scenario.Point{{}}
	return m.converge(ctx, "nodes get their interfaces", true)
}

// undeclare deletes the NodeENIs.
func (r *Rig) undeclare(ctx context.Context, m *measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	for _, name := range []string{"data", "storage"} {
		if err := r.kube.Delete(ctx, &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	return m.converge(ctx, "interfaces are removed", false)
}

// converge waits until EC2 has the declared interfaces, and measures how long that took.
func (m *measurement) converge(ctx context.Context, phase string, declared bool) error {
	err := m.await(ctx, glance, "what was declared", func() bool {
		ready, strays := m.holding(declared)
		seconds := m.clock.Now().Sub(m.since).Seconds()
		if declared {
			m.curve = append(m.curve, scenario.Point{Seconds: seconds, Nodes: ready})
		}
		m.values[scenario.Makespan], m.values[scenario.Strays] = seconds, float64(strays)
		m.show(scenario.Progress{Phase: phase, Seconds: seconds, Ready: ready, Done: float64(ready) / float64(len(m.nodes))})
		return strays == 0
	})
	if err != nil {
		return err
	}
	if err := m.rest(ctx); err != nil {
		return err
	}
	return m.account()
}

// account measures what EC2, the API server and the system report about the controller since the beginning.
func (m *measurement) account() error {
	w, err := m.audit.since(m.begun)
	if err != nil {
		return err
	}
	u, err := m.usage()
	if err != nil {
		return err
	}
	calls, enis := m.cloud.Calls().Mutating, float64(len(m.nodes)*scenario.MembersPerNode)
	m.values[scenario.CallsPerENI] = float64(calls.Count) / enis
	m.values[scenario.Throttled] = float64(calls.Throttled) / float64(max(1, calls.Count))
	m.values[scenario.APIWritesENI], m.values[scenario.APILatency] = float64(w.count-w.ofNodes)/enis, w.p99()
	m.values[scenario.APIWritesNode] = float64(w.ofNodes) / float64(len(m.nodes))
	m.values[scenario.CPUPerENI], m.values[scenario.RSS] = (u.cpu-m.cpu)/enis, u.peak
	return nil
}

// idle measures a time in which nothing happens.
func (r *Rig) idle(ctx context.Context, m *measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	err := r.await(ctx, time.Second, "an end of the idle time", func() bool {
		passed := time.Since(m.begun)
		m.show(scenario.Progress{Phase: "nothing happens", Seconds: passed.Seconds(), Ready: len(r.nodes),
			Done: passed.Seconds() / r.Idle.Seconds()})
		return passed >= r.Idle
	})
	if err != nil {
		return err
	}
	u, err := r.usage()
	if err != nil {
		return err
	}
	w, err := r.audit.since(m.begun)
	calls := r.cloud.Calls()
	m.values[scenario.CPU] = 1000 * (u.cpu - m.cpu) / time.Since(m.begun).Seconds()
	m.values[scenario.RSS] = u.rss
	m.values[scenario.Mutating], m.values[scenario.Reads] = float64(calls.Mutating.Count), float64(calls.NonMutating.Count)
	m.values[scenario.APIWrites] = float64(w.count)
	return err
}

// joinIdle lets nodes join one after the other.
func (r *Rig) joinIdle(ctx context.Context, m *measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	var called, attached []float64
	for n := range joins {
		m.show(scenario.Progress{Phase: "nodes join one by one", Seconds: time.Since(m.begun).Seconds(), Ready: len(r.nodes),
			Done: float64(n) / joins})
		p, err := r.joinOne(ctx)
		if err != nil {
			return err
		}
		called, attached = append(called, p.called.Seconds()), append(attached, p.attached.Seconds())
		if err := r.rest(ctx); err != nil {
			return err
		}
	}
	slices.Sort(called)
	slices.Sort(attached)
	m.values[scenario.OverheadP50], m.values[scenario.OverheadP99] = called[joins/2], called[joins-1]
	m.values[scenario.ProbeP50] = attached[joins/2]
	m.values[scenario.CallsPerENI] = float64(r.cloud.Calls().Mutating.Count) / float64(joins*scenario.MembersPerNode)
	_, strays := r.holding(true)
	m.values[scenario.Strays] = float64(strays)
	return nil
}

// probe has the times of steps of one node, since it joined.
type probe struct {
	node                    *corev1.Node
	first, called, attached time.Duration
}

// joinOne lets a node join and waits until its interfaces are attached.
func (r *Rig) joinOne(ctx context.Context) (probe, error) {
	nodes, err := r.join(ctx, 1)
	if err != nil {
		return probe{}, err
	}
	r.nodes = append(r.nodes, nodes...)
	return r.followOne(ctx, nodes[0], r.clock.Now())
}

// followOne waits until the interfaces of a node are attached. All times are relative to a moment of EC2's time.
func (r *Rig) followOne(ctx context.Context, node *corev1.Node, since time.Time) (probe, error) {
	p := probe{node: node}
	err := r.await(ctx, 20*time.Millisecond, "a ready node "+node.Name, func() bool {
		done := 0
		for _, call := range r.callsFor(node, since) {
			if p.first == 0 {
				p.first = call.Time.Sub(since)
			}
			i := r.cloud.Shown(call.Parameters["NetworkInterfaceId"])
			if call.Action == "AttachNetworkInterface" && call.Code == "" {
				p.called = call.Time.Sub(since)
				if i != nil && i.Attachment != nil && i.Attachment.Status == ec2.Attached {
					done++
				}
			}
		}
		return done >= scenario.MembersPerNode
	})
	p.attached = r.clock.Now().Sub(since)
	return p, err
}

// callsFor returns the calls since a time that name the instance of a node, in a tag or as the target of an attach.
func (r *Rig) callsFor(node *corev1.Node, since time.Time) []awssim.RecentCall {
	instance := bubble.InstanceOf(node)
	return slices.DeleteFunc(r.cloud.RecentCalls(), func(call awssim.RecentCall) bool {
		if call.Time.Before(since) || strings.HasPrefix(call.Action, "Describe") {
			return true
		}
		for _, value := range call.Parameters {
			if value == instance {
				return false
			}
		}
		return true
	})
}

// restart stops the controller and starts it again, while a node joins.
func (r *Rig) restart(ctx context.Context, m *measurement) error {
	before, err := r.usage()
	if err != nil {
		return err
	}
	if err := r.stop(); err != nil {
		return err
	}
	nodes, err := r.join(ctx, 1)
	if err != nil {
		return err
	}
	r.nodes = append(r.nodes, nodes...)
	r.cloud.ResetCalls()
	since := r.clock.Now()
	if err := r.start(ctx); err != nil {
		return err
	}
	p, err := r.followOne(ctx, nodes[0], since)
	if err != nil {
		return err
	}
	if err := r.rest(ctx); err != nil {
		return err
	}
	after, err := r.usage()
	if err != nil {
		return err
	}
	calls := r.cloud.Calls()
	m.values[scenario.FirstAction], m.values[scenario.CaughtUp] = p.first.Seconds(), p.attached.Seconds()
	forProbe := scenario.ReadsFor(bubble.InstanceOf(p.node), r.cloud.State().NetworkInterfaces,
		r.cloud.RecentCalls(), since)
	m.values[scenario.Reads], m.values[scenario.ReadsForNode] = float64(calls.NonMutating.Count), float64(forProbe)
	// Three for each interface of the node that joined.
	m.values[scenario.Mutating] = float64(calls.Mutating.Count - 3*scenario.MembersPerNode)
	m.values[scenario.PeakRSS] = after.peak / before.rss
	_, strays := r.holding(true)
	m.values[scenario.Strays] = float64(strays)
	return nil
}
