// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/inventory"
)

// faultName is one line of the catalogue.
type faultName int

// The faults.
const (
	lostRequest faultName = iota
	lostReply
	duplicate
	serverError
	throttling
	hanging
	staleReads
	pageErrors
	forgottenTokens
	slowCalls
	zoneOutage
	conflicts
	watchTrouble
	apiOutage
	rejections
	crashes
	doubleCrashes
	pausedLeader
	clockSkew
	instanceChanges
	nodeFlaps
	humanHands
	cniTakesSlots
	userEdits
	secondCluster
	revokedPermission
	fullSubnet
	versionSwap
	stuckAttachments
	hiddenNews
	dyingInstances
	quotas
	lostObjects
	oldStart
	twoNodes
	wrongAnswers
	deletedKind
	strippedObjects
	faultNames
)

// Fault is an entry of the catalogue of faults.
type Fault struct {
	// ID is that of the reliability catalogue; the last IDs are our own.
	ID, What string
	// Missing says why a fault is not injected; it is empty for those that are.
	Missing string
}

// Catalogue returns every fault that the simulation knows of, with those it does not inject and why.
func Catalogue() []Fault {
	return []Fault{
		lostRequest:     {ID: "F1", What: "a request is lost on its way"},
		lostReply:       {ID: "F2", What: "a call takes effect and its answer is lost"},
		duplicate:       {ID: "F3", What: "a call is delivered twice"},
		serverError:     {ID: "F4", What: "EC2 answers with an internal error"},
		throttling:      {ID: "F5", What: "bursts in which EC2 throttles"},
		hanging:         {ID: "F6", What: "a call hangs for 30 s"},
		staleReads:      {ID: "F7", What: "readings lag up to 60 s, each differently"},
		pageErrors:      {ID: "F8", What: "a listing breaks between two pages"},
		forgottenTokens: {ID: "F9", What: "EC2 forgets a client token"},
		slowCalls:       {ID: "F10", What: "calls take twenty times as long"},
		zoneOutage:      {ID: "F11", What: "a zone answers with errors for a while"},
		conflicts:       {ID: "F12", What: "writes to the API server conflict"},
		watchTrouble:    {ID: "F13", What: "watch events stop, kinds run apart, a list is older than what was known"},
		apiOutage:       {ID: "F14", What: "the API server is away for minutes"},
		rejections:      {ID: "F15", What: "admission rejects a write"},
		crashes:         {ID: "F16", What: "crash at any call, before or after its effect"},
		doubleCrashes:   {ID: "F17", What: "crash again during recovery"},
		pausedLeader: {ID: "F18",
			What: "the leader stops in the middle of a call, another takes over, the first goes on"},
		clockSkew: {ID: "F19", What: "the clocks of replicas differ by up to an hour"},
		instanceChanges: {ID: "F20",
			What: "instances terminate, stop, and come back as another one under the same node name"},
		nodeFlaps:         {ID: "F21", What: "nodes vanish and return, many instances are reclaimed at once"},
		humanHands:        {ID: "F22", What: "people detach, delete, retag and attach interfaces by hand"},
		cniTakesSlots:     {ID: "F23", What: "the VPC CNI takes low device indexes"},
		userEdits:         {ID: "F24", What: "specs, selectors and labels change, objects are deleted at any moment"},
		secondCluster:     {ID: "F25", What: "a second cluster with the same names works in the same VPC"},
		revokedPermission: {ID: "F26", What: "a permission is revoked and restored"},
		fullSubnet:        {ID: "F27", What: "a subnet fills up and drains"},
		versionSwap:       {ID: "F28", What: "an earlier release takes the lease for a while, and knows less"},
		stuckAttachments:  {ID: "S1", What: "attaching or detaching never ends by itself"},
		hiddenNews:        {ID: "S2", What: "a new interface is unknown to every call for a while"},
		dyingInstances:    {ID: "S3", What: "an instance terminates just before an attach"},
		quotas: {ID: "S4",
			What: "a quota answers although the first call succeeded; an instance takes fewer interfaces than documented"},
		twoNodes: {ID: "S7", What: "an instance registers under a second name, and one of its two Nodes goes later"},
		lostObjects: {ID: "S6",
			What: "NodeENIs and NetworkInterfaces are lost, as when etcd is restored to a time before them, or return"},
		deletedKind: {ID: "S9", What: "the definition of NetworkInterface is deleted, and comes back"},
		strippedObjects: {ID: "S10",
			What: "users strip NetworkInterfaces that are being deleted of their finalizers"},
		oldStart: {
			ID: "S5", What: "the first list of a new replica is older than what the one before it knew",
			Missing: "client-go streams the first list (WatchList), which is consistent; only API servers without that " +
				"feature answer from an old cache",
		},
		wrongAnswers: {
			ID: "S8", What: "something comes that is not the answer: nothing, a page, another action's answer, half of it, 50 " +
				"MB, a reset",
			Missing: "calls are no HTTP here, so that this is F1 or F2; the seeds of TestPipeline draw it for the EC2 client " +
				"itself",
		},
	}
}

