// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// InTime is the time within which a node must be ready that joins while others join and leave.
const InTime = time.Minute

// virtual returns the scenarios in virtual time.
func virtual() []Scenario {
	return slices.Concat(coldStarts(), quietTimes(), removals(), churns(), podStarts())
}

func coldStarts() []Scenario {
	full, shared := Documented(), Documented().Left(0.5)
	return []Scenario{
		{
			ID: "a1", Title: "all nodes at once", Nodes: 1000, Quick: 1000, Curve: curve(full),
			Figures: func(nodes int) []Figure { return coldStart(full.Attaching(nodes*MembersPerNode), 1.05, 1.15) },
		},
		{
			ID: "a2", Title: "all nodes at once, a large fleet", Nodes: 5000, Curve: curve(full),
			Figures: func(nodes int) []Figure { return coldStart(full.Attaching(nodes*MembersPerNode), 1.05, 2300.0/1990) },
		},
		{
			ID: "a3", Title: "all nodes at once, the VPC CNI of others spends half of each bucket, in bursts", Nodes: 5000,
			Curve: curve(shared),
			Figures: func(nodes int) []Figure {
				// With instant calls, those of the two users of a bucket coincide more than in any account.
				own := throttled()
				own.Timed = true
				return []Figure{
					makespan(shared.Attaching(nodes*MembersPerNode), 1.1, 1.5),
					{What: "changing EC2 calls per ENI, refused ones aside", Key: TakenPerENI, Target: AtMost(3), Fail: AtMost(3.1)},
					own, medianReady(),
					{
						What: "the VPC CNI's calls throttled", Key: TenantThrottle, Unit: Part, Timed: true,
						Target: AtMost(0.05), Fail: AtMost(0.05),
					},
					strays(),
				}
			},
		},
		{
			ID: "g", Title: "all nodes at once, with five leaked ENIs for each", Nodes: 1000, Curve: curve(full),
			Figures: func(nodes int) []Figure {
				return []Figure{
					makespan(full.Attaching(nodes*MembersPerNode), 1.155, 1.5),
					{
						What: "leaked ENIs gone", Key: OrphansGone, Unit: Seconds,
						Limit: limit(full.Takes("DeleteNetworkInterface", 5*nodes)), Target: AtMost(1800),
					},
					strays(),
				}
			},
		},
	}
}

func quietTimes() []Scenario {
	return []Scenario{
		{
			ID: "b", Title: "idle for a day", Nodes: 5000, Quick: 100,
			Figures: func(int) []Figure {
				return []Figure{
					noChanges(0),
					{What: "reading EC2 calls", Key: ReadsPerHour, Unit: PerHour, Target: AtMost(130), Fail: AtMost(300)},
					{What: "Kubernetes API writes, leases aside", Key: APIWrites, Target: AtMost(0), Fail: AtMost(24 * 60)},
					strays(),
				}
			},
		},
		{
			ID: "c", Title: "nodes join an idle cluster of 20 one by one", Nodes: 400, Quick: 400,
			Figures: func(int) []Figure {
				return []Figure{
					{What: "controller, over EC2's unavoidable chain, median", Key: OverheadP50, Unit: Seconds, Target: AtMost(0.5),
						Fail: AtMost(3)},
					{What: "controller, over EC2's unavoidable chain, 99th percentile", Key: OverheadP99, Unit: Seconds,
						Target: AtMost(1.5), Fail: AtMost(3)},
					{What: "from Node to attached, median (no agent runs)", Key: ProbeP50, Unit: Seconds},
					callsPerENI(3, 3.1), strays(),
				}
			},
		},
		{
			ID: "c2", Title: "one node joins behind a queue of others, 50 times", Nodes: 5000, Quick: 1000,
			Figures: func(int) []Figure {
				return []Figure{
					{What: "ready, median", Key: ProbeP50, Unit: Seconds, Target: AtMost(10), Fail: AtMost(60)},
					{What: "ready, 90th percentile", Key: ProbeP90, Unit: Seconds, Target: AtMost(10), Fail: AtMost(60)},
				}
			},
		},
		{
			ID: "e", Title: "the controller restarts", Nodes: 5000, Quick: 500,
			Figures: func(int) []Figure {
				return append(restartReads(), []Figure{
					{What: "changing EC2 calls for nodes that were ready", Key: Mutating, Target: AtMost(0), Fail: AtMost(0)},
					{What: "first call for a node that joined meanwhile", Key: FirstAction, Unit: Seconds, Target: AtMost(15)},
					{What: "that node ready", Key: CaughtUp, Unit: Seconds, Target: AtMost(30)},
					strays(),
				}...)
			},
		},
	}
}

