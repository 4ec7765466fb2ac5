// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

const (
	pool = "fleet"
	// settle is how long the stage waits for work after readiness.
	settle = 2 * time.Minute
	// points is how many points of a curve are kept.
	points = 500
)

// stage is a cluster with a fleet, and its measurements.
type stage struct {
	*bubble.Cluster
	scenario.Scenario
	controller *bubble.Replica
	tell       func(Event)
	measured   map[string]float64
	born       time.Time

	mu sync.Mutex
	// begun is when the nodes of the curve joined.
	begun time.Time
	// ready is when each node first was ready, attached whether it is now. Neither has a node that was removed.
	ready    map[string]time.Time
	attached map[string]bool
	// interfaces are the interfaces of each node that are ready, and objects all that exist.
	interfaces map[string]map[string]bool
	objects    map[string]bool
	lastGone   time.Time
	curve      []scenario.Point
	phase      string
	done       func() float64
}

func newStage(t *testing.T, s scenario.Scenario, tell func(Event)) *stage {
	t.Helper()
	st := &stage{
		Cluster: bubble.NewWithLatencies(t, worldOf(s), latenciesOf(s)), Scenario: s, tell: tell,
		measured: map[string]float64{}, born: time.Now(),
		ready: map[string]time.Time{}, attached: map[string]bool{}, objects: map[string]bool{},
		interfaces: map[string]map[string]bool{},
	}
	st.enter("set-up", func() float64 { return 0 })
	st.follow()
	go st.report()
	return st
}

// latenciesOf returns the durations of calls in a scenario.
func latenciesOf(s scenario.Scenario) bubble.Latencies {
	if s.InstantCalls {
		return bubble.Latencies{}
	}
	return bubble.Latencies{EC2: ec2.CallLatencies(), Kubernetes: 10 * time.Millisecond}
}

// open declares the interfaces, starts a controller, and waits until it is at rest.
func (s *stage) open() {
	s.Helper()
	s.Declare("data", pool, "data")
	s.Declare("storage", pool, "storage")
	s.controller = s.Start(s.Defaults())
	time.Sleep(time.Minute)
	s.EC2.ResetCalls()
}

// fleet is open with a fleet of nodes that are all ready and at rest.
func (s *stage) fleet() {
	s.Helper()
	s.open()
	s.arrive(s.Nodes)
	s.enter("set-up", s.readyPart)
	s.awaitReady(s.Nodes)
	time.Sleep(settle)
	s.EC2.ResetCalls()
}

// arrive makes nodes join, all at the same moment, with which the curve begins.
func (s *stage) arrive(nodes int) {
	s.Helper()
	s.Join(nodes, pool)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.curve = time.Now(), []scenario.Point{{}}
}

// follow records what the controller reports about nodes.
func (s *stage) follow() {
	s.Helper()
	// Longer than any scenario.
	long := int64((30 * 24 * time.Hour).Seconds())
	w, err := s.User.Watch(s.Context(), &v1alpha1.NetworkInterfaceList{},
		&client.ListOptions{Raw: &metav1.ListOptions{TimeoutSeconds: &long}})
	s.Must(err)
	go func() {
		for event := range w.ResultChan() {
			if n, ok := event.Object.(*v1alpha1.NetworkInterface); ok {
				s.note(n, event.Type == watch.Deleted)
			}
		}
	}()
	s.Cleanup(w.Stop)
}

func (s *stage) note(n *v1alpha1.NetworkInterface, isGone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, node := time.Now(), n.Spec.NodeName
	if isGone {
		delete(s.objects, n.Name)
		s.lastGone = now
	} else {
		s.objects[n.Name] = true
	}
	if s.interfaces[node] == nil {
		s.interfaces[node] = map[string]bool{}
	}
	if !isGone && meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady) {
		s.interfaces[node][n.Name] = true
	} else {
		delete(s.interfaces[node], n.Name)
	}
	was, is := s.attached[node], len(s.interfaces[node]) >= scenario.MembersPerNode
	if is == was {
		return
	}
	if is {
		s.attached[node] = true
		if s.ready[node].IsZero() {
			s.ready[node] = now
		}
	} else {
		delete(s.attached, node)
	}
	if !s.begun.IsZero() {
		s.curve = append(s.curve, scenario.Point{Seconds: now.Sub(s.begun).Seconds(), Nodes: len(s.attached)})
	}
}

// readyAt returns when a node first was ready, or zero.
func (s *stage) readyAt(node string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready[node]
}

// readyNow returns how many nodes are ready, and how many NetworkInterfaces there are.
func (s *stage) readyNow() (ready, objects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.attached), len(s.objects)
}

// readyPart is the part of the fleet that is ready.
func (s *stage) readyPart() float64 {
	ready, _ := s.readyNow()
	return float64(ready) / float64(s.Nodes)
}

// awaitReady waits until that number of nodes are ready, and fails after three times EC2's limit.
func (s *stage) awaitReady(nodes int) {
	s.Helper()
	most := 3*scenario.Documented().Attaching(nodes*scenario.MembersPerNode) + 10*time.Minute
	s.await(most, strconv.Itoa(nodes)+" ready nodes", func() bool {
		ready, _ := s.readyNow()
		return ready >= nodes
	})
}

// await waits for a condition, for at most a time.
func (s *stage) await(within time.Duration, what string, is func() bool) {
	s.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Second) {
		if time.Since(begun) > within {
			ready, objects := s.readyNow()
			s.Fatalf("after %s there is still not %s: %d nodes are ready, there are %d NetworkInterfaces", within, what,
				ready, objects)
		}
	}
}

// enter begins a part of the scenario; done returns its progress.
func (s *stage) enter(phase string, done func() float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.done = phase, done
}

// report writes the progress of the run until it ends.
func (s *stage) report() {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-s.Context().Done():
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		phase, done, ready := s.phase, s.done, len(s.attached)
		s.mu.Unlock()
		s.tell(Event{Progress: &scenario.Progress{Phase: phase, Seconds: time.Since(s.born).Seconds(), Ready: ready,
			Done: done()}})
	}
}

// compare measures how many interfaces in EC2 are not as declared, or missing.
func (s *stage) compare(key string) {
	s.Helper()
	s.compareAs(s.UID(), key)
}

// compareAs is compare for a cluster that was given a name.
func (s *stage) compareAs(cluster, key string) {
	s.Helper()
	balance := map[bubble.Member]int{}
	for _, m := range s.Wanted() {
		balance[m]++
	}
	for _, m := range s.OwnedBy(cluster) {
		balance[m]--
	}
	off := 0
	for _, count := range balance {
		off += max(count, -count)
	}
	s.measured[key] = float64(off)
}

func (s *stage) outcome() *scenario.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &scenario.Outcome{Measured: s.measured}
	if s.Curve != nil {
		o.Ready = scenario.Thin(s.curve, points)
	}
	return o
}