// swarm is the faults of one run: a random subset of the catalogue with rates.
type swarm struct {
	run *run
	// rate is the probability per chance; zero for faults that are not part of the run.
	rate [faultNames]float64
	// until is when the present burst of a fault ends.
	until [faultNames]time.Time
	// zone is that of an outage, and action that of a revoked permission.
	zone, action string
	// recovering is the time until which a crash makes another one likely.
	recovering time.Time
	// model are the faults that the model of EC2 draws.
	model *fault.Set
	// struck counts how often each fault happened.
	struck [faultNames]int
	off    bool
}

// userEditRate is the rate of user edits, without which nothing happens.
const userEditRate = 0.06

func (r *run) newSwarm(o Options) *swarm {
	s := &swarm{run: r, model: fault.NewSet(o.Seed)}
	s.rate[userEdits] = userEditRate
	if o.Calm {
		return s
	}
	levels := []float64{0.01, 0.05, 0.25}
	for f := range faultNames {
		if Catalogue()[f].Missing == "" && r.chance(0.3) {
			s.rate[f] = levels[r.pick(len(levels))]
		}
	}
	s.rate[userEdits] = userEditRate
	if s.has(stuckAttachments) {
		s.rate[crashes] = max(s.rate[crashes], levels[0]) // few runs reach a forced detach, so they must have crashes
	}
	s.addModelFaults()
	return s
}

func (s *swarm) has(f faultName) bool { return s.rate[f] > 0 }

// latestVisible is the longest time until a read shows a change. A stale read lags behind that, and both together stay
// within the minute on which the product relies.
const latestVisible = 30 * time.Second

// addModelFaults starts the faults that the model of EC2 itself injects.
func (s *swarm) addModelFaults() {
	settings := map[fault.Kind]fault.Fault{
		fault.StaleRead: {Age: inventory.StaleReadWindow - latestVisible, Jitter: true},
		fault.HideNew:   {Age: time.Minute}, fault.LowerLimit: {Limit: 2},
	}
	for f := range faultNames {
		for _, kind := range modelFaults[f] {
			if !s.has(f) {
				continue
			}
			one := settings[kind]
			one.Kind, one.Probability = kind, s.rate[f]
			if kind == fault.StuckDetaching {
				one.Probability = min(1, 4*s.rate[f]) // detaches are few
			}
			if _, err := s.model.Add(one, s.run.now); err != nil {
				panic(err)
			}
		}
	}
}

// modelFaults are the faults that the model of EC2 draws.
var modelFaults = map[faultName][]fault.Kind{
	staleReads:       {fault.StaleRead},
	pageErrors:       {fault.InvalidateNextToken},
	forgottenTokens:  {fault.ForgetToken},
	stuckAttachments: {fault.StuckAttaching, fault.StuckDetaching},
	hiddenNews:       {fault.HideNew},
	dyingInstances:   {fault.InstanceDies},
	quotas:           {fault.Quota, fault.LowerLimit},
}

