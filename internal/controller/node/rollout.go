// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
)

// acquireReplacement reports whether the plan may take a live interface away to make it anew: whether it is the node's turn. If
// not, it says what is waited for, in the same words for as long as it is waited for. A node keeps its turn until the plan of
// the instance that it is lacks nothing; that of an instance which bore its name before says nothing about that.
func (r *Reconciler) acquireReplacement(ctx context.Context, s *snapshot, instanceID string, p plan.Plan) (may bool, turn string, err error) {
	if p.ReplaceCandidate == "" {
		if !p.Converging && instanceID == s.instanceID {
			r.releaseReplacements(s.name)
		}
		return false, "", nil
	}
	nodeENI := s.nodeENI(p.ReplaceCandidate)
	if nodeENI == nil {
		return false, "", nil
	}
	limit := int(max(1, nodeENI.Spec.MaxUnavailable))
	// The node itself may be one of them, so of as many as one more than the limit the others are enough to know.
	unavailable, err := r.states(ctx, controller.StatesNotReady(nodeENI.UID), client.Limit(int64(limit)+1))
	if err != nil {
		return false, "", err
	}
	if r.mayReplace(p.ReplaceCandidate, s.name, limit, namesOf(unavailable)) {
		return true, "", nil
	}
	return false, fmt.Sprintf("it is the node's turn: no more than %d at a time (maxUnavailable) are without an interface of NodeENI %s", limit, nodeENI.Name), nil
}

// mustWait says why a node must wait for its first interface of a NodeENI, or nothing: the NodeENI's spec was not taken
// note of yet, or a change of its selector reaches so many nodes that they are let in bit by bit.
func (r *Reconciler) mustWait(ctx context.Context, s *snapshot, nodeENI *v1alpha1.NodeENI) (string, error) {
	if s.served(nodeENI.UID) {
		return "", nil
	}
	if nodeENI.Status.ObservedGeneration != nodeENI.Generation {
		return "its NodeENI was just changed", nil
	}
	if admitted, err := r.admit(ctx, s.name, nodeENI); admitted || err != nil {
		return "", err
	}
	s.replacement = sooner(s.replacement, r.Now().Add(replacementRecheck))
	return "its NodeENI reaches far more nodes than before and lets them in bit by bit", nil
}

// admit reports whether a NodeENI, if it is in a ramp, admits the node.
func (r *Reconciler) admit(ctx context.Context, node string, nodeENI *v1alpha1.NodeENI) (bool, error) {
	uid, ramp := string(nodeENI.UID), nodeENI.Status.Ramp
	r.mu.Lock()
	defer r.mu.Unlock()
	if ramp == nil {
		r.state.Ramps.End(uid, nodeENI.Generation)
		return true, nil
	}
	if !r.state.Ramps.Begun(uid) {
		r.mu.Unlock()
		served, err := r.states(ctx, controller.StatesOf(nodeENI.UID))
		r.mu.Lock()
		if err != nil {
			return false, err
		}
		r.state.Ramps.Begin(uid, nodeENI.Generation, namesOf(served))
	}
	return r.state.Ramps.Admit(uid, node, controller.Admitted(*ramp, r.Now())), nil
}

// served reports whether the node was ever promised anything by the NodeENI.
func (s *snapshot) served(uid types.UID) bool {
	if s.state == nil {
		return false
	}
	for _, owner := range controller.Owners(s.state) {
		if owner == string(uid) {
			return true
		}
	}
	return false
}

func (s *snapshot) nodeENI(uid string) *v1alpha1.NodeENI {
	for n := range s.nodeENIs {
		if string(s.nodeENIs[n].UID) == uid {
			return &s.nodeENIs[n]
		}
	}
	return nil
}

// states lists NodeENIStates that are only read.
func (r *Reconciler) states(ctx context.Context, opts ...client.ListOption) ([]v1alpha1.NodeENIState, error) {
	var states v1alpha1.NodeENIStateList
	err := r.Client.List(ctx, &states, append(opts, client.UnsafeDisableDeepCopy)...)
	return states.Items, err
}

func namesOf(states []v1alpha1.NodeENIState) []string {
	names := make([]string, len(states))
	for n := range states {
		names[n] = states[n].Name
	}
	return names
}
