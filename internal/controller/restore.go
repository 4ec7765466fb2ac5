// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/multieni/multieni/internal/revision"
)

// Restore ends a controller when etcd was restored from a backup. Caches could be filled again, but the controller's
// own writes and absences in its memory are from before the restore as well: a new process begins without both.
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

// Start fails as soon as a restore is noticed, which ends the manager and gives the leader lease up.
func (r *Restore) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.found:
		return fmt.Errorf("%w; what this process knows of the cluster is from before the restore, so that it ends "+
			"and has to be started again, as a kubelet does", err)
	}
}

// NeedLeaderElection is false: a replica that waits for the lease would lead with caches from before the restore.
func (r *Restore) NeedLeaderElection() bool { return false }
