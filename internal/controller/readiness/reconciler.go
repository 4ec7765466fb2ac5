// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readiness reports on each Node whether its interfaces are ready: it writes the condition
// networking.k8s.aws/InterfacesReady, the labels and the annotation of usable interfaces, and removes the startup taint
// last. It compares the NodeENIs that select the Node with what the node reconciler and the agent report in its
// NodeENIState.
package readiness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
)

// conflictDelay is how long the cache has to catch up with another client's write.
const conflictDelay = 100 * time.Millisecond

// Options are what a Reconciler works with.
type Options struct {
	Client client.Client
	// Taint is the key of the startup taint, which keeps pods away until the node is ready.
	Taint string
	// ReapplyTaint adds the taint again to a node that loses a required interface.
	ReapplyTaint bool
	// Concurrency is how many Nodes are written at the same time.
	Concurrency int
	// Now returns the current time.
	Now func() time.Time
}

// Reconciler reconciles Nodes by name.
type Reconciler struct{ Options }

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler { return &Reconciler{options} }

// Reconcile writes the readiness of one Node.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	err := r.reconcile(ctx, request.Name)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

func (r *Reconciler) reconcile(ctx context.Context, name string) error {
	var node corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return err
	}
	var nodeENIs v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &nodeENIs, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	state, err := r.state(ctx, name)
	if err != nil {
		return err
	}
	if !r.concerns(&node, state) {
		return nil
	}
	readiness := Evaluate(&node, state, nodeENIs.Items)
	if r.isTainted(&node) {
		readiness = readiness.waitForMultus(state)
	}
	return r.write(ctx, &node, state, readiness)
}

// state returns the NodeENIState of a node, or nil if there is none.
func (r *Reconciler) state(ctx context.Context, name string) (*v1alpha1.NodeENIState, error) {
	var state v1alpha1.NodeENIState
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &state)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &state, err
}

// concerns reports whether a Node gets a readiness. Without the startup taint, an agent and a condition from earlier,
// nothing would report its links.
func (r *Reconciler) concerns(node *corev1.Node, state *v1alpha1.NodeENIState) bool {
	reported := state != nil && (len(state.Status.Links) > 0 || state.Status.CNI != nil)
	return reported || r.isTainted(node) || conditionOf(node) != nil
}

// write writes the differences between a Node and its readiness. The startup taint goes last.
func (r *Reconciler) write(ctx context.Context, node *corev1.Node, state *v1alpha1.NodeENIState,
	readiness Readiness) error {
	if condition := r.changedCondition(node, readiness); condition != nil {
		body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
		if err != nil {
			return err
		}
		written := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		patch := client.RawPatch(types.StrategicMergePatchType, body)
		if err := r.Client.Status().Patch(ctx, written, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
			return fmt.Errorf("write condition %s of Node %s: %w", v1alpha1.NodeConditionInterfacesReady, node.Name, err)
		}
		node = written
	}
	after := node.DeepCopy()
	if err := describe(after, state); err != nil {
		return err
	}
	r.setTaint(after, readiness)
	if equality.Semantic.DeepEqual(after, node) {
		return nil
	}
	// A patch replaces all taints, so it fails if another client changed the Node meanwhile.
	patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("write labels, annotation and taint of Node %s: %w", node.Name, err)
	}
	return nil
}

// changedCondition returns the condition of a Node for its readiness, or nil if the Node has it. The time of the
// transition changes only with the status.
func (r *Reconciler) changedCondition(node *corev1.Node, v Readiness) *corev1.NodeCondition {
	now := metav1.NewTime(r.Now())
	condition := corev1.NodeCondition{
		Type: v1alpha1.NodeConditionInterfacesReady, Status: v.Status, Reason: v.Reason, Message: v.Message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	before := conditionOf(node)
	switch {
	case before == nil, before.Status != condition.Status:
		return &condition
	case before.Reason != condition.Reason || before.Message != condition.Message:
		condition.LastTransitionTime = before.LastTransitionTime
		return &condition
	default:
		return nil
	}
}

func conditionOf(node *corev1.Node) *corev1.NodeCondition {
	for n := range node.Status.Conditions {
		if node.Status.Conditions[n].Type == v1alpha1.NodeConditionInterfacesReady {
			return &node.Status.Conditions[n]
		}
	}
	return nil
}

func (r *Reconciler) isStartupTaint(t corev1.Taint) bool { return t.Key == r.Taint }

func (r *Reconciler) isTainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, r.isStartupTaint)
}

// setTaint removes the startup taint from a Node that is ready. With ReapplyTaint it adds the taint again to a Node
// that is not.
func (r *Reconciler) setTaint(node *corev1.Node, v Readiness) {
	switch {
	case v.Status == corev1.ConditionTrue:
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, r.isStartupTaint)
	case v.Status == corev1.ConditionFalse && r.ReapplyTaint && !r.isTainted(node):
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: r.Taint, Effect: corev1.TaintEffectNoSchedule})
	}
}
