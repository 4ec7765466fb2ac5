// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// delays is a queue that only records how long each request waits.
type delays struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	all []time.Duration
}

func (d *delays) AddAfter(_ reconcile.Request, after time.Duration) { d.all = append(d.all, after) }

// TestPassesAreApart sends events after a pass: each waits for the rest of the interval, and one long after the pass
// does not wait.
func TestPassesAreApart(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := New(Options{Now: func() time.Time { return now }})
	events := r.trigger(func(context.Context, client.Object) []string { return []string{"n3"} })
	queue, object := &delays{}, &metav1.PartialObjectMetadata{}
	events.Create(t.Context(), event.CreateEvent{Object: object}, queue)
	r.passes.note("n3", now)
	for range 4 {
		events.Delete(t.Context(), event.DeleteEvent{Object: object}, queue)
		now = now.Add(passInterval / 2)
	}
	for n, want := range []time.Duration{0, passInterval, passInterval / 2, 0, 0} {
		if queue.all[n] != want {
			t.Errorf("event %d waits %s, want %s", n+1, queue.all[n], want)
		}
	}
}
