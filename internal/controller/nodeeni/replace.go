// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/fleet"
)

// replacement is the replacement of an interface for a NodeENI.
type replacement struct {
	nodeENI string
	at      time.Time
}

// compute decides what happens next. Only a decision to replace an interface depends on other NodeENIs.
func (r *Reconciler) compute(ctx context.Context, f *facts) error {
	f.outcome = fleet.Compute(f.nodeENI, f.inFleet, f.instances, f.now)
	if !f.outcome.Replaces() {
		r.waitsOn(f)
		return nil
	}
	lacking, err := r.lacking(ctx, f)
	if err != nil {
		return err
	}
	for n := range f.instances {
		f.instances[n].Lacking = lacking[f.instances[n].ID]
	}
	f.outcome = fleet.Compute(f.nodeENI, f.inFleet, f.instances, f.now)
	r.waitsOn(f)
	return nil
}

// waitsOn records the instances on which a replacement waits for an interface of another NodeENI.
func (r *Reconciler) waitsOn(f *facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waits, f.nodeENI.Name)
	if len(f.outcome.Waits) > 0 {
		r.waits[f.nodeENI.Name] = f.outcome.Waits
	}
}

// Waiting returns the NodeENIs that wait for the interfaces of other NodeENIs on an instance.
func (r *Reconciler) Waiting(instanceID string) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, instances := range r.waits {
		if slices.Contains(instances, instanceID) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// lacking returns the instances that lack an interface of another NodeENI.
func (r *Reconciler) lacking(ctx context.Context, f *facts) (map[string]bool, error) {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	lacking := map[string]bool{}
	for n := range all.Items {
		other := &all.Items[n]
		if other.Name == f.nodeENI.Name {
			continue
		}
		its, _, err := r.gather(ctx, other) // without the matches of its selectors, its objects alone count
		if err != nil {
			return nil, err
		}
		for id := range fleet.Lacking(its.nodeENI, its.inFleet, its.instances) {
			lacking[id] = true
		}
	}
	return lacking, nil
}

// beginReplacement reports whether an interface may be replaced: no other NodeENI began a replacement on the instance
// that the cache may not show yet.
func (r *Reconciler) beginReplacement(f *facts, o *v1alpha1.NetworkInterface) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, last := range r.replaced {
		if f.now.Sub(last.at) > deletedFor {
			delete(r.replaced, id)
		}
	}
	last, known := r.replaced[o.Spec.InstanceID]
	if known && last.nodeENI != f.nodeENI.Name {
		f.outcome.Next = f.now.Add(deletedFor)
		return false
	}
	r.replaced[o.Spec.InstanceID] = replacement{f.nodeENI.Name, f.now}
	return true
}
