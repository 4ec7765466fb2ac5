// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// How long EC2 is given before an attach is undone, and before an instance is cut off from an interface that it
// detaches.
const (
	attachPatience = 90 * time.Second
	detachPatience = 10 * time.Minute
)

// noteMoves remembers which interfaces were attached, and since when attachments are in transition.
func (r *run) noteMoves() {
	for _, i := range r.truth().ordered {
		if i.Attachment == nil {
			continue
		}
		r.watch.seated[i.ID] = true
		if i.Attachment.Status == eni.AttachmentAttached {
			continue
		}
		if key := i.Attachment.ID + string(i.Attachment.Status); r.watch.moving[key].IsZero() {
			r.watch.moving[key] = r.now
		}
	}
}

// isStuck reports whether a detach of an interface that EC2 attaches or detaches is due: EC2 has taken too long.
func (r *run) isStuck(q request, i eni.Interface) bool {
	if i.Attachment == nil || i.Attachment.Status == eni.AttachmentAttached {
		return false
	}
	since := r.now.Sub(r.watch.moving[i.Attachment.ID+string(i.Attachment.Status)])
	switch {
	case i.Attachment.Status == eni.AttachmentAttaching:
		return since >= attachPatience
	case q.action == forceDetach:
		return since >= detachPatience
	default:
		return true // to ask again for what EC2 does anyway changes nothing
	}
}
