// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// backoffs remembers the last failure of each member. Losing it costs a retry that comes too early, and nothing else.
type backoffs struct {
	mu   sync.Mutex
	last map[string]map[identity.Key]plan.Backoff
}

func (s *backoffs) of(instanceID string) map[identity.Key]plan.Backoff {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.last[instanceID])
}

// add remembers that an action failed.
func (s *backoffs) add(instanceID string, action plan.Action, err error, at time.Time) {
	key := action.Of().Key
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]map[identity.Key]plan.Backoff{}
	}
	if s.last[instanceID] == nil {
		s.last[instanceID] = map[identity.Key]plan.Backoff{}
	}
	s.last[instanceID][key] = s.last[instanceID][key].WithFailure(action, err, at)
}

func (s *backoffs) clear(instanceID string, key identity.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last[instanceID], key)
	if len(s.last[instanceID]) == 0 {
		delete(s.last, instanceID)
	}
}

// forget drops all that is remembered of an instance.
func (s *backoffs) forget(instanceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, instanceID)
}

// repeatedUpdates remembers the changes that EC2 accepted, by instance. Losing it costs a change that is repeated three times before
// its wait has grown again.
type repeatedUpdates struct {
	mu   sync.Mutex
	last map[string]plan.RepeatedUpdates
}

func (r *repeatedUpdates) of(instanceID string) plan.RepeatedUpdates {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := plan.RepeatedUpdates{}
	for id, fields := range r.last[instanceID] {
		all[id] = maps.Clone(fields)
	}
	return all
}

func (r *repeatedUpdates) accepted(instanceID string, action plan.Action, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]plan.RepeatedUpdates{}
	}
	if r.last[instanceID] == nil {
		r.last[instanceID] = plan.RepeatedUpdates{}
	}
	r.last[instanceID].Accepted(action, at)
}

// forget drops all that is remembered of an instance.
func (r *repeatedUpdates) forget(instanceID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, instanceID)
}

// fullSubnetTTL is how long after somebody may try again a shortage is remembered. Who waits for room tries within
// [plan.SubnetFullBackoff].
const fullSubnetTTL = 3 * plan.SubnetFullBackoff

// fullSubnets remembers in which subnets EC2 had no room for a NodeENI, and lets one node at a time try whether it has some
// again, so that a fleet does not ask for what is not there.
type fullSubnets struct {
	mu sync.Mutex
	// next is when somebody may try.
	next map[plan.SubnetDemand]time.Time
}

// known returns the shortages that still count. One that nobody came back to for long is forgotten: its NodeENI may be gone.
func (s *fullSubnets) known(now time.Time) map[plan.SubnetDemand]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.next, func(_ plan.SubnetDemand, next time.Time) bool { return now.Sub(next) > fullSubnetTTL })
	return maps.Clone(s.next)
}

// admit reports whether all the creates may be tried. One that tries whether there is room again keeps others from it.
func (s *fullSubnets) admit(actions []plan.Action, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, action := range actions {
		if create, ok := action.(plan.Create); ok && now.Before(s.next[subnetDemandOf(create)]) {
			return false
		}
	}
	for _, action := range actions {
		if create, ok := action.(plan.Create); ok && !s.next[subnetDemandOf(create)].IsZero() {
			s.next[subnetDemandOf(create)] = now.Add(plan.SubnetFullBackoff)
		}
	}
	return true
}

// note takes in what became of an action.
func (s *fullSubnets) note(action plan.Action, err error, at time.Time) {
	create, ok := action.(plan.Create)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		delete(s.next, subnetDemandOf(create))
	case eni.ErrorClass(err) == eni.NoAddresses:
		if s.next == nil {
			s.next = map[plan.SubnetDemand]time.Time{}
		}
		s.next[subnetDemandOf(create)] = at.Add(plan.SubnetFullBackoff)
	case !s.next[subnetDemandOf(create)].IsZero():
		s.next[subnetDemandOf(create)] = at // whether there is room was not found out, and who failed may do so every time: another may try
	}
}

func subnetDemandOf(c plan.Create) plan.SubnetDemand {
	return plan.SubnetDemand{NodeENIUID: c.Member.NodeENIUID, SubnetID: c.SubnetID}
}

// inFlightCreates counts the creates that are under way.
type inFlightCreates struct {
	mu       sync.Mutex
	underWay int
}

func (c *inFlightCreates) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.underWay
}

