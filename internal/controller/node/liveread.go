// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// unconfirmedRemovals returns one member of each NodeENI whose interfaces or addresses a plan removes, or whose pods it
// evicts, because of a cache's content, if no live read has confirmed it yet.
func (s *snapshot) unconfirmedRemovals(p plan.Plan, look *eni.InstanceSnapshot) []identity.Member {
	var members []identity.Member
	add := func(m identity.Member) {
		listed := slices.ContainsFunc(members, func(other identity.Member) bool { return other.Owner == m.Owner })
		if !s.confirmed[m.Owner] && !listed {
			members = append(members, m)
		}
	}
	for _, action := range p.Actions {
		if s.needsLiveRead(action, look) {
			add(action.Of())
		}
	}
	for _, eviction := range p.Evictions {
		add(eviction.Member)
	}
	return members
}

// removes reports whether a plan has an action that needs a live read.
func (s *snapshot) removes(p plan.Plan, look *eni.InstanceSnapshot) bool {
	return slices.ContainsFunc(p.Actions, func(action plan.Action) bool { return s.needsLiveRead(action, look) })
}

// needsLiveRead reports whether an action removes an interface or addresses for a reason that only the cache gives. An
// interface in use always needs a live read. Other interfaces need none where the cache cannot be wrong: EC2 reports
// that the instance terminates, garbage collection has read the API server twice, or the NodeENI is being deleted,
// which is final.
func (s *snapshot) needsLiveRead(action plan.Action, look *eni.InstanceSnapshot) bool {
	switch action := action.(type) {
	case plan.Detach:
		return true // an attached interface is in use, perhaps by pods
	case plan.Change:
		_, takes := action.To.(plan.UnassignAddresses)
		return takes // pods may have the addresses
	case plan.Delete:
		nodeENI := s.nodeENI(action.Of().Owner)
		ends := look != nil && look.Instance.State.Terminating()
		return nodeENI != nil && nodeENI.DeletionTimestamp.IsZero() && !ends
	default:
		return false
	}
}

// liveRead reads the node, its state and the NodeENIs past the cache. A cache can be old without knowing: its first
// list may come from an API server that lags, its watch may be silent, and of two changes of a Node and a NodeENI it
// may know the later one alone. Only the removal of an interface or of its addresses depends on that, and on what the
// state says of pods. With an error it returns the given snapshot.
func (r *Reconciler) liveRead(ctx context.Context, s *snapshot, members []identity.Member) (*snapshot, error) {
	node, err := r.readNode(ctx, r.Reader, s.name)
	if err != nil {
		return s, fmt.Errorf("confirm that node %s is to lose an interface: %w", s.name, err)
	}
	state, err := readState(ctx, r.Reader, s.name)
	if err != nil {
		return s, fmt.Errorf("confirm that no pod uses an interface of node %s: %w", s.name, err)
	}
	nodeENIs, confirmed := s.nodeENIs, maps.Clone(s.confirmed)
	for _, m := range members {
		nodeENIs, confirmed[m.Owner], err = r.confirmNodeENI(ctx, nodeENIs, m)
		if err != nil {
			return s, fmt.Errorf("confirm that node %s is to lose an interface: %w", s.name, err)
		}
	}
	return s.withLive(node, state, nodeENIs, confirmed), nil
}

// confirmNodeENI returns the NodeENIs with the present one of a member. One that is gone, or another by the same name,
// takes no interface: garbage collection confirms that it does not exist. One that was changed has to be read again
// after the node, so that both are of one moment.
func (r *Reconciler) confirmNodeENI(ctx context.Context, nodeENIs []v1alpha1.NodeENI,
	m identity.Member) (now []v1alpha1.NodeENI, confirmed bool, err error) {
	n := slices.IndexFunc(nodeENIs, func(n v1alpha1.NodeENI) bool { return identity.Owner(n.UID) == m.Owner })
	if n < 0 {
		now, err = r.withRecreated(ctx, nodeENIs, m.NodeENI)
		return now, true, err
	}
	var live v1alpha1.NodeENI
	err = r.Reader.Get(ctx, types.NamespacedName{Name: nodeENIs[n].Name}, &live)
	switch now = slices.Clone(nodeENIs); {
	case apierrors.IsNotFound(err) || err == nil && (identity.Owner(live.UID) != m.Owner || unaccepted(live)):
		return slices.Delete(now, n, n+1), true, nil
	case err != nil:
		return nil, false, err
	default:
		now[n] = live
		return now, live.Generation == nodeENIs[n].Generation, nil
	}
}

// withRecreated returns the NodeENIs with the one that was created again under the name of one that no longer exists:
// it adopts what would be detached.
func (r *Reconciler) withRecreated(ctx context.Context, nodeENIs []v1alpha1.NodeENI,
	name string) ([]v1alpha1.NodeENI, error) {
	var again v1alpha1.NodeENI
	err := r.Reader.Get(ctx, types.NamespacedName{Name: name}, &again)
	switch {
	case apierrors.IsNotFound(err):
		return nodeENIs, nil
	case err != nil:
		return nil, err
	case unaccepted(again):
		return nil, fmt.Errorf("NodeENI %s was created again, and has to be accepted first", name)
	}
	others := slices.DeleteFunc(slices.Clone(nodeENIs), func(n v1alpha1.NodeENI) bool { return n.Name == name })
	return append(others, again), nil
}
