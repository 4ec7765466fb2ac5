// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

// agents returns the scenarios with the requests of agents.
func agents() []Scenario {
	// What watches may add to the cost of the writes. A processor time would say more about the machine.
	target := TimesLimit(1.3)
	return []Scenario{{
		ID: "g1", Title: "agents that watch their objects by name", Agents: true, Nodes: 2000,
		Figures: func(int) []Figure {
			return []Figure{
				{What: "CPU time of the API server per ENI, nodes join with two; limit: without agents",
					Key: ServerPerENI, Unit: Milliseconds, Target: target},
				{What: "CPU time of the API server per ENI added to a ready node; limit: without agents",
					Key: ServerPerAddedENI, Unit: Milliseconds, Target: target},
				{What: "from link to the ready Node, median", Key: LinkToReadyP50, Unit: Milliseconds},
				{What: "from link to the ready Node, 99th percentile", Key: LinkToReadyP99, Unit: Milliseconds,
					Target: AtMost(300)},
				{What: "CPU of the API server with watches and no attachments", Key: IdleServer, Unit: Millicores},
			}
		},
	}}
}
