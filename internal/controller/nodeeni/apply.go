// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/fleet"
)

// deletedFor is how long the cache has to show a deletion of this process.
const deletedFor = 10 * time.Second

// The delays between two attempts to evict the pods of one interface. Each further attempt doubles the first delay,
// up to the last.
const (
	evictFirstDelay = 10 * time.Second
	evictLastDelay  = 2 * time.Minute
)

// attempt is the last attempt to evict the pods of an interface.
type attempt struct {
	at time.Time
	// count is the number of attempts, and refusal why the API server refused the last one.
	count   int
	refusal string
}

// next returns the time of the next attempt.
func (a attempt) next() time.Time {
	wait := evictFirstDelay
	for n := 1; n < a.count && wait < evictLastDelay; n++ {
		wait *= 2
	}
	return a.at.Add(min(wait, evictLastDelay))
}

// apply deletes objects, evicts pods and marks orphans. Each object fails alone.
func (r *Reconciler) apply(ctx context.Context, f *facts) error {
	var failed []error
	stands, err := r.stands(ctx, f)
	if failed = append(failed, err); stands {
		for _, d := range f.outcome.Delete {
			failed = append(failed, r.delete(ctx, f, d))
		}
	}
	for _, o := range f.outcome.Orphan {
		failed = append(failed, client.IgnoreNotFound(r.markOrphan(ctx, f.object(o.Name))))
	}
	for _, o := range f.outcome.Evict {
		last := r.evict(ctx, f.object(o.Name))
		if last.refusal != "" {
			f.refusals[o.Name] = last.refusal
		}
		if last.count > 0 {
			f.nextEviction = sooner(f.nextEviction, max(last.next().Sub(f.now), conflictDelay))
		}
	}
	if !f.nodeENI.Absent {
		failed = append(failed, r.adopted(ctx, *f))
	}
	return errors.Join(failed...)
}

// stands reports whether the deletion of a NodeENI still stands, by the API server itself. The cache may show a NodeENI
// whose finalizer was stripped, and another one of the name may have adopted its objects.
func (r *Reconciler) stands(ctx context.Context, f *facts) (bool, error) {
	if !f.nodeENI.Deleting || len(f.outcome.Delete) == 0 {
		return true, nil
	}
	var live v1alpha1.NodeENI
	err := r.Reader.Get(ctx, client.ObjectKey{Name: f.nodeENI.Name}, &live)
	return string(live.UID) == f.nodeENI.UID && live.DeletionTimestamp != nil, client.IgnoreNotFound(err)
}

// delete deletes an object. The deletion counts before the cache shows it.
func (r *Reconciler) delete(ctx context.Context, f *facts, d fleet.Deletion) error {
	r.Log.Info("delete an object", "nodeeni", f.nodeENI.Name, "object", d.Name, "why", d.Why)
	o, remove := f.object(d.Name), object.Delete
	if d.Version != "" {
		remove = object.DeleteVersion
	}
	if err := remove(ctx, r.Client, o); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted[d.UID] = f.now
	return nil
}

// evict makes an attempt to evict the pods of an object if one is due. It returns the last one.
func (r *Reconciler) evict(ctx context.Context, o *v1alpha1.NetworkInterface) attempt {
	r.mu.Lock()
	last := r.evictions[o.Status.ENIID]
	r.mu.Unlock()
	if o.Status.Node == nil || o.Status.Node.Pods == nil || len(o.Status.Node.Pods.Pods) == 0 {
		return attempt{} // the next report has them
	}
	if last.count > 0 && r.Now().Before(last.next()) {
		return last
	}
	next := attempt{at: r.Now(), count: last.count + 1}
	for _, pod := range o.Status.Node.Pods.Pods {
		if err := r.evictPod(ctx, o.Spec.NodeName, pod); err != nil {
			r.Log.Info("a pod is not evicted", "node", o.Spec.NodeName, "namespace", pod.Namespace, "pod", pod.Name,
				"interface", o.Status.ENIID, "error", err)
			next.refusal = clip(err.Error(), 300)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, other := range r.evictions {
		if r.Now().Sub(other.at) > 2*evictLastDelay {
			delete(r.evictions, id) // its pods are gone
		}
	}
	r.evictions[o.Status.ENIID] = next
	return next
}

// evictPod evicts a pod of the node. A pod that is gone, is terminating, or runs on another node does not use the
// interface any more, and neither does another pod of its name: the agent's report is older.
func (r *Reconciler) evictPod(ctx context.Context, node string, reported v1alpha1.PodReference) error {
	namespace, name, uid := reported.Namespace, reported.Name, reported.UID
	var pod corev1.Pod
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
	switch {
	case apierrors.IsNotFound(err), err == nil && (!pod.DeletionTimestamp.IsZero() || pod.Spec.NodeName != node):
		return nil
	case err != nil:
		return evictionRefused(namespace, name, err)
	case uid == "":
		return fmt.Errorf("the container runtime of the node does not pass the UID of pod %s/%s (K8S_POD_UID) to CNI "+
			"plugins, so another pod of its name could be evicted; delete the pod", namespace, name)
	case string(pod.UID) != uid:
		return nil
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

// budget returns what the API server says about the PodDisruptionBudget, in parentheses.
func budget(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.TrimSuffix(status.Status().Details.Causes[0].Message, "."))
}

func clip(text string, length int) string {
	return strings.ToValidUTF8(text[:min(len(text), length)], "")
}
