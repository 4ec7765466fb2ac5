// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

// liveSpeed is the speed of EC2 in scenarios that wait for EC2. In those that measure a controller's own time it runs
// as fast as the real one.
const liveSpeed = 20

// live returns the scenarios with a process and real servers. They run in this order on one fleet.
func live() []Scenario {
	all := []Scenario{
		{
			ID: "a-live", Title: "all nodes at once", Speed: liveSpeed, Curve: curve(Documented()),
			Figures: func(nodes int) []Figure {
				least := Documented().Attaching(nodes * MembersPerNode)
				return append([]Figure{
					{What: "all nodes ready, in EC2's time", Key: Makespan, Unit: Seconds, Limit: limit(least)},
					callsPerENI(3, 3.1), throttled(), writesPerENI(), writesPerNode(),
					{What: "CPU time per ENI", Key: CPUPerENI, Unit: Seconds},
				}, machine()...)
			},
		},
		{
			ID: "c-live", Title: "one node joins an idle cluster, 20 times", Speed: 1,
			Figures: func(int) []Figure {
				return []Figure{
					{What: "from Node to the last call to attach, median", Key: OverheadP50, Unit: Seconds, Target: AtMost(0.5),
						Fail: AtMost(3)},
					{What: "from Node to the last call to attach, slowest", Key: OverheadP99, Unit: Seconds, Target: AtMost(1.5),
						Fail: AtMost(3)},
					{What: "from Node to attached, median", Key: ProbeP50, Unit: Seconds},
					callsPerENI(3, 3.1), strays(),
				}
			},
		},
		{
			ID: "b-live", Title: "idle for five minutes and a resync", Speed: 1,
			Figures: func(int) []Figure {
				return []Figure{
					{What: "CPU", Key: CPU, Unit: Millicores, Target: AtMost(20)},
					{What: "memory", Key: RSS, Unit: MiB, Target: AtMost(200)},
					noChanges(0),
					{What: "reading EC2 calls", Key: Reads},
					{What: "Kubernetes API writes, leases aside", Key: APIWrites, Target: AtMost(0)},
				}
			},
		},
		{
			ID: "e-live", Title: "the controller restarts", Speed: 1,
			Figures: func(int) []Figure {
				return append(restartReads(), []Figure{
					{What: "changing EC2 calls for nodes that were ready", Key: Mutating, Target: AtMost(0), Fail: AtMost(0)},
					{What: "first call for a node that joined meanwhile", Key: FirstAction, Unit: Seconds, Target: AtMost(15)},
					{What: "that node attached", Key: CaughtUp, Unit: Seconds, Target: AtMost(30)},
					{What: "most memory, of that before", Key: PeakRSS, Unit: Part, Target: AtMost(1.5)},
					strays(),
				}...)
			},
		},
		{
			ID: "d1-live", Title: "the NodeENIs of live nodes deleted", Speed: liveSpeed,
			Figures: func(nodes int) []Figure {
				least := Documented().Removing(nodes * MembersPerNode)
				return append([]Figure{
					{What: "all ENIs gone, in EC2's time", Key: Makespan, Unit: Seconds, Limit: limit(least)},
					callsPerENI(2, 2.2), throttled(), writesPerENI(), writesPerNode(),
					{What: "CPU time per ENI", Key: CPUPerENI, Unit: Seconds},
				}, machine()...)
			},
		},
	}
	for n := range all {
		all[n].Live, all[n].Nodes = true, 5000
		if all[n].ID != "b-live" && all[n].ID != "c-live" { // which take long
			all[n].Quick = 500
		}
	}
	return all
}

// machine returns the figures of the machine's load.
func machine() []Figure {
	return []Figure{
		{What: "most memory", Key: RSS, Unit: MiB},
		{What: "Kubernetes API write, 99th percentile", Key: APILatency, Unit: Seconds},
		strays(),
	}
}
