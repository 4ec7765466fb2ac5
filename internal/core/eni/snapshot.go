// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import "time"

// InstanceSnapshot is what EC2 returned for an instance at one time: the instance, all interfaces attached to it, and
// the unattached interfaces that have our tags for it.
type InstanceSnapshot struct {
	// At is when the read began. Later changes may be missing.
	At         time.Time
	Instance   Instance
	Interfaces []Interface
}
