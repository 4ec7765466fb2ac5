// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/text"
)

// interfacePods returns the part of a NodeENI's spec.pods that the agent needs; nil without spec.pods.
func interfacePods(pods *v1alpha1.NodeENIPods) *v1alpha1.InterfacePods {
	if pods == nil {
		return nil
	}
	told := &v1alpha1.InterfacePods{Attachment: pods.Attachment}
	if pods.IPv4 != nil {
		told.IPv4MaxPrefixes = pods.IPv4.Prefixes.Most()
		told.IPv4Prefixes, told.Spare = pods.IPv4.Prefixes.Min, ptr.Deref(pods.IPv4.Spare, 0)
	}
	if pods.IPv6 != nil {
		told.IPv6Prefixes = pods.IPv6.Prefixes
	}
	for _, route := range pods.Routes {
		told.Routes = append(told.Routes, route.To)
	}
	return told
}

// podsOf returns the part of spec.pods that the agent of the node needs. After spec.pods is removed, the last value
// stays until the agent has drained the network: the agent continues to report the pods, and they keep their addresses.
func (s *snapshot) podsOf(pods *v1alpha1.NodeENIPods, was v1alpha1.InterfaceState) *v1alpha1.InterfacePods {
	if pods != nil || was.Pods == nil {
		return interfacePods(pods)
	}
	if was.Pods.Draining && s.podNetworks()[was.ENIID].Drained {
		return nil
	}
	return drained(was.Pods)
}

// drained returns what the agent needs to drain a network.
func drained(pods *v1alpha1.InterfacePods) *v1alpha1.InterfacePods {
	pods = pods.DeepCopy()
	pods.Draining = true
	return pods
}

// podNetworks returns the agent's reports about the pods that use interfaces, by interface ID.
func (s *snapshot) podNetworks() map[string]plan.PodNetwork {
	if s.state == nil {
		return nil
	}
	return s.podNetworksOf(s.state.Spec.InstanceID)
}

// podNetworksOf returns the reports for the plan of an instance that has the node, or had it.
func (s *snapshot) podNetworksOf(instanceID string) map[string]plan.PodNetwork {
	if s.state == nil {
		return nil
	}
	return controller.PodNetworks(s.state, instanceID)
}

// reportTime is how long a report can be missing after the loss of a node's state although pods use an interface.
// Agents report within seconds.
const reportTime = 10 * time.Minute

// reportsLost returns the interfaces that are older than the state of the node, and when one that the state does not
// list as a network for pods proves to be none. The time counts from this process' first plan with the state: clocks of
// others do not decide.
func (r *Reconciler) reportsLost(s *snapshot) map[string]time.Time {
	if s.state == nil || len(s.state.Spec.EarlierInterfaces) == 0 {
		return nil
	}
	r.mu.Lock()
	until := r.state.MissingReports.Due(string(s.state.UID), reportTime, r.Now())
	r.mu.Unlock()
	lost := map[string]time.Time{}
	for _, id := range s.state.Spec.EarlierInterfaces {
		lost[id] = until
	}
	return lost
}

// provedUnused reports whether an interface that is older than the state of the node has proved to be no network for
// pods.
func (r *Reconciler) provedUnused(s *snapshot, id string) bool {
	until, lost := r.reportsLost(s)[id]
	_, listed := s.listedNetworks()[id]
	_, reported := s.podNetworks()[id]
	return lost && !listed && !reported && !r.Now().Before(until)
}

// reportsProveAt returns the time at which missing reports prove that interfaces are no networks for pods; zero for
// none.
func (r *Reconciler) reportsProveAt(s *snapshot) (at time.Time) {
	for _, until := range r.reportsLost(s) {
		if until.After(r.Now()) {
			at = sooner(at, until)
		}
	}
	return at
}

// opened returns the settings of an interface with the record whether the agent may have opened its network to pods.
// The record is the controller's own, so that no other agent on the node can remove it. The agent opens the network
// only with the record. It ends when the network was to drain and is reported as drained.
func (s *snapshot) opened(
	pods v1alpha1.InterfacePods, m plan.Member, was *v1alpha1.InterfacePods,
) *v1alpha1.InterfacePods {
	network, reported := s.podNetworks()[m.Interface.ID]
	pods.Opened = was != nil && was.Opened
	switch {
	case reported && !network.Drained:
		pods.Opened = pods.Opened || !m.KeepClosed
	case reported && was != nil && was.Draining:
		pods.Opened = false
	}
	return &pods
}