func removals() []Scenario {
	full := Documented()
	return []Scenario{
		{
			ID: "d1", Title: "the NodeENIs of live nodes deleted", Nodes: 5000, Quick: 500,
			Figures: func(nodes int) []Figure {
				return []Figure{
					{
						What: "objects and ENIs gone", Key: Makespan, Unit: Seconds, Limit: limit(full.Removing(nodes * MembersPerNode)),
						Target: TimesLimit(1.05), Fail: TimesLimit(1.5),
					},
					callsPerENI(2, 2.2),
					{What: "DeleteNetworkInterface calls failed", Key: FailedDeletes, Unit: Part, Target: AtMost(0.01)},
					throttled(), writesPerENI(), strays(),
				}
			},
		},
		{
			ID: "d2", Title: "all nodes terminated", Nodes: 5000, Quick: 500,
			Figures: func(int) []Figure {
				return []Figure{
					noChanges(10),
					{What: "objects gone after EC2 said terminated", Key: ObjectsGone, Unit: Seconds, Target: AtMost(120)},
					strays(),
				}
			},
		},
	}
}

func churns() []Scenario {
	return []Scenario{
		{
			ID: "f1", Title: "3 % of the nodes replaced per minute, for an hour", Nodes: 5000,
			Figures: func(int) []Figure { return replaced() },
		},
		{
			ID: "f2", Title: "10 % of the nodes replaced per minute, for ten minutes", Nodes: 5000,
			Figures: func(int) []Figure {
				return []Figure{
					{What: "backlog drained", Key: Drained, Unit: Seconds, Target: AtMost(1500)},
					wasted(0.05),
					{What: "most ENIs of one node unattached at once", Key: Orphans, Target: AtMost(3)},
					leaked(),
					{What: "DetachNetworkInterface calls", Key: Detached, Target: AtMost(0), Fail: AtMost(0)},
				}
			},
		},
		{
			ID: "f3", Title: "10 % of the nodes replaced per minute, for half an hour", Nodes: 1500,
			Figures: func(int) []Figure { return replaced() },
		},
	}
}

const (
	// PodsPerNode is how many pods start on each node.
	PodsPerNode = 100
	// SparePerNode is the number of free addresses below which a node gets another prefix.
	SparePerNode = 12
	// PrefixesPerNode is how many prefixes have exactly these addresses: one more is too much, and one less too few.
	PrefixesPerNode = (PodsPerNode + SparePerNode) / eni.IPv4PrefixSize
	// FixedPodsPerNode is how many pods with fixed addresses start on each node.
	FixedPodsPerNode = 2
	// FixedPodsApart is the time from one start of them to the next.
	FixedPodsApart = 20 * time.Millisecond
)

func podStarts() []Scenario {
	pods := func(most int) []Figure {
		return []Figure{
			{What: "changing EC2 calls", Key: Mutating, Target: AtMost(float64(most)), Fail: AtMost(float64(most))},
			{What: "pods without a free address at their start", Key: PodsWaiting, Target: AtMost(0), Fail: AtMost(0)},
			{What: "most prefixes of a node in the end", Key: MostPrefixes, Target: AtMost(PrefixesPerNode),
				Fail: AtMost(PrefixesPerNode)},
			strays(),
		}
	}
	return []Scenario{
		{
			ID: "p1", Title: "100 pods start on each node, in prefixes that the nodes have", Nodes: 10, Quick: 10,
			Figures: func(int) []Figure { return pods(0) },
		},
		{
			ID: "p2", Title: "100 pods start on each node, and the prefixes grow from one", Nodes: 10, Quick: 10,
			Figures: func(nodes int) []Figure {
				return append(pods(nodes*(PrefixesPerNode-1)), Figure{What: "slowest prefix, after the report that lacks it",
					Key: SlowestPrefix, Unit: Seconds, Target: AtMost(3), Fail: AtMost(5)}) // the next report comes 5 s later
			},
		},
		{
			ID: "p3", Title: "two pods with fixed addresses start on each node, 20 ms apart", Nodes: 50, Quick: 50,
			Figures: func(nodes int) []Figure {
				return []Figure{
					{What: "changing EC2 calls", Key: Mutating, Target: AtMost(float64(nodes)), Fail: AtMost(float64(nodes))},
					{What: "slowest call for an address, after the first lease of its node", Key: SlowestAddress, Unit: Seconds,
						Target: AtMost(0.1), Fail: AtMost(2)},
					{What: "pods without their address in the end", Key: PodsWaiting, Target: AtMost(0), Fail: AtMost(0)},
					strays(),
				}
			},
		},
	}
}

// replaced are the figures of f1 and f3, in which 150 nodes join a minute, just within EC2's limits.
func replaced() []Figure {
	return []Figure{
		{What: "nodes ready within 60 s, of those that lived as long", Key: InTimeShare, Unit: Part, Target: AtLeast(0.95)},
		wasted(0.02), leaked(),
		{What: "DetachNetworkInterface calls", Key: Detached, Target: AtMost(0), Fail: AtMost(0)},
	}
}

func coldStart(least time.Duration, target, fail float64) []Figure {
	return []Figure{makespan(least, target, fail), callsPerENI(3, 3.1), throttled(), medianReady(),
		writesPerENI(), strays()}
}

func wasted(target float64) Figure {
	return Figure{What: "CreateNetworkInterface calls for dead nodes", Key: Wasted, Unit: Part, Target: AtMost(target)}
}

func leaked() Figure {
	return Figure{What: "ENIs leaked, or missing, half an hour later", Key: Leaked, Target: AtMost(0), Fail: AtMost(0)}
}
