// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"cmp"
	"slices"
)

// Choose returns two pods to check, given the pods of the network on each node: on different nodes if possible, in the
// order of the names. It returns false if the network has less than two.
func Choose(onNodes map[string][]PodName) (pair [2]PodName, ok bool) {
	type candidate struct {
		place int // among the pods of its node
		node  string
		PodName
	}
	var all []candidate
	for node, pods := range onNodes {
		names := slices.SortedFunc(slices.Values(pods), comparePodNames)
		for place, name := range slices.Compact(names) {
			all = append(all, candidate{place, node, name})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.node, b.node))
	})
	if len(all) < len(pair) {
		return pair, false
	}
	return [2]PodName{all[0].PodName, all[1].PodName}, true
}

func comparePodNames(a, b PodName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
