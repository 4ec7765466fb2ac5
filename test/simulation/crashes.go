// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"
	"time"
)

// The points at which a process can crash: at every call site, and after the status write that follows the call.
const (
	crashBefore      = "before"
	crashAfterEffect = "after the effect of"
	crashAfterReply  = "after the reply of"
	crashAfterReport = "after the status write that follows"
)

// crashPositions are the points at which a process can crash at a call site that changes something.
func crashPositions(site string) []string {
	positions := []string{crashBefore, crashAfterEffect, crashAfterReply}
	if !strings.HasPrefix(site, statusOf) {
		positions = append(positions, crashAfterReport)
	}
	return positions
}

// frequency is how often processes reach a call site, and so how likely a crash must be there.
type frequency int

const (
	// aRead is made often, and a crash at it teaches less.
	aRead frequency = iota
	aChange
	// aRarity is a change so rare that hardly any process would crash there by chance.
	aRarity
	// aGreatRarity is a change that only an edit of one field causes.
	aGreatRarity
	// aLateRarity is a change so late in a run that most other faults have ended by then.
	aLateRarity
)

// forceDetach is called ten minutes after a detach that does not end.
const forceDetach = "DetachNetworkInterface(Force)"

// rarities are the changes that few runs make, and those only a few times.
var rarities = []string{
	"AssignPrivateIpAddresses", "CreateTags", "DetachNetworkInterface",
	"ModifyDescription", "ModifyGroups", "ModifySourceDestCheck",
}

// rarity returns how often processes reach a call site.
func rarity(site string) frequency {
	switch {
	case strings.HasPrefix(site, "Describe"), strings.HasPrefix(site, "Get"):
		return aRead
	case site == forceDetach:
		return aLateRarity
	case site == "UnassignPrivateIpAddresses":
		return aGreatRarity
	case slices.Contains(rarities, site):
		return aRarity
	default:
		return aChange
	}
}

// strikesCrash draws whether a process crashes at a point.
func (s *swarm) strikesCrash(often frequency) bool {
	if s.off && often != aLateRarity || !s.has(crashes) {
		return false
	}
	rate, kind := s.rate[crashes], crashes
	switch often {
	case aRead:
		rate /= 5
	case aRarity:
		rate = min(0.3, 25*rate)
	case aGreatRarity:
		rate = min(0.5, 80*rate)
	case aLateRarity:
		rate = 0.3
	}
	if again := s.rate[doubleCrashes] / 2; again > rate && s.run.now.Before(s.recovering) {
		rate, kind = again, doubleCrashes
	}
	if !s.run.chance(rate) {
		return false
	}
	s.struck[kind]++
	s.recovering = s.run.now.Add(time.Minute)
	return true
}

// mayCrash is a named point at which a process can crash, and at which a crashed process ends.
func (p *process) mayCrash(when, site string) {
	p.mayCrashAt(rarity(site), when, site)
}

func (p *process) mayCrashAt(often frequency, when string, done ...string) {
	switch directed := p.run.options.CrashAt; {
	case p.doomed:
	case directed != "":
		here := slices.ContainsFunc(done, func(site string) bool { return directed == when+" "+site })
		if p.run.crashedAt || !here {
			return
		}
		p.run.crashedAt = true
	case !p.run.faults.strikesCrash(often):
		return
	}
	for _, site := range done {
		p.run.covers.CrashPoints[when+" "+site]++
	}
	p.run.note(p, "crashes %s %s", when, strings.Join(done, ", "))
	p.crashed = true
	panic(crash{p})
}

// mustLive ends the work of a process that has crashed: the product turns a panic in the work for one object into an
// error, and would continue.
func (p *process) mustLive() {
	if p.crashed || p.dead {
		panic(crash{p})
	}
}

// sites are call sites, each once.
type sites []string

func (s *sites) add(site string) {
	if !slices.Contains(*s, site) {
		*s = append(*s, site)
	}
}

// wroteStatus is a point at which a process can crash after it wrote a status: that status reports all that it did
// before.
func (p *process) wroteStatus(write string) {
	if !strings.HasPrefix(write, statusOf) {
		p.unreported.add(write)
		return
	}
	done := p.unreported
	p.unreported = nil
	if len(done) == 0 {
		return
	}
	often := aChange
	for _, site := range done {
		often = max(often, rarity(site))
	}
	draws := 1
	switch {
	case slices.Contains(done, "UnassignPrivateIpAddresses"):
		draws = 10 // hardly any process reaches this point
	case often >= aRarity:
		draws = 2 // a process that crashed earlier does not get here
	}
	for range draws {
		p.mayCrashAt(often, crashAfterReport, done...)
	}
}
