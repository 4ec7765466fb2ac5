// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/text"
)

// ebsDriver is the name of the Amazon EBS CSI driver.
const ebsDriver = "ebs.csi.aws.com"

// offeredVolumes returns the number of volumes that the EBS CSI driver offers on each Node that it runs on.
func offeredVolumes(ctx context.Context, api client.Reader) (map[string]int, error) {
	var nodes storagev1.CSINodeList
	if err := api.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list CSINodes: %w", err)
	}
	volumes := map[string]int{}
	for _, node := range nodes.Items {
		for _, driver := range node.Spec.Drivers {
			if driver.Name == ebsDriver && driver.Allocatable != nil && driver.Allocatable.Count != nil {
				volumes[node.Name] = int(*driver.Allocatable.Count)
			}
		}
	}
	return volumes, nil
}

// volumes compares the interfaces of the nodes, by instance, with the attachments that the EBS CSI driver offers to
// volumes.
func (d *doctor) volumes(ctx context.Context, o objects, interfaces map[string]int) {
	const check = "volumes"
	offered, err := offeredVolumes(ctx, d.api)
	if err != nil {
		d.add(report.Warning, check, "the volumes of the nodes are not known: "+err.Error(),
			"Ask for permission to list CSINodes.")
		return
	}
	var nodes []report.Attachments
	for i := range o.nodes {
		name := o.nodes[i].Name
		ref, err := eni.ParseProviderID(o.nodes[i].Spec.ProviderID)
		volumes, known := offered[name]
		if err == nil && known {
			nodes = append(nodes, report.Attachments{Node: name, Interfaces: interfaces[ref.ID], Volumes: volumes})
		}
	}
	if len(nodes) == 0 {
		d.add(report.OK, check, "no node has the EBS CSI driver", "")
		return
	}
	crowded := report.Crowded(nodes)
	for _, c := range crowded {
		d.add(report.Warning, check, c.String(), report.MoreAttachments)
	}
	if len(crowded) == 0 {
		d.add(report.OK, check, fmt.Sprintf("the EBS CSI driver counts volumes on %s, and leaves the interfaces their "+
			"attachments", text.Count(len(nodes), "node")), "")
	}
}