// begin counts the creates among the actions until end is called, or reports that there may be none.
func (c *inFlightCreates) begin(actions []plan.Action, allowed func(underWay int) bool) (end func(), ok bool) {
	creates := 0
	for _, action := range actions {
		if _, is := action.(plan.Create); is {
			creates++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if creates > 0 && !allowed(c.underWay) {
		return nil, false
	}
	c.underWay += creates
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.underWay -= creates
	}, true
}

// replacements says which nodes are replacing interfaces of which NodeENI.
type replacements struct {
	mu    sync.Mutex
	turns map[string]map[string]bool
}

// acquire gives a node its turn if no more than limit nodes have theirs, or are without an interface as it is. It is
// called again and again; a node that has its turn keeps it until released, so that a bad change stops at the first.
func (r *replacements) acquire(nodeENIUID, node string, limit int, unavailable []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	busy := maps.Clone(r.turns[nodeENIUID])
	if busy[node] && len(busy) > limit {
		delete(r.turns[nodeENIUID], node) // fewer may by now, and the node has not begun with this one
		return false
	}
	if busy[node] {
		return true
	}
	if busy == nil {
		busy = map[string]bool{}
	}
	for _, other := range unavailable {
		if other != node {
			busy[other] = true
		}
	}
	if len(busy) >= limit {
		return false
	}
	if r.turns == nil {
		r.turns = map[string]map[string]bool{}
	}
	if r.turns[nodeENIUID] == nil {
		r.turns[nodeENIUID] = map[string]bool{}
	}
	r.turns[nodeENIUID][node] = true
	return true
}

// release ends all turns of a node.
func (r *replacements) release(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, nodes := range r.turns {
		delete(nodes, node)
		if len(nodes) == 0 {
			delete(r.turns, uid)
		}
	}
}

// rampAdmissions remembers which nodes were served before a ramp or let in during it. Who was served before is read once: whoever
// is served later was let in here.
type rampAdmissions struct {
	mu  sync.Mutex
	let map[string]map[string]bool
	// generations are those of the NodeENIs whose ramps have begun.
	generations map[string]int64
}

// begun reports whether it is known who was served before the ramp.
func (a *rampAdmissions) begun(nodeENIUID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.let[nodeENIUID] != nil
}

// begin notes who was served before the ramp.
func (a *rampAdmissions) begin(nodeENIUID string, generation int64, served []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.let == nil {
		a.let, a.generations = map[string]map[string]bool{}, map[string]int64{}
	}
	a.generations[nodeENIUID] = generation
	if a.let[nodeENIUID] == nil {
		a.let[nodeENIUID] = make(map[string]bool, len(served))
	}
	for _, node := range served {
		a.let[nodeENIUID][node] = true
	}
}

// admit lets a node in if with those already let in or served no more than limit nodes are.
func (a *rampAdmissions) admit(nodeENIUID, node string, limit int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	in := a.let[nodeENIUID]
	if in == nil || !in[node] && len(in) >= limit {
		return false
	}
	in[node] = true
	return true
}

// end forgets a ramp that is over by what a generation of the NodeENI says. An earlier one, which a reconciliation that began
// before the change still has, knows nothing of it.
func (a *rampAdmissions) end(nodeENIUID string, generation int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if generation >= a.generations[nodeENIUID] {
		delete(a.let, nodeENIUID)
		delete(a.generations, nodeENIUID)
	}
}

// staleCheckInterval is how often a node is read from EC2 at most because its agent has lost sight of a link: an agent that says so
// again and again, in error or in malice, is not to spend the account's requests.
const staleCheckInterval = 30 * time.Second

// staleNodes remembers the nodes whose interfaces are to be read from EC2 before anything else is believed.
type staleNodes struct {
	mu    sync.Mutex
	nodes map[string]*staleNode
}

type staleNode struct {
	open   bool
	budget *rate.Limiter
}

func (d *staleNodes) add(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes == nil {
		d.nodes = map[string]*staleNode{}
	}
	if d.nodes[node] == nil {
		d.nodes[node] = &staleNode{budget: rate.NewLimiter(rate.Every(staleCheckInterval), 1)}
	}
	d.nodes[node].open = true
}

// take reports whether there is doubt about the node, and ends it. While the node's budget is spent the doubt stays, and
// again is when to come back.
func (d *staleNodes) take(node string, now time.Time) (doubtful bool, again time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.nodes[node]
	switch {
	case of == nil:
		return false, time.Time{}
	case !of.open && of.budget.TokensAt(now) >= 1:
		delete(d.nodes, node)
		return false, time.Time{}
	case !of.open:
		return false, time.Time{}
	case !of.budget.AllowN(now, 1):
		return false, now.Add(staleCheckInterval)
	}
	of.open = false
	return true, time.Time{}
}

// forget drops what is remembered of a node that is gone.
func (d *staleNodes) forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, node)
}
