// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/text"
)

// NameEvidence is what a cluster and EC2 contain about the name that the cluster has in tags.
type NameEvidence struct {
	// Recorded is the name that a controller recorded in the cluster; empty without a record.
	Recorded string
	// Objects is the number of objects for which something may exist in EC2, and Interfaces that of the interfaces with
	// the recorded name. Both matter only if another name is recorded than configured.
	Objects, Interfaces int
	// ByName counts the interfaces in EC2 with the UIDs of the cluster's objects and the imported ones of its instances,
	// by the name in their tags. It matters only without a record.
	ByName map[string]int
}

// OtherNameError says that a cluster has another name in tags than the configured one. Under the configured name the
// controller would find none of the cluster's interfaces, and create each again.
type OtherNameError struct {
	// InUse is the name in use, and Configured that of the controller.
	InUse, Configured string
	// Source says where the name in use was found.
	Source string
}

// Error implements error.
func (e *OtherNameError) Error() string {
	return fmt.Sprintf("this cluster has the name %q in tags of EC2 (%s), and the controller is configured with %q, so "+
		"it changes nothing in EC2; set clusterName back: helm upgrade multieni charts/multieni --reuse-values --set "+
		"clusterName=%s, or --cluster-name=%s. To move the cluster to another name, see docs/install.md#cluster-name",
		e.InUse, e.Source, e.Configured, e.InUse, e.InUse)
}

// CheckName returns an [OtherNameError] if the evidence shows another name in use than the configured one. A recorded
// name without objects and interfaces is not in use. An interface with the configured name is enough to keep that name:
// after a start under a wrong name there are interfaces of both.
func CheckName(configured string, e NameEvidence) error {
	switch {
	case e.Recorded == configured:
		return nil
	case e.Recorded != "":
		use := text.Count(e.Interfaces, "interface")
		switch {
		case e.Objects > 0:
			use = text.Count(e.Objects, "object")
		case e.Interfaces == 0:
			return nil
		}
		return &OtherNameError{InUse: e.Recorded, Configured: configured, Source: "recorded in the cluster, in use by " + use}
	case len(e.ByName) == 0 || e.ByName[configured] > 0:
		return nil
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(e.ByName)), func(a, b string) int {
		return cmp.Compare(e.ByName[a], e.ByName[b])
	})
	return &OtherNameError{InUse: most, Configured: configured, Source: fmt.Sprintf(
		"on %s of its NodeENIs", text.Count(e.ByName[most], "interface"))}
}
