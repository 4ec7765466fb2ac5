// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// unconfirmedRemovals returns one member of each NodeENI whose interfaces the actions take away on the word of a cache, of those not
// confirmed yet.
func (s *snapshot) unconfirmedRemovals(actions []plan.Action, look *eni.InstanceSnapshot) []identity.Member {
	var members []identity.Member
	for _, action := range actions {
		m := action.Of()
		listed := slices.ContainsFunc(members, func(other identity.Member) bool { return other.NodeENIUID == m.NodeENIUID })
		if s.needsLiveRead(action, look) && !s.confirmed[m.NodeENIUID] && !listed {
			members = append(members, m)
		}
	}
	return members
}

// needsLiveRead reports whether an action takes an interface away for what the cache alone may say. What is in use is asked about
// in any case. What is not goes without a question where the cache cannot be wrong: EC2 said that the instance ends, the
// sweeper has asked the API server itself twice, or the NodeENI is being deleted, which nobody takes back.
func (s *snapshot) needsLiveRead(action plan.Action, look *eni.InstanceSnapshot) bool {
	switch action.(type) {
	case plan.Detach:
		return true
	case plan.Delete:
		nodeENI := s.nodeENI(action.Of().NodeENIUID)
		ends := look != nil && look.Instance.State.Terminating()
		return nodeENI != nil && nodeENI.DeletionTimestamp.IsZero() && !ends
	default:
		return false
	}
}

// liveRead reads the node and the NodeENIs past the cache. A cache can be old without knowing: its first list may come from
// an API server that lags, its watch may be silent, and of two changes of a Node and a NodeENI it may know the later one alone.
// Nothing else in here minds; an interface that is taken away does.
func (r *Reconciler) liveRead(ctx context.Context, s *snapshot, members []identity.Member) error {
	if err := r.gatherNode(ctx, r.Reader, s); err != nil {
		return fmt.Errorf("confirm that node %s is to lose an interface: %w", s.name, err)
	}
	for _, m := range members {
		confirmed, err := r.confirmNodeENI(ctx, s, m)
		if err != nil {
			return fmt.Errorf("confirm that node %s is to lose an interface: %w", s.name, err)
		}
		s.confirmed[m.NodeENIUID] = confirmed
	}
	return nil
}

// confirmNodeENI puts the NodeENI as it is now in the place of what was known of it. One that is gone, or another by the
// same name, takes nothing away: that it does not exist is for the sweeper to confirm. One that was changed has to be read
// again after the node, so that both are of one moment.
func (r *Reconciler) confirmNodeENI(ctx context.Context, s *snapshot, m identity.Member) (confirmed bool, err error) {
	uid := m.NodeENIUID
	n := slices.IndexFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return string(n.UID) == uid })
	if n < 0 {
		return true, r.findRecreated(ctx, s, m.NodeENI)
	}
	var now v1alpha1.NodeENI
	err = r.Reader.Get(ctx, types.NamespacedName{Name: s.nodeENIs[n].Name}, &now)
	switch {
	case apierrors.IsNotFound(err) || err == nil && (string(now.UID) != uid || unaccepted(now)):
		s.nodeENIs = slices.Delete(s.nodeENIs, n, n+1)
		return true, nil
	case err != nil:
		return false, err
	default:
		same := now.Generation == s.nodeENIs[n].Generation
		s.nodeENIs[n] = now
		return same, nil
	}
}

// findRecreated makes known the NodeENI that was created again in the place of one that does not exist any more: it is to take
// over what would be detached.
func (r *Reconciler) findRecreated(ctx context.Context, s *snapshot, name string) error {
	var again v1alpha1.NodeENI
	err := r.Reader.Get(ctx, types.NamespacedName{Name: name}, &again)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case unaccepted(again):
		return fmt.Errorf("NodeENI %s was created again, and has to be accepted first", name)
	}
	s.nodeENIs = slices.DeleteFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return n.Name == name })
	s.nodeENIs = append(s.nodeENIs, again)
	return nil
}