// behavior is how long EC2 takes in a run, and what it does where AWS documents nothing.
func (s *swarm) behavior() ec2.Behavior {
	b := ec2.LaggingBehavior()
	b.TerminatedFor = []time.Duration{2 * time.Minute, 24 * time.Hour}[s.run.pick(2)]
	b.AttachToPending = s.run.chance(0.3)
	b.ForgetTokenOnDelete = s.run.chance(0.3)
	b.ShowDetaching = s.run.chance(0.3)
	b.RefuseSecondDetach = s.run.chance(0.3)
	b.ForceDetachKeepsSlot = s.run.chance(0.7)
	if s.run.chance(0.3) {
		b.DeleteInUseCode = "InvalidNetworkInterface.InUse"
	}
	if s.run.chance(0.3) {
		b.Available = ec2.Latency{Max: 3 * time.Second}
	}
	if s.has(staleReads) {
		b.Visibility = ec2.Latency{Max: 2 * time.Second, Tail: latestVisible, TailShare: 0.2}
	}
	return b
}

// strikes draws whether a fault happens now.
func (s *swarm) strikes(f faultName) bool {
	if s.off || s.rate[f] == 0 || s.run.random.Float64() >= s.rate[f] {
		return false
	}
	s.struck[f]++
	return true
}

// during reports whether a burst of the fault is on.
func (s *swarm) during(f faultName) bool { return !s.off && s.run.now.Before(s.until[f]) }

// bursts begins the faults that come in bursts. It is called once per step.
func (s *swarm) bursts() {
	for _, burst := range []struct {
		fault   faultName
		longest time.Duration
	}{{throttling, time.Minute}, {zoneOutage, 5 * time.Minute}, {apiOutage, 10 * time.Minute},
		{revokedPermission, 5 * time.Minute}, {fullSubnet, 5 * time.Minute}} {
		if s.off || s.rate[burst.fault] == 0 || s.during(burst.fault) || !s.run.chance(s.rate[burst.fault]/10) {
			continue
		}
		s.struck[burst.fault]++
		lasts := time.Duration(s.run.random.Int64N(int64(burst.longest)))
		s.until[burst.fault] = s.run.now.Add(lasts)
		s.run.note(nil, "%s for %s", Catalogue()[burst.fault].What, lasts.Round(time.Second))
		s.begin(burst.fault, lasts)
	}
}

func (s *swarm) begin(f faultName, lasts time.Duration) {
	switch f {
	case zoneOutage:
		s.zone = zones[s.run.pick(len(zones))]
	case revokedPermission:
		actions := []string{"CreateNetworkInterface", "AttachNetworkInterface", "DetachNetworkInterface",
			"DeleteNetworkInterface", "CreateTags", "DescribeNetworkInterfaces list"}
		s.action = actions[s.run.pick(len(actions))]
	case fullSubnet:
		full := fault.Fault{Kind: fault.SubnetFull, Resource: subnets[s.run.pick(len(subnets))].id,
			Duration: max(lasts, time.Second)}
		if _, err := s.model.Add(full, s.run.now); err != nil {
			panic(err)
		}
	}
}

// skew draws the error of a process' clock.
func (s *swarm) skew() time.Duration {
	if s.off || !s.has(clockSkew) {
		return 0
	}
	s.struck[clockSkew]++
	return time.Duration(s.run.random.Int64N(int64(2*time.Hour))) - time.Hour
}

// oldList draws how many changes a list lacks.
func (s *swarm) oldList() int {
	if s.off || !s.has(watchTrouble) || !s.run.chance(0.3) {
		return 0
	}
	s.struck[watchTrouble]++
	return s.run.pick(4)
}

// latency draws the one-way delay to EC2 or to the API server.
func (s *swarm) latency() time.Duration {
	took := time.Duration(5+s.run.pick(100)) * time.Millisecond
	if s.strikes(slowCalls) {
		took *= 20
	}
	return took
}

// end ends all faults.
func (s *swarm) end() {
	s.off = true
	for _, drawn := range s.model.List(s.run.now) {
		for f, kinds := range modelFaults {
			if slices.Contains(kinds, drawn.Kind) {
				s.struck[f] += drawn.Strikes
			}
		}
	}
	s.model.Clear()
}
