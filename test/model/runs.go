// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// Run is a search of the whole protocol, in two sizes.
type Run struct {
	Name        string
	Small, Long func(without Rule) Outcome
}

// Runs returns the searches that visit all states within their faults.
func Runs() []Run {
	return []Run{
		{"lifecycle, former leaders",
			lifecycle{objects: 2, faults: lifecycleFaults{toggles: 1, leaders: 1, lostAnswers: 1, deletions: 1}}.search,
			lifecycle{objects: 2, faults: lifecycleFaults{toggles: 1, leaders: 2, lostAnswers: 2, deletions: 1}}.search},
		{"lifecycle, lost objects",
			lifecycle{objects: 2, faults: lifecycleFaults{toggles: 1, leaders: 1, lostAnswers: 1, tears: 1}}.search,
			lifecycle{objects: 3, faults: lifecycleFaults{
				toggles: 1, leaders: 1, lostAnswers: 1, deletions: 1, tears: 1,
			}}.search},
		{"lifecycle, deleted kind",
			lifecycle{objects: 2, faults: lifecycleFaults{toggles: 1, leaders: 1, lostAnswers: 1, kinds: 1}}.search,
			lifecycle{objects: 2, faults: lifecycleFaults{
				toggles: 1, leaders: 1, lostAnswers: 1, deletions: 1, tears: 1, kinds: 1,
			}}.search},
		{"lifecycle, end of the instance",
			lifecycle{objects: 2, faults: lifecycleFaults{leaders: 1, lostAnswers: 1, deletions: 1, ends: 1}}.search,
			lifecycle{objects: 2, faults: lifecycleFaults{
				leaders: 1, lostAnswers: 1, deletions: 1, tears: 1, kinds: 1, ends: 1,
			}}.search},
		{"lifecycle, old caches",
			lifecycle{objects: 2, lagging: true, faults: lifecycleFaults{leaders: 1, deletions: 1, tears: 1}}.search,
			lifecycle{objects: 2, lagging: true, faults: lifecycleFaults{
				toggles: 1, leaders: 1, lostAnswers: 1, deletions: 1, tears: 1,
			}}.search},
		{"lifecycle, early losses",
			lifecycle{objects: 2, early: true, faults: lifecycleFaults{toggles: 1, lostAnswers: 1, tears: 1, kinds: 1}}.search,
			lifecycle{objects: 3, early: true, faults: lifecycleFaults{
				toggles: 1, lostAnswers: 1, deletions: 1, tears: 1, kinds: 1,
			}}.search},
		{"pods, processes of the agent",
			pods{objects: 2, faults: podsFaults{toggles: 2, lateOrders: 1, restarts: 1, lostAnswers: 1}}.search,
			pods{objects: 2, faults: podsFaults{
				toggles: 3, deletions: 1, lateOrders: 1, lateCalls: 1, restarts: 3, lostAnswers: 1,
			}}.search},
		{"pods, boots and lost files",
			pods{objects: 2, faults: podsFaults{toggles: 1, restarts: 1, boots: 1, lostRun: 1, lostDisk: 1}}.search,
			pods{objects: 2, faults: podsFaults{
				toggles: 2, deletions: 1, restarts: 2, lostAnswers: 1, boots: 2, lostRun: 1, lostDisk: 1,
			}}.search},
		{"pods, pod networks off",
			pods{objects: 2, faults: podsFaults{toggles: 1, restarts: 1, boots: 1, offs: 2}}.search,
			pods{objects: 2, faults: podsFaults{toggles: 2, deletions: 1, restarts: 2, boots: 1, offs: 3}}.search},
		{"pods, lost objects",
			pods{objects: 2, faults: podsFaults{toggles: 1, deletions: 1, tears: 1, lateCalls: 1, restarts: 1, boots: 1}}.search,
			pods{objects: 3, faults: podsFaults{
				toggles: 1, deletions: 1, tears: 2, lateCalls: 1, restarts: 2, lostAnswers: 1, boots: 1,
			}}.search},
		{"prefix, former leaders",
			prefix{faults: prefixFaults{demands: 3, leaders: 2, lostAnswers: 1}}.search,
			prefix{faults: prefixFaults{demands: 5, leaders: 4, lostAnswers: 3}}.search},
		{"prefix, agents",
			prefix{faults: prefixFaults{demands: 2, lostAnswers: 1, restarts: 1, boots: 1}}.search,
			prefix{faults: prefixFaults{demands: 3, leaders: 2, lostAnswers: 1, restarts: 2, boots: 1}}.search},
		{"address, agents",
			address{faults: addressFaults{moves: 3, ends: 1, restarts: 1, lateClaims: 1}}.search,
			address{faults: addressFaults{moves: 4, ends: 2, restarts: 1, lateClaims: 1, lostAnswers: 1}}.search},
		{"address, former leaders",
			address{faults: addressFaults{moves: 2, ends: 1, leaders: 1, lostAnswers: 1}}.search,
			address{faults: addressFaults{moves: 3, ends: 1, lateClaims: 1, leaders: 1, lostAnswers: 1}}.search},
	}
}

// Limit is a combination of faults that the protocol does not cover.
type Limit struct {
	Text   string
	Breaks Property
	Search func(without Rule) Outcome
}

// Limits returns what the protocol is known not to cover.
func Limits() []Limit {
	return []Limit{
		{"An object is lost before EC2 shows its interface, and another leader takes over.", NothingLeaks,
			lifecycle{objects: 2, early: true, faults: lifecycleFaults{leaders: 1, tears: 1}}.search},
		{"The files of a node are lost under pods that started after a boot, before the agent reached the API server.",
			OnePodPerAddress, pods{objects: 1, unknown: true, faults: podsFaults{boots: 1, lostRun: 1}}.search},
	}
}
