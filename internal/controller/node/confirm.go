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
	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/plan"
)

// unconfirmed returns one member of each NodeENI whose interfaces the actions take away, of those not confirmed yet.
func (s *subject) unconfirmed(actions []plan.Action) []ownership.Member {
	var members []ownership.Member
	for _, action := range actions {
		m := action.Of()
		listed := slices.ContainsFunc(members, func(other ownership.Member) bool { return other.NodeENIUID == m.NodeENIUID })
		if isDetach(action) && !s.confirmed[m.NodeENIUID] && !listed {
			members = append(members, m)
		}
	}
	return members
}

func isDetach(action plan.Action) bool {
	_, is := action.(plan.Detach)
	return is
}

// confirm reads the node and the NodeENIs past the cache. A cache can be old without knowing: its first list may come from
// an API server that lags, and its watch may be silent. Nothing else in here minds; an interface that is in use does.
func (r *Reconciler) confirm(ctx context.Context, s *subject, members []ownership.Member) error {
	if err := r.gatherNode(ctx, r.Reader, s); err != nil {
		return fmt.Errorf("confirm that node %s is to lose an interface: %w", s.name, err)
	}
	for _, m := range members {
		if err := r.confirmNodeENI(ctx, s, m); err != nil {
			return fmt.Errorf("confirm that node %s is to lose an interface: %w", s.name, err)
		}
		s.confirmed[m.NodeENIUID] = true
	}
	return nil
}

// confirmNodeENI puts the NodeENI as it is now in the place of what was known of it. One that is gone, or another by the
// same name, takes nothing away: that it does not exist is for the sweeper to confirm.
func (r *Reconciler) confirmNodeENI(ctx context.Context, s *subject, m ownership.Member) error {
	uid := m.NodeENIUID
	n := slices.IndexFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return string(n.UID) == uid })
	if n < 0 {
		return r.confirmLoss(ctx, s, m.NodeENI)
	}
	var now v1alpha1.NodeENI
	err := r.Reader.Get(ctx, types.NamespacedName{Name: s.nodeENIs[n].Name}, &now)
	switch {
	case apierrors.IsNotFound(err) || err == nil && (string(now.UID) != uid || unaccepted(now)):
		s.nodeENIs = slices.Delete(s.nodeENIs, n, n+1)
	case err != nil:
		return err
	default:
		s.nodeENIs[n] = now
	}
	return nil
}

// confirmLoss makes known the NodeENI that was created again in the place of one that does not exist any more: it is to take
// over what would be detached.
func (r *Reconciler) confirmLoss(ctx context.Context, s *subject, name string) error {
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
