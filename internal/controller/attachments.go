// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
)

// AttachmentDefinitions holds the state of the NetworkAttachmentDefinitions of each NodeENI, by its name. The zero
// value is ready for use.
type AttachmentDefinitions struct {
	// mu guards byName.
	mu     sync.Mutex
	byName map[string]AttachmentResult
}

// AttachmentResult is the state of the NetworkAttachmentDefinitions of one NodeENI.
type AttachmentResult struct {
	// Definitions is the number of definitions that match their generated form.
	Definitions int
	// Reason is one CamelCase word that says why a definition does not match, and Message explains it. Both are empty if
	// all match.
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

// Forget removes the result of a NodeENI that no longer exists.
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
