// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

// agents returns the scenarios with prototypes of agents.
func agents() []Scenario {
	return []Scenario{{
		ID: "g1", Title: "agents that watch their objects by name", Agents: true, Nodes: 2000,
		Figures: func(int) []Figure {
			return []Figure{
				{What: "CPU time of the API server per attached ENI", Key: ServerPerENI, Unit: Seconds, Target: AtMost(0.030)},
				{What: "from link to the ready Node, median", Key: LinkToReadyP50, Unit: Seconds},
				{What: "from link to the ready Node, 99th percentile", Key: LinkToReadyP99, Unit: Seconds, Target: AtMost(0.3)},
				{What: "CPU of the API server with watches and no attachments", Key: IdleServer, Unit: Millicores},
			}
		},
	}}
}
