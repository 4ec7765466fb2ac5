// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
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
	return controller.PodNetworks(s.state)
}

// reportsSince is when the record of the agent's reports began: only the state of the node has reports.
func (s *snapshot) reportsSince() time.Time {
	if s.state == nil {
		return time.Time{}
	}
	return s.state.CreationTimestamp.Time
}

// hasOpenNetworks reports whether the agent reports an interface on which pods have addresses or can get some. A list
// that omits the interface must not end the state of the node, which may be the only record that the interface is a pod
// network.
func (s *snapshot) hasOpenNetworks() bool {
	return s.state != nil && slices.ContainsFunc(s.state.Status.PodNetworks, func(n v1alpha1.PodNetworkState) bool {
		return !n.Drained
	})
}

// podsDraining returns the interfaces that are pod networks, by ID, and whether the agent should drain them.
func (s *snapshot) podsDraining() map[string]bool {
	if s.state == nil {
		return nil
	}
	return controller.PodsDraining(s.state)
}

// acquireEviction reports whether the plan may evict the pods of an interface that is removed and not replaced. The
// permission is that of replacements: at most maxUnavailable instances have it at a time. Instances without the
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

// evictPod evicts a pod of the node. A pod of that name that is gone, is terminating, or runs on another node does not
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

// maxFloating is the largest number of ranges that the agent can get (the schema of floating).
const maxFloating = 32

// following returns the addresses that follow the pods of the node, by interface ID. Claims of other nodes come from
// the cache: a claim that it lacks triggers this node when it arrives.
func (r *Reconciler) following(ctx context.Context, s *snapshot) (map[string]plan.Following, error) {
	if s.state == nil {
		return nil, nil
	}
	all := map[string]plan.Following{}
	for _, i := range s.state.Status.Interfaces {
		if ranges := controller.FloatingRanges(i.Pods); len(ranges) > 0 && i.ENIID != "" {
			all[i.ENIID] = plan.Following{Ranges: ranges}
		}
	}
	for _, claim := range controller.FollowingClaims(s.state) {
		if claim.Released {
			continue
		}
		f := all[claim.InterfaceID]
		if err := r.follow(ctx, s, &f, claim); err != nil {
			return nil, err
		}
		all[claim.InterfaceID] = f
	}
	return all, nil
}

// follow adds the outcome of one claim of the node to the addresses that follow pods on its interface.
func (r *Reconciler) follow(ctx context.Context, s *snapshot, f *plan.Following, claim plan.AddressClaim) error {
	claims, err := r.claimsOn(ctx, s, claim.Address)
	if err != nil {
		return err
	}
	holder, held, until := r.holder(claim.Address, claims)
	f.RequeueAt = sooner(f.RequeueAt, until)
	var others []string
	contended := plan.ContendedAddress{Address: claim.Address, Holder: holder}
	for _, other := range claims {
		if other.InterfaceID == holder.InterfaceID {
			continue
		}
		others = append(others, other.InterfaceID)
		if !other.Released {
			contended.Others = append(contended.Others, other)
		}
	}
	if held && len(contended.Others) > 0 {
		f.Contended = append(f.Contended, r.withPodNames(ctx, contended))
	}
	if held && holder.InterfaceID == claim.InterfaceID {
		f.Held = append(f.Held, plan.HeldAddress{Address: claim.Address, Sequence: claim.Sequence, Others: others})
	}
	return nil
}

// claimsOn returns all claims on an address. Claims of the node itself come from the snapshot, which can be newer than
// the cache.
func (r *Reconciler) claimsOn(ctx context.Context, s *snapshot, address netip.Addr) ([]plan.AddressClaim, error) {
	states, err := r.states(ctx, controller.StatesClaiming(address))
	if err != nil {
		return nil, err
	}
	states = append(slices.DeleteFunc(slices.Clone(states), func(other v1alpha1.NodeENIState) bool {
		return other.Name == s.name
	}), *s.state)
	var claims []plan.AddressClaim
	for n := range states {
		claims = append(claims, slices.DeleteFunc(controller.FollowingClaims(&states[n]), func(c plan.AddressClaim) bool {
			return c.Address != address
		})...)
	}
	return claims, nil
}

func (r *Reconciler) holder(address netip.Addr,
	claims []plan.AddressClaim) (holder plan.AddressClaim, held bool, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.AddressMoves.Holder(address, claims, r.Now())
}

