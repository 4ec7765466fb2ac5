// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import "time"

// InstanceSnapshot is EC2's answer about an instance at one time: the instance, all interfaces attached to it, and the
// unattached interfaces with our tags for it.
type InstanceSnapshot struct {
	// At is the time at which the read began. Later changes may be missing.
	At         time.Time
	Instance   Instance
	Interfaces []Interface
}
