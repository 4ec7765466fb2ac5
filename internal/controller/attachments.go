// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
)

// AttachmentDefinitions remember how the NetworkAttachmentDefinitions of each NodeENI are, by its name. The zero value
// is ready for use.
type AttachmentDefinitions struct {
	// mu guards byName.
	mu     sync.Mutex
	byName map[string]AttachmentResult
}

// AttachmentResult is how the NetworkAttachmentDefinitions of one NodeENI are.
type AttachmentResult struct {
	// Definitions is the number of definitions that are as generated.
	Definitions int
	// Reason is one CamelCase word that says why one of them is not, and Message explains it; both are empty if all are.
	Reason, Message string
}

// Set stores the result of a NodeENI, and reports whether it differs from the one before.
func (d *AttachmentDefinitions) Set(nodeENI string, result AttachmentResult) (isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, known := d.byName[nodeENI]
	if d.byName == nil {
		d.byName = map[string]AttachmentResult{}
	}
	d.byName[nodeENI] = result
	return !known || before != result
}

// Forget removes the result of a NodeENI that does not exist.
func (d *AttachmentDefinitions) Forget(nodeENI string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byName, nodeENI)
}

// Of returns the result of a NodeENI, and whether there is one.
func (d *AttachmentDefinitions) Of(nodeENI string) (AttachmentResult, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	result, known := d.byName[nodeENI]
	return result, known
}
