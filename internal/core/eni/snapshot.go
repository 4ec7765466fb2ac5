// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import "time"

// InstanceSnapshot is one reading of everything EC2 shows about an instance: the instance itself, the interfaces attached to it
// whoever owns them, and the unattached interfaces that carry our tags for it.
type InstanceSnapshot struct {
	// At is when the reading was begun: whatever changed later may be missing from it.
	At         time.Time
	Instance   Instance
	Interfaces []Interface
}
