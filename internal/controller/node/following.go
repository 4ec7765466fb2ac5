// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
)

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
	claims := controller.FollowingClaims(s.state)
	here := byAddress(claims)
	for _, claim := range claims {
		if claim.Released {
			continue
		}
		elsewhere, err := r.claimsElsewhere(ctx, s, claim.Address)
		if err != nil {
			return nil, err
		}
		f := all[claim.InterfaceID]
		r.follow(&f, claim, slices.Concat(elsewhere, here[claim.Address]))
		all[claim.InterfaceID] = f
	}
	for id, f := range all {
		if len(f.Contended) > 0 { // messages name the pods of the first one only
			f.Contended[0] = r.withPodNames(ctx, f.Contended[0])
			all[id] = f
		}
	}
	return all, nil
}

// follow adds the outcome of one claim of the node to the addresses that follow pods on its interface. The argument
// claims has all claims on the address.
func (r *Reconciler) follow(f *plan.Following, claim plan.AddressClaim, claims []plan.AddressClaim) {
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
		f.Contended = append(f.Contended, contended)
	}
	if held && holder.InterfaceID == claim.InterfaceID {
		f.Held = append(f.Held, plan.HeldAddress{Address: claim.Address, Sequence: claim.Sequence, Others: others})
	}
}

// claimsIndex has the claims of other nodes as a snapshot sees them. Each state is parsed once: a report can claim
// thousands of addresses, and another node can claim the same ones.
type claimsIndex struct {
	byState   map[string]map[netip.Addr][]plan.AddressClaim
	byAddress map[netip.Addr][]plan.AddressClaim
}

func newClaimsIndex() *claimsIndex {
	return &claimsIndex{
		byState:   map[string]map[netip.Addr][]plan.AddressClaim{},
		byAddress: map[netip.Addr][]plan.AddressClaim{},
	}
}

func byAddress(claims []plan.AddressClaim) map[netip.Addr][]plan.AddressClaim {
	all := map[netip.Addr][]plan.AddressClaim{}
	for _, claim := range claims {
		all[claim.Address] = append(all[claim.Address], claim)
	}
	return all
}

// claimsElsewhere returns the claims of other nodes on an address. Those of the node itself come from its state in the
// snapshot, which can be newer than the cache.
func (r *Reconciler) claimsElsewhere(ctx context.Context, s *snapshot,
	address netip.Addr) ([]plan.AddressClaim, error) {
	index := s.claims
	if known, is := index.byAddress[address]; is {
		return known, nil
	}
	states, err := r.states(ctx, controller.StatesClaiming(address))
	if err != nil {
		return nil, err
	}
	var claims []plan.AddressClaim
	for n := range states {
		name := states[n].Name
		if name == s.name {
			continue
		}
		if _, parsed := index.byState[name]; !parsed {
			index.byState[name] = byAddress(controller.FollowingClaims(&states[n]))
		}
		claims = append(claims, index.byState[name][address]...)
	}
	index.byAddress[address] = claims
	return claims, nil
}

// movesFrom returns when the addresses on an instance that follow pods may change again; zero if they may now.
func (r *Reconciler) movesFrom(instanceID string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.AddressMoves.From(instanceID, r.Now())
}

// recordMoves records that the instance is read or changed now, if a plan moves or unassigns addresses.
func (r *Reconciler) recordMoves(instanceID string, actions []plan.Action) {
	if plan.MovesAddresses(actions) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state.AddressMoves.Begin(instanceID, r.Now())
	}
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

// withPodNames returns a contended address with the names of the pods that a message lists instead of their IP
// addresses, as far as the API server allows the controller to list pods.
func (r *Reconciler) withPodNames(ctx context.Context, c plan.ContendedAddress) plan.ContendedAddress {
	c.Holder.Pod = r.podName(ctx, c.Holder.Pod)
	for n := range c.Others[:min(len(c.Others), plan.MaxContenders)] {
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
