// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

// agents returns the scenarios with the requests of agents.
func agents() []Scenario {
	return []Scenario{{
		ID: "g1", Title: "agents that watch their objects by name", Agents: true, Nodes: 2000,
		Figures: func(int) []Figure {
			return []Figure{
				{What: "CPU time of the API server per ENI, nodes join with two", Key: ServerPerENI, Unit: Milliseconds,
					Target: AtMost(30)},
				{What: "CPU time of the API server per ENI added to a ready node", Key: ServerPerAddedENI,
					Unit: Milliseconds, Target: AtMost(30)},
				{What: "from link to the ready Node, median", Key: LinkToReadyP50, Unit: Milliseconds},
				{What: "from link to the ready Node, 99th percentile", Key: LinkToReadyP99, Unit: Milliseconds,
					Target: AtMost(300)},
				{What: "CPU of the API server with watches and no attachments", Key: IdleServer, Unit: Millicores},
			}
		},
	}}
}
