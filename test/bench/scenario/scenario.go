// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MembersPerNode is how many interfaces each node gets, by two NodeENIs.
const MembersPerNode = 2

// Keys of the measurements.
const (
	Makespan          = "makespan"
	MedianReady       = "medianReady"
	CallsPerENI       = "mutatingCallsPerENI"
	TakenPerENI       = "takenCallsPerENI"
	Mutating          = "mutatingCalls"
	Throttled         = "throttledShare"
	TenantThrottle    = "coTenantThrottledShare"
	ReadsPerHour      = "readsPerHour"
	Reads             = "reads"
	ReadsForNode      = "readsForNode"
	APIWrites         = "apiWrites"
	APIWritesENI      = "apiWritesPerENI"
	APIWritesNode     = "apiWritesPerNode"
	OverheadP50       = "overheadP50"
	OverheadP99       = "overheadP99"
	ProbeP50          = "probeP50"
	ProbeP90          = "probeP90"
	FailedDeletes     = "failedDeletesShare"
	ObjectsGone       = "objectsGone"
	FirstAction       = "firstAction"
	CaughtUp          = "caughtUp"
	InTimeShare       = "readyInTimeShare"
	Wasted            = "wastedCreatesShare"
	Drained           = "drained"
	Orphans           = "mostOrphansPerNode"
	Leaked            = "leaked"
	Detached          = "detachCalls"
	OrphansGone       = "orphansGone"
	Strays            = "strays"
	PodsWaiting       = "podsWaiting"
	MostPrefixes      = "mostPrefixesPerNode"
	SlowestPrefix     = "slowestPrefix"
	SlowestAddress    = "slowestAddress"
	CPU               = "cpu"
	CPUPerENI         = "cpuPerENI"
	APILatency        = "apiWriteP99"
	RSS               = "rss"
	PeakRSS           = "peakRSSRatio"
	ServerPerENI      = "apiServerCPUPerENI"
	ServerPerAddedENI = "apiServerCPUPerAddedENI"
	IdleServer        = "apiServerIdleCPU"
	LinkToReadyP50    = "linkToReadyP50"
	LinkToReadyP99    = "linkToReadyP99"
)

// LimitSuffix is added to the key of a measurement for its limit, if a run itself measures how much EC2 allowed.
const LimitSuffix = "Limit"

// Scenario is one situation, and its measurements.
type Scenario struct {
	ID, Title string
	// Speed is how many times faster than EC2 the simulated one runs, in a live scenario.
	Speed float64
	// InstantCalls lets calls take no time, which is possible only in a model.
	InstantCalls bool
	// Live scenarios run the controller as a process against a real API server; others run it in virtual time.
	Live bool
	// Agents scenarios run the requests of agents against a real API server, without a controller process.
	Agents bool
	// Nodes is the size of the fleet. Quick is its size in the small set; 0 excludes the scenario from that set.
	Nodes, Quick int
	// Figures returns the figures for a fleet of that size, without measurements.
	Figures func(nodes int) []Figure
	// Curve is when EC2 allows the n-th node to be ready, for scenarios with a picture of that.
	Curve func(node int) time.Duration
}

// Catalogue returns all scenarios, in the order in which they run and are shown.
func Catalogue() []Scenario { return slices.Concat(virtual(), live(), agents()) }

// Choose returns the scenarios that a word selects: all, small, virtual, live, or IDs separated by commas, each
// optionally with a colon and another size of its fleet.
func Choose(word string) ([]Scenario, error) {
	var chosen []Scenario
	for _, s := range Catalogue() {
		switch {
		case word == "small" && s.Quick > 0:
			s.Nodes = s.Quick
			chosen = append(chosen, s)
		case word == "all", word == "virtual" && !s.Live && !s.Agents, word == "live" && s.Live:
			chosen = append(chosen, s)
		}
	}
	if chosen != nil {
		return chosen, nil
	}
	for id := range strings.SplitSeq(word, ",") {
		id, size, isSized := strings.Cut(id, ":")
		at := slices.IndexFunc(Catalogue(), func(s Scenario) bool { return s.ID == id })
		if at < 0 {
			return nil, fmt.Errorf("there is no scenario %q: name some of %s, or small, all, virtual or live", id,
				strings.Join(ids(), ", "))
		}
		s := Catalogue()[at]
		if nodes, err := strconv.Atoi(size); err == nil && nodes > 0 {
			s.Nodes = nodes
		} else if isSized {
			return nil, fmt.Errorf("%q is no size of a fleet: write for example %s:1000", size, id)
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

func ids() []string {
	var all []string
	for _, s := range Catalogue() {
		all = append(all, s.ID)
	}
	return all
}

// Judge puts the measurements into the figures of a scenario.
func (s Scenario) Judge(measured map[string]float64) []Figure {
	figures := s.Figures(s.Nodes)
	for n, f := range figures {
		if f.Timed && s.InstantCalls {
			figures[n].Target, figures[n].Fail = nil, nil
		}
		if value, ok := measured[f.Key]; ok {
			figures[n].Measured = &value
		}
		if value, ok := measured[f.Key+LimitSuffix]; ok {
			figures[n].Limit = &value
		}
	}
	return figures
}

func limit(d time.Duration) *float64 {
	seconds := d.Seconds()
	return &seconds
}

// Figures of several scenarios.

func makespan(least time.Duration, target, fail float64) Figure {
	return Figure{What: "all nodes ready", Key: Makespan, Unit: Seconds, Limit: limit(least), Target: TimesLimit(target),
		Fail: TimesLimit(fail)}
}

func callsPerENI(target, fail float64) Figure {
	return Figure{What: "changing EC2 calls per ENI", Key: CallsPerENI, Target: AtMost(target), Fail: AtMost(fail)}
}

func noChanges(fail float64) Figure {
	return Figure{What: "changing EC2 calls", Key: Mutating, Target: AtMost(0), Fail: AtMost(fail)}
}

// restartReads are a controller's reads of EC2 from its start until a node that joined meanwhile is ready.
func restartReads() []Figure {
	return []Figure{
		{What: "EC2 reads", Key: Reads, Target: AtMost(20), Fail: AtMost(30)},
		{What: "of these for the node that joined", Key: ReadsForNode},
	}
}

func throttled() Figure {
	return Figure{What: "EC2 calls throttled", Key: Throttled, Unit: Part, Target: AtMost(0.02)}
}

func medianReady() Figure {
	return Figure{What: "median node ready, of the makespan", Key: MedianReady, Unit: Part, Target: AtMost(0.55)}
}

// strays shows that a fast controller is also correct.
func strays() Figure {
	return Figure{What: "ENIs missing, extra or wrong in the end", Key: Strays, Target: AtMost(0), Fail: AtMost(0)}
}

// writesPerNode are those of the condition, the labels and the taint of a Node, whose agent reports: not ready, ready,
// and the labels.
func writesPerNode() Figure {
	return Figure{What: "Kubernetes API writes per Node", Key: APIWritesNode, Target: AtMost(3)}
}

// writesPerENI are those of objects and NodeENIs.
func writesPerENI() Figure {
	return Figure{What: "Kubernetes API writes per ENI", Key: APIWritesENI, Target: AtMost(2.1), Fail: AtMost(3)}
}

// curve is the earliest time at which EC2 has the tokens for a node's interfaces, if a controller serves one node after
// the other.
func curve(b Buckets) func(int) time.Duration {
	return func(node int) time.Duration { return b.Attaching(node * MembersPerNode) }
}
