// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
)

// Options choose a run.
type Options struct {
	// Seed decides everything.
	Seed uint64
	// Steps is how long the chaos lasts.
	Steps int
	// Calm disables every fault; users still act.
	Calm bool
	// CrashAt is the only point at which a process crashes, once; if it is empty, the seed decides. It is a point of
	// [Coverage.RareCrashes].
	CrashAt string
	// Verbose receives every line of the trace as it happens; it may be nil.
	Verbose func(string)
}

// Result is the result of a run.
type Result struct {
	// Violation is nil when all invariants held.
	Violation *Violation
	// Hash is the hash of the whole trace: runs with the same options have the same hash.
	Hash uint64
	// Tail is the end of the trace.
	Tail []string
	// Steps counts all steps, those after the chaos included.
	Steps int
	// Coverage is what the run exercised.
	Coverage Coverage
	// Virtual is how much virtual time passed.
	Virtual time.Duration
}

// Violation is an invariant that did not hold.
type Violation struct {
	// Invariant is its number, for example "I3".
	Invariant string
	Message   string
}

// Error implements error.
func (v *Violation) Error() string { return v.Invariant + ": " + v.Message }

var beginning = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// run is one run.
type run struct {
	options  Options
	random   *rand.Rand
	origins  origins
	now      time.Time
	model    *ec2.Model
	faults   *swarm
	scheme   *runtime.Scheme
	clusters []*cluster
	trace    trace
	seen     *ec2State
	watch    invariantState
	steps    int
	// depth is how many calls are in flight; pauses is how many of them belong to stopped processes.
	depth, pauses int

	// fallen is the first invariant that did not hold: the product turns a panic in the work for one object into an
	// error.
	fallen *Violation

	foreign *foreignAddresses
	pods    *pods
	// prefixes are users of networks whose pods have addresses of prefixes.
	prefixes *prefixUsers
	// followers are pods that bring up addresses themselves.
	followers *followers
	// fixed are pods that ask for fixed addresses.
	fixed *fixedPods
	// agents are the kinds of agents that run on the nodes.
	agents *agents
	// evictions are users who let the controller evict pods.
	evictions *evictions
	// disks have the files of nodes.
	disks *disks
	// keepers are users who let ENIs stay.
	keepers *keepers
	// observed are pods that the user's own plugin attaches.
	observed *observed
	// devices are of programs in user space.
	devices *devices
	// reserving are those who reserve parts of subnets.
	reserving *reserving

	// crashedAt is set once a process has crashed at the point of the options.
	crashedAt bool

	// stage is set while the steps of a schedule run; nil in walks.
	stage *stage

	// broken is the part that stays broken after the healing.
	broken breakage

	covers Coverage
}

// Run makes one run: chaos for the given number of steps, then healing, convergence, in some runs a rollout, and a
// quiet period.
func Run(o Options) Result {
	return o.play((*run).populate, func(r *run) {
		for r.steps < o.Steps*r.prefixes.longer() {
			r.faults.bursts()
			r.step()
		}
		r.heal()
		r.converge()
		if r.chance(0.3) {
			r.rollOut()
			r.converge()
		}
		r.rest()
	})
}

// play begins a run, adds the clusters, runs the course, and returns the result.
func (o Options) play(populate, course func(*run)) (result Result) {
	r := &run{
		options: o, random: rand.New(rand.NewPCG(o.Seed, 0x51)), origins: newOrigins(o.Seed), now: beginning,
		foreign: newForeignAddresses(o.Seed), pods: newPods(o.Seed), prefixes: newPrefixUsers(o.Seed),
		followers: newFollowers(o.Seed), agents: newAgents(o.Seed), disks: newDisks(o.Seed),
		evictions: newEvictions(o.Seed), reserving: newReserving(o.Seed), fixed: newFixedPods(o.Seed),
		devices: newDevices(o.Seed), observed: newObserved(o.Seed), keepers: newKeepers(o.Seed),
		covers: NewCoverage(), scheme: runtime.NewScheme(),
	}
	r.trace.verbose = o.Verbose
	r.prefixes.acts = r.prefixes.acts || r.fixed.acts
	r.pods.acts = r.pods.acts || r.followers.acts || r.prefixes.acts
	defer func() {
		if thrown := recover(); thrown != nil {
			violation, is := thrown.(*Violation)
			if !is {
				violation = &Violation{"panic", fmt.Sprintf("%v\n%s", thrown, stack())}
			}
			result.Violation = violation
		}
		if r.fallen != nil {
			result.Violation = r.fallen
		}
		for f, n := range r.faults.struck {
			r.covers.Faults[Catalogue()[f].ID] += n
		}
		result.Hash, result.Tail, result.Steps, result.Coverage = r.trace.hash, r.trace.tail(), r.steps, r.covers
		result.Virtual = r.now.Sub(beginning)
	}()
	r.begin()
	populate(r)
	r.reserveFixed()
	course(r)
	return result
}

func (r *run) begin() {
	if err := v1alpha1.AddToScheme(r.scheme); err != nil {
		panic(err)
	}
	r.faults = r.newSwarm(r.options)
	model, err := ec2.New(ec2.Options{
		World: world(), Behavior: r.faults.behavior(), Faults: r.faults.model, Seed: r.options.Seed, Now: r.now,
	})
	if err != nil {
		panic(err)
	}
	r.model = model
	r.watch = newWatch()
}

// populate adds the clusters of a walk.
func (r *run) populate() {
	names := []string{"red"}
	if r.faults.has(secondCluster) {
		r.faults.struck[secondCluster]++
		names = append(names, "green")
	}
	for _, name := range names {
		r.clusters = append(r.clusters, r.inhabit(r.newCluster(name)))
	}
}

// pick draws a number below n.
func (r *run) pick(n int) int { return r.random.IntN(n) }

// chance draws whether something of the given probability happens.
func (r *run) chance(p float64) bool { return r.random.Float64() < p }

// pass lets time go by.
func (r *run) pass(d time.Duration) {
	r.now = r.now.Add(d)
}

// violate ends the run.
func (r *run) violate(invariant, format string, args ...any) {
	v := &Violation{invariant, fmt.Sprintf(format, args...)}
	r.note(nil, "VIOLATION %s", v)
	if r.fallen == nil {
		r.fallen = v
	}
	panic(r.fallen)
}

// call returns the present time for the model.
func (r *run) call() ec2.Call { return ec2.Call{Now: r.now} }
