// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

const (
	// lingering is how long after the healing the pods of a draining network stay before a user deletes them, and
	// evictionTime the same if the controller may evict them.
	lingering, evictionTime = time.Minute, 10 * time.Minute
	// mostRefusals is how many evictions of one pod a PodDisruptionBudget refuses.
	mostRefusals = 2
)

// evictions are users who let the controller evict pods, and PodDisruptionBudgets that refuse it. They have a random
// stream of their own, so that they shift no other draw.
type evictions struct {
	random *rand.Rand
	// allowed has the NodeENIs, by cluster and name, that ever allowed evictions.
	allowed map[string]bool
	// refused counts the refused evictions of each pod.
	refused map[string]int
}

func newEvictions(seed uint64) *evictions {
	return &evictions{random: rand.New(rand.NewPCG(seed, 0xe7)), allowed: map[string]bool{},
		refused: map[string]int{}}
}

// declareEviction at times lets the controller evict the pods of a network. The schema excludes it with Observed.
func (r *run) declareEviction(pods *v1alpha1.NodeENIPods) {
	if pods != nil && pods.Attachment != v1alpha1.PodAttachmentObserved && r.evictions.random.IntN(2) == 0 {
		pods.OnRemoval = v1alpha1.PodsEvict
	}
}

// noteEviction records that a NodeENI allows evictions.
func (r *run) noteEviction(c *cluster, nodeENI *v1alpha1.NodeENI) {
	if nodeENI.Spec.Pods != nil && nodeENI.Spec.Pods.OnRemoval == v1alpha1.PodsEvict {
		r.evictions.allowed[c.name+"/"+nodeENI.Name] = true
	}
}

// linger reports whether the pods of a draining network stay.
func (h *podHost) linger(network string) bool {
	if len(h.using[network]) == 0 {
		return false
	}
	if h.drainsSince[network].IsZero() {
		h.drainsSince[network] = h.c.run.now
	}
	wait := lingering
	nodeENI, _ := h.c.api.get(nodeENIs, h.files[network].NodeENI).(*v1alpha1.NodeENI)
	if nodeENI != nil && nodeENI.Spec.Pods != nil && nodeENI.Spec.Pods.OnRemoval == v1alpha1.PodsEvict {
		wait = evictionTime
	}
	return h.c.run.now.Sub(h.drainsSince[network]) < wait
}

// podNamed returns a pod of the cluster with its host and network; nil for none.
func (c *cluster) podNamed(name string) (host *podHost, network string, pod *runningPod) {
	for _, instance := range slices.Sorted(maps.Keys(c.run.pods.hosts)) {
		h := c.run.pods.hosts[instance]
		if h.c != c {
			continue
		}
		for network, pods := range h.using {
			if n := slices.IndexFunc(pods, func(p runningPod) bool {
				return p.holder.Pod == name && (p.fixed == nil || !p.fixed.deleted)
			}); n >= 0 {
				return h, network, &pods[n]
			}
		}
	}
	return nil, "", nil
}

// getPod reads a pod from the API server.
func (d directReader) getPod(key client.ObjectKey, into *corev1.Pod) error {
	if err := d.p.asks(nodes, key.Name); err != nil {
		return err
	}
	host, _, pod := d.p.cluster.podNamed(key.Name)
	if pod == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	*into = corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(pod.holder.PodUID)},
		Spec:       corev1.PodSpec{NodeName: host.node},
	}
	return nil
}

// SubResource implements [client.Client] for the Eviction API.
func (c kubernetes) SubResource(string) client.SubResourceClient { return evictor{p: c.p} }

// evictor is the Eviction API.
type evictor struct {
	client.SubResourceClient
	p *process
}

// Create implements [client.SubResourceWriter]. The pod ends at once, unless a PodDisruptionBudget refuses that.
func (e evictor) Create(_ context.Context, object, sub client.Object, _ ...client.SubResourceCreateOption) error {
	p, name := e.p, object.GetName()
	r := p.run
	if err := p.asks(nodes, name); err != nil {
		return err
	}
	host, network, pod := p.cluster.podNamed(name)
	if pod == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	if uid := sub.(*policyv1.Eviction).DeleteOptions.Preconditions.UID; string(*uid) != pod.holder.PodUID {
		return apierrors.NewConflict(corev1.Resource("pods"), name, nil)
	}
	r.evicting(p, *pod)
	if r.evictions.refused[name] < mostRefusals && r.evictions.random.IntN(2) == 0 {
		r.evictions.refused[name]++
		r.covers.Actors[refusesEviction]++
		r.note(p, "evicts %s: a budget refuses it", name)
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	}
	r.covers.Actors[evictsPod]++
	r.note(p, "evicts %s of node %s and network %s", name, host.node, network)
	host.end(network, name)
	if r.faults.strikes(lostReply) {
		return apierrors.NewTimeoutError("injected", 1)
	}
	return nil
}

// end ends a pod of a network by name.
func (h *podHost) end(network, name string) {
	pods := h.using[network]
	at := slices.IndexFunc(pods, func(p runningPod) bool { return p.holder.Pod == name })
	pods[0], pods[at] = pods[at], pods[0]
	h.remove(network)
	h.forgetBrought()
}

// evicting checks I16 for evictions: the controller evicts a pod only from an interface that there is a reason to
// remove, of a NodeENI that allowed it.
func (r *run) evicting(p *process, pod runningPod) {
	i, exists := r.truth().interfaces[pod.eni]
	meddledAt := r.watch.meddled[r.spotOf(i).String()]
	if !exists || p.expired || r.watch.tampered(i.ID) || r.now.Sub(meddledAt) < 10*time.Minute {
		return
	}
	r.judged("I16")
	if !r.evictions.allowed[p.cluster.name+"/"+r.spotOf(i).nodeENI] {
		r.violate("I16", "%s evicts %s, and its NodeENI never allowed that: %s", p.name, pod.holder.Pod, r.describe(i))
	}
	n := p.cluster.api.interfaceOf(i.ID)
	if n == nil && !r.watch.torn[i.ID].IsZero() {
		return // its object, which ordered that, is gone a moment ago
	}
	if n == nil || n.DeletionTimestamp.IsZero() && (n.Spec.Pods == nil || !n.Spec.Pods.Closed) && !r.wasClosed(p, n) {
		r.violate("I16", "%s evicts %s from %s, which is wanted: %s", p.name, pod.holder.Pod, i.ID, r.describe(i))
	}
}

// wasClosed reports whether a process may know an object as closed that is open again.
func (r *run) wasClosed(p *process, n *v1alpha1.NetworkInterface) bool {
	for _, object := range p.mayKnow(netInterfaces) {
		was := object.(*v1alpha1.NetworkInterface)
		if was.UID == n.UID && was.Spec.Pods != nil && was.Spec.Pods.Closed {
			return true
		}
	}
	return false
}