// Contenders returns the other nodes with claims on the addresses whose claims differ between two versions of a state,
// in order. A state that is created or deleted is a version without claims.
func (r *Reconciler) Contenders(ctx context.Context, was, now *v1alpha1.NodeENIState) []string {
	changed := map[netip.Addr]bool{}
	before, after := claimsByKey(was), claimsByKey(now)
	for key := range before {
		if _, still := after[key]; !still {
			changed[key.Address] = true
		}
	}
	for key := range after {
		if _, already := before[key]; !already {
			changed[key.Address] = true
		}
	}
	names := map[string]bool{}
	for address := range changed {
		states, err := r.states(ctx, controller.StatesClaiming(address))
		if err != nil {
			r.Log.Error("claims on an address could not be listed", "address", address, "err", err)
		}
		for n := range states {
			names[states[n].Name] = true
		}
	}
	for _, state := range []*v1alpha1.NodeENIState{was, now} {
		if state != nil {
			delete(names, state.Name)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func claimsByKey(state *v1alpha1.NodeENIState) map[plan.AddressClaim]bool {
	claims := map[plan.AddressClaim]bool{}
	if state == nil {
		return claims
	}
	for _, claim := range controller.FollowingClaims(state) {
		claims[claim] = true
	}
	return claims
}

// withPodNames returns a contended address with the names of its pods instead of their IP addresses, as far as the API
// server allows the controller to list pods.
func (r *Reconciler) withPodNames(ctx context.Context, c plan.ContendedAddress) plan.ContendedAddress {
	c.Holder.Pod = r.podName(ctx, c.Holder.Pod)
	for n := range c.Others {
		c.Others[n].Pod = r.podName(ctx, c.Others[n].Pod)
	}
	return c
}

// podNameTTL is short, because another pod can get the IP address.
const podNameTTL = time.Minute

// podName returns the name of the running pod with an IP address, or the address if the API server does not return
// exactly one pod.
func (r *Reconciler) podName(ctx context.Context, ip string) string {
	if ip == "" {
		return ""
	}
	unnamed := "the pod with IP address " + ip
	name, err := r.podNames.Get(ctx, ip, func(ctx context.Context) (string, time.Duration, error) {
		pods := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		running := client.MatchingFields{"status.podIP": ip, "status.phase": string(corev1.PodRunning)}
		// A failure is cached too, so that the next message does not cost another request.
		if err := r.Reader.List(ctx, &pods, running); err == nil && len(pods.Items) == 1 {
			return fmt.Sprintf("pod %s/%s", pods.Items[0].Namespace, pods.Items[0].Name), podNameTTL, nil
		}
		return unnamed, podNameTTL, nil
	})
	if err != nil {
		return unnamed
	}
	return name
}

// floating returns the ranges in which addresses on an interface in a subnet follow pods: the declared ones within the
// subnet, or, with attachment Observed, the blocks of the subnet's SubnetReservations of type Explicit.
func (s *snapshot) floating(pods *v1alpha1.NodeENIPods, subnet v1alpha1.ResolvedSubnet) []string {
	if pods == nil {
		return nil
	}
	within, err := netip.ParsePrefix(subnet.CIDR)
	if err != nil {
		return nil
	}
	if len(pods.Floating) == 0 && pods.Attachment == v1alpha1.PodAttachmentObserved {
		return s.explicitBlocks(subnet.ID)
	}
	return slices.DeleteFunc(slices.Clone(pods.Floating), func(text string) bool {
		r, err := netip.ParsePrefix(text)
		return err != nil || !r.Overlaps(within)
	})
}

// explicitBlocks returns the blocks that EC2 has reserved in a subnet for explicitly requested addresses.
func (s *snapshot) explicitBlocks(subnetID string) []string {
	var blocks []string
	for n := range s.reservations {
		if s.reservations[n].Spec.Type != v1alpha1.SubnetReservationExplicit {
			continue
		}
		for _, block := range s.reservations[n].Status.Reservations {
			if block.SubnetID == subnetID && block.ID != "" && block.Reason == "" {
				blocks = append(blocks, block.CIDR)
			}
		}
	}
	slices.Sort(blocks)
	blocks = slices.Compact(blocks)
	return blocks[:min(len(blocks), maxFloating)]
}

// usesReservations reports whether the addresses of a NodeENI follow pods within SubnetReservations.
func usesReservations(nodeENI *v1alpha1.NodeENI) bool {
	pods := nodeENI.Spec.Pods
	return pods != nil && pods.Attachment == v1alpha1.PodAttachmentObserved && len(pods.Floating) == 0
}
