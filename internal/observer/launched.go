// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"

	"github.com/multieni/multieni/internal/core/eni"
)

// LaunchedFrom returns the interfaces of all instances that were launched from a node template, by instance. They
// include the members of NodeENIs that were attached later.
func (o *Observer) LaunchedFrom(nodeTemplateUID string) map[string][]eni.Interface {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.inventory.LaunchedFrom(nodeTemplateUID)
	for instanceID := range all {
		for _, record := range o.inventory.Of(instanceID) {
			if record.AttachedTo(instanceID) {
				all[instanceID] = append(all[instanceID], record.Interface)
			}
		}
	}
	return all
}

// EnqueueNode sends a node's name to the receiver of [Observer.Changed].
func (o *Observer) EnqueueNode(ctx context.Context, node string) {
	select {
	case o.changed <- node:
	case <-ctx.Done():
	}
}
