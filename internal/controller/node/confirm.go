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
	"github.com/multieni/multieni/plan"
)

// unconfirmed returns the UIDs of the NodeENIs whose interfaces the actions take away, of those not confirmed yet.
func (s *subject) unconfirmed(actions []plan.Action) []string {
	var uids []string
	for _, action := range actions {
		if uid := action.Of().NodeENIUID; isDetach(action) && !s.confirmed[uid] && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	return uids
}

func isDetach(action plan.Action) bool {
	_, is := action.(plan.Detach)
	return is
}

// confirm reads the node and the NodeENIs past the cache. A cache can be old without knowing: its first list may come from
// an API server that lags, and its watch may be silent. Nothing else in here minds; an interface that is in use does.
func (r *Reconciler) confirm(ctx context.Context, s *subject, uids []string) error {
	if err := r.gatherNode(ctx, r.Reader, s); err != nil {
		return fmt.Errorf("confirm that node %s is to lose an interface: %w", s.name, err)
	}
	for _, uid := range uids {
		if err := r.confirmNodeENI(ctx, s, uid); err != nil {
			return fmt.Errorf("confirm that node %s is to lose an interface: %w", s.name, err)
		}
		s.confirmed[uid] = true
	}
	return nil
}

// confirmNodeENI puts the NodeENI as it is now in the place of what was known of it. One that is gone, or another by the
// same name, takes nothing away: that it does not exist is for the sweeper to confirm.
func (r *Reconciler) confirmNodeENI(ctx context.Context, s *subject, uid string) error {
	n := slices.IndexFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return string(n.UID) == uid })
	if n < 0 {
		return nil
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
