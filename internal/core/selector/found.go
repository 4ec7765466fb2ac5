// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

// Location is where an instance is; the VPC is empty while it is not known.
type Location struct{ Zone, VPCID string }

// Found has the matches of the selectors of one declaration.
type Found struct {
	Subnets SubnetMatch
	Groups  GroupMatch
}
