// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"
)

// serveRounds is how often the leader looks, once a second, whether it has something to do about the first node.
const serveRounds = 5

// leaderServes lets the leader do for some seconds what it does about the first node.
func (s *stage) leaderServes() {
	for range serveRounds {
		s.leaderServesOnce()
	}
}

func (s *stage) leaderServesOnce() {
	s.leaderSees()
	s.passes(time.Second)
	if at := s.leader.pollAt; !at.IsZero() && !s.now.Before(at) {
		s.leader.poll()
	}
	for _, one := range []struct {
		queue queueName
		key   string
	}{{nodeENIQueue, "net"}, {nodeQueue, node1}, {instanceQueue, s.hosts[node1].instance}} {
		if slices.Contains(s.leader.queues[one.queue].ready(s.now), one.key) {
			s.leader.reconcile(one.queue, one.key)
			s.leaderSees()
		}
	}
}

// leaderServesWithoutAnswer serves the first node. The changes in EC2 get no answer, and have no effect yet.
func (s *stage) leaderServesWithoutAnswer() {
	s.leaderMayServeWithoutAnswer()
	s.isLate()
}

// leaderMayServeWithoutAnswer does so too, and may make no change.
func (s *stage) leaderMayServeWithoutAnswer() {
	s.unanswered = true
	s.leaderServes()
	s.unanswered = false
}