// agentAwaits reports whether the agent on the node must learn of other settings of a pod network.
func agentAwaits(was, now *v1alpha1.InterfacePods) bool {
	if was != nil && now != nil && was.Opened {
		kept := *now
		kept.Opened = true // the agent waits for the record, and not for its end
		now = &kept
	}
	return !equality.Semantic.DeepEqual(was, now)
}

// hasOpenNetworks reports whether the state has an interface on which pods have addresses or can get some. A list that
// omits the interface must not end the state of the node, which may be the only record that the interface is a pod
// network.
func (s *snapshot) hasOpenNetworks() bool { return len(s.openNetworks()) > 0 }

// openNetworks returns the IDs of the interfaces that pods may use, by the agent's report or by the controller's
// record.
func (s *snapshot) openNetworks() []string {
	if s.state == nil {
		return nil
	}
	open := map[string]bool{}
	for id, network := range s.listedNetworks() {
		open[id] = network.Opened
	}
	for id, report := range s.podNetworks() {
		open[id] = !report.Drained
	}
	maps.DeleteFunc(open, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(open))
}

// listedNetworks returns the interfaces that the state lists as networks for pods, by ID.
func (s *snapshot) listedNetworks() map[string]plan.ListedNetwork {
	if s.state == nil {
		return nil
	}
	return controller.ListedNetworks(s.state)
}

// acquireEviction asks for the permission to evict the pods of an interface of the owner, if any, that is removed and
// not replaced. The permission is that of replacements: at most maxUnavailable instances have it at a time. Instances
// without the interface do not count, since they never get it back. An instance keeps the permission until no pod uses
// the interface.
func (r *Reconciler) acquireEviction(ctx context.Context, s *snapshot, instanceID string,
	owner identity.Owner) (fleet.Permission, error) {
	nodeENI := s.nodeENI(owner)
	if nodeENI == nil {
		return fleet.Permission{}, nil
	}
	if err := r.releaseUnknown(ctx, string(owner)); err != nil {
		return fleet.Permission{}, err
	}
	limit := int(max(1, nodeENI.Spec.MaxUnavailable))
	if r.mayReplace(string(owner), instanceID, limit, nil) {
		return fleet.Permission{Granted: true}, nil
	}
	return fleet.Permission{Denied: fmt.Sprintf("it evicts on no more than %s at a time (maxUnavailable)",
		text.Count(limit, "node"))}, nil
}

// evictions returns the last attempts to evict the pods of an instance's interfaces.
func (r *Reconciler) evictions(instanceID string) map[string]fleet.Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Attempts.Of(instanceID).Evictions
}

// evictPods makes one attempt to evict pods, and records the API server's refusals.
func (r *Reconciler) evictPods(ctx context.Context, s *snapshot, instanceID string, evictions []plan.Eviction) {
	for _, e := range evictions {
		refusal := ""
		for _, pod := range s.podsOn(e.InterfaceID) {
			if err := r.evictPod(ctx, s.name, pod); err != nil {
				r.Log.Info("a pod is not evicted", "node", s.name, "namespace", pod.Namespace, "pod", pod.Name,
					"interface", e.InterfaceID, "error", err)
				refusal = clip(err.Error(), 300)
			}
		}
		r.recordEviction(instanceID, e.InterfaceID, refusal)
	}
}

// podsOn returns the pods that the agent reports for an interface.
func (s *snapshot) podsOn(interfaceID string) []v1alpha1.PodReference {
	if s.state == nil {
		return nil
	}
	for _, network := range s.state.Status.PodNetworks {
		if network.ENIID == interfaceID {
			return network.Pods
		}
	}
	return nil
}

// evictPod evicts a pod of the node. A pod that is gone, is terminating, or runs on another node does not use the
// interface any more, and neither does another pod of its name: the agent's report is older.
func (r *Reconciler) evictPod(ctx context.Context, node string, reported v1alpha1.PodReference) error {
	namespace, name, uid := reported.Namespace, reported.Name, types.UID(reported.UID)
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
	case pod.UID != uid:
		return nil
	}
	err = r.Client.SubResource("eviction").Create(ctx, &pod, &policyv1.Eviction{
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
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

func (r *Reconciler) recordEviction(instanceID, interfaceID, refusal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Attempts.RecordEviction(instanceID, interfaceID, refusal, r.Now())
}
