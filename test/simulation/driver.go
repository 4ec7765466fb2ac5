// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"
)

// maxDepth is how deeply calls can be nested in the interludes of other calls.
const maxDepth = 3

// waitInCall is how much time may pass at once while a call is in flight or something is due. Faults bring longer
// waits.
const waitInCall = 2 * time.Second

// option is a step that could be taken now.
type option struct {
	weight int
	take   func()
}

// step takes one step: an action of a process, an action of another actor, or the passing of time.
func (r *run) step() {
	if r.fallen != nil {
		panic(r.fallen)
	}
	r.steps++
	var options []option
	total := 0
	add := func(weight int, take func()) {
		options = append(options, option{weight, take})
		total += weight
	}
	for _, c := range r.clusters {
		for _, p := range c.processes {
			if p.runs() {
				p.lead()
				p.options(add)
			}
		}
		if r.faults.off {
			c.releaseKind()
			c.api.restoreKind()
		}
	}
	longest := resyncPeriod
	if r.depth > r.pauses || total > 0 && (r.faults.off || r.chance(0.9)) {
		longest = waitInCall
	}
	add(2, func() { r.wait(longest) })
	if !r.faults.off {
		add(1, r.act)
	}
	at := r.pick(total)
	for _, o := range options {
		if at -= o.weight; at < 0 {
			o.take()
			break
		}
	}
	r.moveForeignAddresses()
	r.movePods()
	r.moveFixed()
	r.moveReservations()
	r.moveKeepers()
	r.check()
}

// options adds what the process could do now.
func (p *process) options(add func(int, func())) {
	now := p.run.now
	away := p.run.faults.during(apiOutage)
	for k := range kinds {
		switch {
		case away || now.Before(p.heldUntil[k]):
		case p.lost[k]:
			add(4, func() { p.relist(k) })
		case p.informers.behind(k) > 0:
			add(4, func() { p.deliver(k) })
		}
	}
	if !p.resyncing && !now.Before(p.resyncAt) {
		add(3, p.resync)
	}
	if !p.polling && !p.pollAt.IsZero() && !now.Before(p.pollAt) {
		add(3, p.poll)
	}
	if !p.observer.Synced() {
		return
	}
	for q := range queues {
		if keys := p.queues[q].ready(now); len(keys) > 0 {
			add(4, func() { p.reconcile(q, keys[p.run.pick(len(keys))]) })
		}
	}
}

// wait lets time pass: up to the next thing that is due, or a little.
func (r *run) wait(longest time.Duration) {
	next := r.nextDue()
	if limit := r.now.Add(longest); next.IsZero() || next.After(limit) {
		next = limit
	}
	if next.After(r.now) && r.chance(0.7) {
		r.now = next
	} else {
		r.pass(time.Duration(r.pick(2000)) * time.Millisecond)
	}
	r.model.Advance(r.now)
	r.touched()
}

// nextDue returns when the next thing happens by itself; the zero time for never.
func (r *run) nextDue() time.Time {
	var next time.Time
	consider := func(at time.Time) {
		if at.After(r.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if at, any := r.model.NextDue(); any {
		consider(at)
	}
	for _, c := range r.clusters {
		for _, p := range c.processes {
			if p.paused {
				continue
			}
			consider(p.startAt)
			if !p.resyncing {
				consider(p.resyncAt)
			}
			if !p.polling {
				consider(p.pollAt)
			}
			for _, queue := range p.queues {
				if at, any := queue.next(); any {
					consider(at)
				}
			}
			for k := range kinds {
				consider(p.heldUntil[k])
			}
		}
	}
	return next
}

// interlude lets other actors act while a call of a process is in flight.
func (r *run) interlude(p *process) {
	if r.depth >= maxDepth || r.faults.off && !r.chance(0.1) {
		return
	}
	if r.faults.strikes(pausedLeader) {
		r.pause(p)
		return
	}
	if !r.chance(0.15) {
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	for range 1 + r.pick(3) {
		r.step()
		p.mustLive()
	}
}

// pause stops a process in the middle of a call for longer than its lease: another one becomes the leader, then the
// first continues with its call, and notices only later.
func (r *run) pause(p *process) {
	if p.paused || p.expired {
		return
	}
	r.note(p, "is stopped in the middle of a call")
	p.renew()
	p.paused, p.pausedAt = true, r.now
	successor := r.newProcess(p.cluster, r.now.Add(leaseEnds))
	p.cluster.processes = append(p.cluster.processes, successor)
	r.depth++
	r.pauses++
	for range 10 + r.pick(40) {
		r.step()
	}
	r.depth--
	r.pauses--
	p.paused, p.expired = false, true
	r.note(p, "goes on")
}
