// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// OutsideCluster says why an instance gets no interfaces if it has none of the tags. Without tags to ask for, every instance
// is one of the cluster.
func OutsideCluster(instance eni.Instance, tags []eni.InstanceTag) *Problem {
	if len(tags) == 0 || slices.ContainsFunc(tags, func(t eni.InstanceTag) bool { return t.On(instance.Tags) }) {
		return nil
	}
	words := make([]string, len(tags))
	for n, t := range tags {
		words[n] = t.String()
	}
	return &Problem{InstanceOutsideCluster, fmt.Sprintf(
		"instance %s has no tag %s, by which instances of the cluster are known; correct the Node's providerID or, if that is right, tag the instance as the cluster's others",
		instance.ID, strings.Join(words, " or "))}
}

// outsideCluster is [OutsideCluster] of the plan's instance. Only a look shows its tags.
func (p *planner) outsideCluster() *Problem {
	if p.Snapshot == nil {
		return nil
	}
	return OutsideCluster(p.Snapshot.Instance, p.InstanceTags)
}
