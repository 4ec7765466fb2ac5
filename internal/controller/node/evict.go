// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/text"
)

// acquireEviction reports whether the plan may evict the pods of an interface that is removed and not replaced. The
// permission is that of replacements: as many instances as maxUnavailable have it at a time. Instances without the
// interface do not count, since they never get it back. An instance keeps the permission until no pod uses the
// interface.
func (r *Reconciler) acquireEviction(ctx context.Context, s *snapshot, instanceID string,
	p plan.Plan) (may bool, denied string, err error) {
	nodeENI := s.nodeENI(p.EvictCandidate)
	if p.EvictCandidate == "" || nodeENI == nil {
		return false, "", nil
	}
	if err := r.releaseUnknown(ctx, string(p.EvictCandidate)); err != nil {
		return false, "", err
	}
	limit := int(max(1, nodeENI.Spec.MaxUnavailable))
	if r.mayReplace(string(p.EvictCandidate), instanceID, limit, nil) {
		return true, "", nil
	}
	return false, fmt.Sprintf("it evicts on no more than %s at a time (maxUnavailable)", text.Count(limit, "node")), nil
}

// evictPods makes one attempt to evict pods, and records the API server's refusals.
func (r *Reconciler) evictPods(ctx context.Context, node, instanceID string, evictions []plan.Eviction) {
	for _, e := range evictions {
		refusal := ""
		for _, name := range e.Pods {
			if err := r.evictPod(ctx, node, name); err != nil {
				r.Log.Info("a pod is not evicted", "node", node, "pod", name, "interface", e.InterfaceID, "error", err)
				refusal = clip(err.Error(), 300)
			}
		}
		r.recordEviction(instanceID, e.InterfaceID, refusal)
	}
}

// evictPod evicts a pod of the node. A pod of that name that is gone, already ends, or runs on another node does not
// use the interface any more: the agent's report is older.
func (r *Reconciler) evictPod(ctx context.Context, node, name string) error {
	namespace, name, _ := strings.Cut(name, "/")
	var pod corev1.Pod
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
	switch {
	case apierrors.IsNotFound(err), err == nil && (!pod.DeletionTimestamp.IsZero() || pod.Spec.NodeName != node):
		return nil
	case err != nil:
		return evictionRefused(namespace, name, err)
	}
	err = r.Client.SubResource("eviction").Create(ctx, &pod, &policyv1.Eviction{
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or another pod has its name
		return nil
	}
	if err == nil {
		r.Log.Info("evicted a pod", "node", node, "namespace", namespace, "pod", name)
		return nil
	}
	return evictionRefused(namespace, name, err)
}

// evictionRefused names the pod, the API server's reason and the next step.
func evictionRefused(namespace, name string, err error) error {
	switch {
	case apierrors.IsTooManyRequests(err):
		return fmt.Errorf("a PodDisruptionBudget refuses the eviction of pod %s/%s%s; start further pods of its application "+
			"elsewhere, or change the budget",
			namespace, name, budget(err))
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the controller may not evict pod %s/%s; set pods.eviction=true in the values of the chart, or "+
			"delete the pod: %w", namespace, name, err)
	default:
		return fmt.Errorf("evict pod %s/%s: %w", namespace, name, err)
	}
}

// budget returns what the API server says of the PodDisruptionBudget, in parentheses.
func budget(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.TrimSuffix(status.Status().Details.Causes[0].Message, "."))
}

func (r *Reconciler) recordEviction(instanceID, interfaceID, refusal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Evictions.Record(instanceID, interfaceID, refusal, r.Now())
}
