// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

func churnForAnHour(s *stage)     { churn(s, 0.03, time.Hour) }
func churnForTenMinutes(s *stage) { churn(s, 0.10, 10*time.Minute) }
func churnForHalfAnHour(s *stage) { churn(s, 0.10, 30*time.Minute) }

// turnover is a fleet whose nodes join and leave.
type turnover struct {
	*stage
	random *rand.Rand
	alive  []*corev1.Node
	// booting are instances that do not run yet, with the time from which on they run.
	booting []arrival
	// dying are nodes whose instances shut down, by instance.
	dying map[string]*corev1.Node
	// lives are the nodes that joined since the beginning, deaths the times at which instances were terminated.
	lives  []arrival
	deaths map[string]time.Time
	// orphans is the largest number of unattached interfaces that one node had at once.
	orphans int
}

type arrival struct {
	node *corev1.Node
	at   time.Time
}

// tick is the interval at which nodes join and leave; every few ticks the scenario reads the whole state of EC2.
const (
	tick  = 2 * time.Second
	looks = 5
)

// churn replaces a part of the fleet per minute, for a time, and then waits for convergence.
func churn(s *stage, perMinute float64, lasting time.Duration) {
	s.fleet()
	t := &turnover{stage: s, random: rand.New(rand.NewPCG(1, 3)), dying: map[string]*corev1.Node{},
		deaths: map[string]time.Time{}}
	for _, node := range s.nodes() {
		t.alive = append(t.alive, &node)
	}
	begun := time.Now()
	s.enter("nodes come and go", func() float64 { return 0.9 * min(1, time.Since(begun).Seconds()/lasting.Seconds()) })
	due := 0.0
	for n := 0; time.Since(begun) < lasting; n++ {
		for due += perMinute * float64(s.Nodes) * tick.Minutes(); due >= 1; due-- {
			t.replace()
		}
		t.pass(n)
	}
	over := time.Now()
	s.enter("the backlog is worked off", func() float64 { return 0.95 })
	for n := 0; len(t.booting) > 0 || len(t.dying) > 0 || !t.allReady(); n++ {
		if time.Since(over) > 1*time.Hour {
			s.Fatalf("three hours after the last node came not all are ready:\n%s", t.unready())
		}
		t.pass(n)
	}
	s.measured[scenario.Drained] = time.Since(over).Seconds()
	time.Sleep(30 * time.Minute)
	t.measure()
}

// replace terminates a node, and launches another.
func (t *turnover) replace() {
	t.Helper()
	n := t.random.IntN(len(t.alive))
	node := t.alive[n]
	t.alive[n] = t.alive[len(t.alive)-1]
	t.alive = t.alive[:len(t.alive)-1]
	instance := bubble.InstanceOf(node)
	t.Must(t.EC2.Terminate(instance))
	t.dying[instance], t.deaths[instance] = node, time.Now()
	t.booting = append(t.booting, arrival{t.Launch(1, pool)[0], time.Now().Add(bubble.Booting)})
}

// pass lets a tick pass, in which some instances begin to run and others end.
func (t *turnover) pass(n int) {
	t.Helper()
	time.Sleep(tick)
	for len(t.booting) > 0 && !t.booting[0].at.After(time.Now()) {
		node := t.booting[0].node
		t.booting = t.booting[1:]
		t.Must(t.User.Create(t.Context(), node))
		t.alive = append(t.alive, node)
		t.lives = append(t.lives, arrival{node, time.Now()})
	}
	if n%looks == 0 {
		t.bury(t.dying)
		t.countOrphans()
	}
}

func (t *turnover) countOrphans() {
	cluster, unattached := t.UID(), map[string]int{}
	for _, i := range t.EC2.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == cluster && i.Attachment == nil {
			unattached[i.Tags[identity.TagInstanceID]]++
			t.orphans = max(t.orphans, unattached[i.Tags[identity.TagInstanceID]])
		}
	}
}

func (t *turnover) allReady() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, node := range t.alive {
		if !t.attached[node.Name] {
			return false
		}
	}
	return true
}

// unready returns what the interfaces of nodes that are not ready say.
func (t *turnover) unready() string {
	var all v1alpha1.NetworkInterfaceList
	t.Must(t.User.List(t.Context(), &all))
	said := map[string]string{}
	for _, n := range all.Items {
		said[n.Spec.NodeName] += fmt.Sprintf("%s: %+v %+v\n", n.Name, n.Spec, n.Status)
	}
	var text strings.Builder
	for _, node := range t.alive {
		if !t.attached[node.Name] {
			fmt.Fprintf(&text, "%s, instance %s: %s", node.Name, bubble.InstanceOf(node), said[node.Name])
		}
	}
	return text.String()
}

func (t *turnover) measure() {
	inTime, counted := 0, 0
	for _, life := range t.lives {
		death, died := t.deaths[bubble.InstanceOf(life.node)]
		if died && death.Sub(life.at) < scenario.InTime {
			continue
		}
		counted++
		if ready := t.readyAt(life.node.Name); !ready.IsZero() && ready.Sub(life.at) <= scenario.InTime {
			inTime++
		}
	}
	creates, wasted := 0, 0
	for _, call := range t.controller.Changes(t.lives[0].at.Add(-time.Minute)) {
		if call.Action == "CreateNetworkInterface" {
			creates++
			if death, died := t.deaths[call.Instance]; died && call.At.After(death) {
				wasted++
			}
		}
	}
	t.measured[scenario.InTimeShare] = part(inTime, counted)
	t.measured[scenario.Wasted] = part(wasted, creates)
	t.measured[scenario.Orphans] = float64(t.orphans)
	t.measured[scenario.Detached] = float64(t.EC2.Calls().Actions["DetachNetworkInterface"].Count)
	t.compare(scenario.Leaked)
}
