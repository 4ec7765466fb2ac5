// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// outsiders reports the Nodes whose instances have none of the tags that --instance-tags names.
func (d *doctor) outsiders(ctx context.Context, cloud ec2, o objects) {
	if len(cloud.instanceTags) == 0 {
		return
	}
	nodeOf := map[string]string{}
	var ids []string
	for i := range o.nodes {
		if ref, err := eni.ParseProviderID(o.nodes[i].Spec.ProviderID); err == nil {
			nodeOf[ref.ID] = o.nodes[i].Name
			ids = append(ids, ref.ID)
		}
	}
	instances, err := cloud.Instances(ctx, ids)
	if err != nil {
		d.add(report.Failed, "instance tags", err.Error(), "Give the role ec2:DescribeInstances.")
		return
	}
	var outside []string
	for _, i := range instances {
		if plan.OutsideCluster(i, cloud.instanceTags) != nil {
			outside = append(outside, fmt.Sprintf("%s (%s)", nodeOf[i.ID], i.ID))
		}
	}
	if len(outside) == 0 {
		d.add(report.OK, "instance tags",
			fmt.Sprintf("all %d instances have a tag that --instance-tags names", len(instances)), "")
		return
	}
	slices.Sort(outside)
	d.add(report.Failed, "instance tags",
		fmt.Sprintf("%d of %d instances have no tag that --instance-tags names, and get no interfaces: %s",
			len(outside), len(instances), strings.Join(outside, ", ")),
		"Tag them like the other instances of the cluster, unless their Nodes name instances outside the cluster.")
}
