// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
)

// Coverage is what runs exercised. Without it, a harness that exercises nothing any more finds no bug and passes.
type Coverage struct {
	// Faults counts the faults that happened, by their ID in the catalogue.
	Faults map[string]int
	// Calls counts the calls to EC2 and the writes to the API server, by call site.
	Calls map[string]int
	// CrashPoints counts the crashes, by point and call site.
	CrashPoints map[string]int
	// Overlaps counts the calls to EC2 that were in flight together with others for the same instance, by call site.
	Overlaps map[string]int
	// Actors counts the actions of actors of the world besides faults, by the names in worldActions.
	Actors map[string]int
	// Checks counts how often an invariant had something to judge, by its number.
	Checks map[string]int
}

// NewCoverage returns an empty coverage.
func NewCoverage() Coverage {
	return Coverage{
		Faults: map[string]int{}, Calls: map[string]int{}, CrashPoints: map[string]int{}, Overlaps: map[string]int{},
		Actors: map[string]int{}, Checks: map[string]int{},
	}
}

// Add adds what another run exercised.
func (c Coverage) Add(other Coverage) {
	for _, sum := range []struct{ to, from map[string]int }{
		{c.Faults, other.Faults}, {c.Calls, other.Calls}, {c.CrashPoints, other.CrashPoints}, {c.Overlaps, other.Overlaps},
		{c.Actors, other.Actors}, {c.Checks, other.Checks},
	} {
		for key, n := range sum.from {
			sum.to[key] += n
		}
	}
}

// Invariants returns the numbers of the invariants that the step driver judges. I11 is judged by another suite.
func Invariants() []string {
	return []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I12", "I13", "I14", "I15", "I16",
		"I17", "I18", "I19", "I20", "I21", "I22", "I23", "I24", "I25", "I26"}
}

// callSites are the calls that the product makes which change something.
var callSites = []string{
	"AssignPrivateIpAddresses", "AttachNetworkInterface", "CreateNetworkInterface", "CreateTags", "DeleteNetworkInterface",
	"DetachNetworkInterface", forceDetach, "ModifyDeleteOnTermination", "ModifyDescription", "ModifyGroups",
	"ModifySourceDestCheck", "UnassignPrivateIpAddresses", reserveCall, unreserveCall,
	"create NetworkInterface", "delete NetworkInterface", "patch NodeENI", "patch NetworkInterface", "status of NodeENI",
	"status of NetworkInterface",
	"patch SubnetReservation", "status of SubnetReservation",
}

// What actors of the world do besides faults.
const (
	launchesInterface = "an instance is launched with an interface of an AWSNodeTemplate"
	joinsInterface    = "an instance gets an interface of a network before it joins"
	adoptsLaunched    = "a launch interface serves a NodeENI"
	bindsDevice       = "an agent binds a device to user space"
	drivesDevice      = "a program drives a device"
	leavesDevice      = "a program ends that drives a device"
	releasesDevice    = "an agent gives a device back to the kernel"
	endsBinding       = "an agent ends while a device is between two drivers"
	togglesDevices    = "a user gives devices to programs, or ends that"
	choosesAddress    = "an interface is created with the lowest free address"
	startsPod         = "a pod starts on a network"
	bringsAddress     = "a pod brings up an address itself"
	runsWithoutPods   = "an agent runs without pod networks"
	deletesInterface  = "a user deletes NetworkInterfaces"
	keepsInterface    = "a user lets the ENI of a NetworkInterface stay"
	stripsInterface   = "a user strips a NetworkInterface of its finalizer"
	releasesKept      = "a user takes back that an ENI stays"
	endsKept          = "a NetworkInterface ends whose ENI stays"
	deletesClosed     = "the node reconciler deletes a closed NetworkInterface"
	deletesKind       = "a user deletes the definition of NetworkInterface"
	releasesInterface = "a user releases the NetworkInterface of a node without an agent"
	returnsInterface  = "a restored etcd brings a NetworkInterface back"
	agentWritesLate   = "a write of an agent arrives late"
	losesFiles        = "an agent loses its files"
	damagesLease      = "the file of a lease is damaged"
	damagesNetwork    = "the file of a network is damaged"
	damagesCheckpoint = "the checkpoint of an agent is damaged"
	evictsPod         = "the controller evicts a pod"
	refusesEviction   = "a PodDisruptionBudget refuses an eviction"
	declaresIPv6      = "a user declares IPv6 prefixes for pods"
	startsObserved    = "a pod starts on an interface with attachment Observed"
	endsObserved      = "a pod on an interface with attachment Observed ends"
	startsFixed       = "a pod starts with a fixed address"
	forcesPod         = "a user deletes a pod by force that still runs"
	killsPod          = "a pod ends without a call of the CNI program"
)

var worldActions = []string{launchesInterface, joinsInterface, adoptsLaunched, bindsDevice, drivesDevice,
	leavesDevice, releasesDevice, endsBinding, togglesDevices,
	choosesAddress, startsPod, bringsAddress, runsWithoutPods, losesFiles, deletesInterface, keepsInterface,
	stripsInterface, deletesKind, returnsInterface, agentWritesLate, damagesLease, damagesNetwork, damagesCheckpoint,
	releasesKept, endsKept, deletesClosed,
	killsPod, startsFixed, forcesPod, declaresIPv6, startsObserved, endsObserved, evictsPod, refusesEviction}

// leastCrashes is how often processes must crash at a point, each time in another state of the world.
const leastCrashes = 4

// Missing returns what was not exercised: injected faults, invariants, call sites, and crashes at each position of the
// call sites that change something.
func (c Coverage) Missing() []string {
	var missing []string
	for _, f := range Catalogue() {
		if f.Missing == "" && c.Faults[f.ID] == 0 {
			missing = append(missing, fmt.Sprintf("fault %s (%s) never struck", f.ID, f.What))
		}
	}
	for _, action := range worldActions {
		if c.Actors[action] == 0 {
			missing = append(missing, "never happened: "+action)
		}
	}
	for _, invariant := range Invariants() {
		if c.Checks[invariant] == 0 {
			missing = append(missing, fmt.Sprintf("invariant %s had nothing to judge", invariant))
		}
	}
	for _, site := range []string{"AttachNetworkInterface", "CreateNetworkInterface", "DeleteNetworkInterface",
		"DetachNetworkInterface"} {
		if c.Overlaps[site] == 0 {
			missing = append(missing, fmt.Sprintf("%s was never under way together with another call for the instance", site))
		}
	}
	for _, site := range callSites {
		if c.Calls[site] == 0 {
			missing = append(missing, fmt.Sprintf("%s was never called", site))
		}
	}
	for _, point := range c.RareCrashes() {
		missing = append(missing, fmt.Sprintf("processes crashed %d times %s, and not %d times", c.CrashPoints[point], point,
			leastCrashes))
	}
	return missing
}

// RareCrashes returns the points of a call or a write at which fewer than leastCrashes processes crashed, for
// [Options.CrashAt].
func (c Coverage) RareCrashes() (points []string) {
	for _, site := range callSites {
		for _, position := range crashPositions(site) {
			if point := position + " " + site; c.CrashPoints[point] < leastCrashes {
				points = append(points, point)
			}
		}
	}
	return points
}

// judged counts that an invariant had something to judge.
func (r *run) judged(invariant string) { r.covers.Checks[invariant]++ }
