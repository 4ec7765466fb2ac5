// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/multieni/multieni/internal/base/revision"
)

// Restore ends a controller when etcd was restored from a backup. Caches could be filled again, but the controller also
// remembers its own writes and absences from before the restore. A new process begins without both.
type Restore struct {
	found chan error
}

// NewRestore returns a Restore whose informers belong to one manager, which runs it.
func NewRestore() *Restore { return &Restore{found: make(chan error, 1)} }

// NewInformer returns an informer that notices a restore when it watches again.
func (r *Restore) NewInformer(
	source cache.ListerWatcher, object runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(revision.Guard(source, r.note), object, resync, indexers)
}

func (r *Restore) note(err error) {
	select {
	case r.found <- err:
	default: // another informer noticed it first
	}
}

// Start returns an error as soon as an informer notices a restore, which ends the manager and releases the leader
// lease.
func (r *Restore) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.found:
		return fmt.Errorf("%w; the state of this process is from before the restore, so it ends "+
			"and must be restarted, as a kubelet does", err)
	}
}

// NeedLeaderElection is false: a replica that waits for the lease would lead with caches from before the restore.
func (r *Restore) NeedLeaderElection() bool { return false }
