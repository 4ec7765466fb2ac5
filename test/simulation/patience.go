// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// How long the product waits before it detaches an interface whose attach does not end, and before it forces a detach.
const (
	attachPatience = 90 * time.Second
	detachPatience = 10 * time.Minute
)

// noteMoves records which interfaces have been attached, and since when attachments are in transition.
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

// isStuck reports whether EC2 has taken so long to attach or detach an interface that a detach is due.
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
		return true // a second request for what EC2 already does changes nothing
	}
}
