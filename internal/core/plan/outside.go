// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// OutsideCluster returns the problem of an instance that has none of the tags, and so gets no interfaces. If tags is
// empty, every instance belongs to the cluster.
func OutsideCluster(instance eni.Instance, tags []eni.InstanceTag) *Problem {
	if len(tags) == 0 || slices.ContainsFunc(tags, func(t eni.InstanceTag) bool { return t.On(instance.Tags) }) {
		return nil
	}
	words := make([]string, len(tags))
	for n, t := range tags {
		words[n] = t.String()
	}
	return &Problem{InstanceOutsideCluster, fmt.Sprintf(
		"instance %s lacks the tag %s, which the cluster's instances have; correct the Node's providerID or, if that "+
			"is right, add the tag to the instance",
		instance.ID, strings.Join(words, " or "))}
}
