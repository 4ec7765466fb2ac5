// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// plan computes the plan for the instance of a run from what is known and the calls in flight.
func (r *Reconciler) plan(ctx context.Context, run *instanceRun, inFlight []plan.Action) (result, error) {
	s, instanceID, look := run.snapshot, run.instanceID, run.look
	known := r.Observer.Of(instanceID)
	observed, evidence, err := r.observe(ctx, s, instanceID, known, look)
	if err != nil {
		return result{}, err
	}
	observed.InFlight = inFlight
	declared, err := r.declare(ctx, s, instanceID, s.instanceRef(instanceID, known, look), known)
	if err != nil {
		return result{}, err
	}
	rendered := render.Interfaces(declared.Declared, evidence, observed, r.Now())
	rollout := fleet.Next(rendered.Desired, observed, r.Now())
	replace, err := r.acquireReplacement(ctx, s, instanceID, rollout.Candidate)
	if err != nil {
		return result{}, err
	}
	p := plan.Compute(rollout.Decide(rendered.Desired, replace), observed, r.Now())
	if instanceID == s.instance.ID {
		r.releaseReplacements(instanceID, rollout.Owners(p)...)
	}
	evict, err := r.acquireEviction(ctx, s, instanceID, fleet.EvictCandidate(p))
	if err != nil {
		return result{}, err
	}
	p = fleet.Evict(p, evict, r.evictions(instanceID), look != nil, r.Now())
	if replace.Denied != "" || evict.Denied != "" {
		p.RequeueAt = sooner(p.RequeueAt, r.Now().Add(replaceCheck))
	}
	p.RequeueAt = sooner(p.RequeueAt, r.reportsProveAt(s))
	for _, after := range r.recordLatency(s.name, instanceID, p.Members) {
		r.Attached(after)
	}
	return result{instanceID: instanceID, plan: p, read: look != nil, verified: rendered.Verified,
		unverified: rendered.Unverified, generations: declared.generations}, nil
}

// observe converts what is known about an instance: its state, and the evidence about its interfaces.
func (r *Reconciler) observe(
	ctx context.Context, s *snapshot, instanceID string, known observer.NodeInventory, look *eni.InstanceSnapshot,
) (plan.Observed, render.Evidence, error) {
	attempts, fullSubnets := r.attempts(instanceID)
	observed := plan.Observed{
		NodeRegistered: s.present(instanceID), Owned: known.Owned, UsedGenerations: known.UsedGenerations,
		RemovedExternally: known.RemovedExternally,
		MissingSince:      known.MissingSince, Snapshot: look, Ledger: s.ledger(instanceID), Attempts: attempts.Attempts,
		CreationBlocked: r.checkUnattached(s), Era: r.Era(), FullSubnets: fullSubnets,
		Launched: known.Launched,
	}
	states, err := r.statesOf(ctx, s, instanceID)
	if err != nil {
		return observed, render.Evidence{}, err
	}
	evidence := s.evidence(states, instanceID)
	if observed.Stored, err = r.stored(ctx, s, states, instanceID, known); err != nil {
		return observed, evidence, err
	}
	if look == nil || look.Instance.Type == "" {
		return observed, evidence, nil
	}
	observed.Limits, err = r.Limiter.Limits(ctx, look.Instance.Type)
	return observed, evidence, err
}

// declared is what the NodeENIs request for one instance.
type declared struct {
	render.Declared
	// generations are those of the NodeENIs that the plan of the node's own instance is based on.
	generations map[types.UID]int64
}

// declare returns what is declared for one instance of the node.
func (r *Reconciler) declare(ctx context.Context, s *snapshot, instanceID string, at selector.Location,
	known observer.NodeInventory) (declared, error) {
	present := s.present(instanceID)
	d := declared{generations: map[types.UID]int64{}, Declared: render.Declared{
		Cluster: r.Cluster, Node: s.name, InstanceID: instanceID, InstanceTags: r.InstanceTags, NodeAbsent: !present,
		Paused: s.paused(),
	}}
	if present && !s.paused() {
		d.InPlaceUpdates = r.Repairs.Of(instanceID)
	}
	for n := range s.nodeENIs {
		claim, err := r.claim(ctx, s, &s.nodeENIs[n], present, at)
		if err != nil {
			return declared{}, err
		}
		d.Claims = append(d.Claims, claim)
		if present {
			d.generations[s.nodeENIs[n].UID] = s.nodeENIs[n].Generation
		}
	}
	d.Claims = append(d.Claims, r.leaks(s, known)...)
	return d, nil
}

// leaks releases the interfaces whose NodeENI is confirmed not to exist.
func (r *Reconciler) leaks(s *snapshot, known observer.NodeInventory) []render.Claim {
	var claims []render.Claim
	for _, record := range known.Owned {
		m := record.Member
		listed := slices.ContainsFunc(claims, func(c render.Claim) bool { return c.Owner == m.Owner })
		absence, gone := r.GC.Gone(m.Owner)
		if listed || s.nodeENI(m.Owner) != nil || !gone {
			continue
		}
		claim := render.Claim{NodeENI: m.NodeENI, Owner: m.Owner, Leaked: true, MissingSince: absence.Since,
			Grace: absence.Grace}
		claim.Mode, claim.Why = render.ModeFor(render.SelectionFacts{NodeENIGone: true, NodePaused: s.paused()})
		claims = append(claims, claim)
	}
	return claims
}

// claim returns the claim of one NodeENI. It resolves the selectors only where the NodeENI may create interfaces now,
// or after a pause.
func (r *Reconciler) claim(ctx context.Context, s *snapshot, nodeENI *v1alpha1.NodeENI, present bool,
	at selector.Location) (render.Claim, error) {
	claim := controller.NewClaim(nodeENI)
	circumstances := render.SelectionFacts{
		NodeENIKnown: true, NodeENIDeleting: !nodeENI.DeletionTimestamp.IsZero(),
		NodePresent: present, Selected: present && selects(nodeENI, s.node.Labels),
		DuplicateSelected: slices.ContainsFunc(s.duplicateNodes, func(n corev1.Node) bool {
			return selects(nodeENI, n.Labels)
		}),
		NodeENIPaused: controller.Paused(nodeENI), NodePaused: s.paused(),
	}
	claim.Selects = circumstances.Selected
	claim.Mode, claim.Why = render.ModeFor(circumstances)
	if unpaused, _ := render.ModeFor(circumstances.Unpaused()); unpaused != render.Ensure {
		return claim, nil
	}
	subnets, err := r.Resolver.Subnets(ctx, controller.SubnetTerms(nodeENI.Spec))
	if err != nil {
		return claim, fmt.Errorf("resolve the subnets of NodeENI %s: %w", nodeENI.Name, err)
	}
	groups, err := r.Resolver.SecurityGroups(ctx, controller.GroupTerms(nodeENI.Spec))
	if err != nil {
		return claim, fmt.Errorf("resolve the security groups of NodeENI %s: %w", nodeENI.Name, err)
	}
	controller.ResolveClaim(&claim, nodeENI.Spec, selector.Found{Subnets: subnets, Groups: groups}, at)
	return claim, nil
}

// readFormerSubnets returns a snapshot with the subnets of interfaces whose NodeENI no longer selects those subnets:
// the agents need the ranges for as long as pods use the interfaces.
func (r *Reconciler) readFormerSubnets(ctx context.Context, s *snapshot, results []result) (*snapshot, error) {
	subnets := map[string]eni.Subnet{}
	for _, id := range s.formerSubnetIDs(results) {
		match, err := r.Resolver.Subnets(ctx, selector.SubnetTerms{IDs: []string{id}})
		if err != nil {
			return s, fmt.Errorf("read subnet %s of interfaces of node %s: %w", id, s.name, err)
		}
		for _, subnet := range match.Subnets() {
			subnets[subnet.ID] = subnet
		}
	}
	return s.withFormerSubnets(subnets), nil
}

// acquireReplacement asks for the permission to replace a live interface of the owner, if any: whether the rollout has
// reached the instance. If not, the permission says what the node waits for; the text changes only if that does. An
// instance keeps its permission for a NodeENI until the plan of its Node lacks nothing of that NodeENI, or until no
// Node and no NodeENIState names the instance.
func (r *Reconciler) acquireReplacement(ctx context.Context, s *snapshot, instanceID string,
	owner identity.Owner) (fleet.Permission, error) {
	nodeENI := s.nodeENI(owner)
	if nodeENI == nil {
		return fleet.Permission{}, nil
	}
	limit := int(max(1, nodeENI.Spec.MaxUnavailable))
	// The instance itself may be in the list, and an instance with a new name has two NodeENIStates. Therefore twice the
	// limit plus one is enough.
	unavailable, err := r.states(ctx, controller.StatesNotReady(nodeENI.UID), client.Limit(2*(int64(limit)+1)))
	if err != nil {
		return fleet.Permission{}, err
	}
	if err := r.releaseUnknown(ctx, string(owner)); err != nil {
		return fleet.Permission{}, err
	}
	if r.mayReplace(string(owner), instanceID, limit, instancesOf(unavailable)) {
		return fleet.Permission{Granted: true}, nil
	}
	return fleet.Permission{Denied: fmt.Sprintf("it is the node's turn: no more than %d at a time (maxUnavailable) "+
		"are without an interface of NodeENI %s", limit, nodeENI.Name)}, nil
}

// releaseUnknown ends the permissions to replace of instances that no Node and no NodeENIState names any more: no later
// plan ends them.
func (r *Reconciler) releaseUnknown(ctx context.Context, nodeENIUID string) error {
	for _, id := range r.replacing(nodeENIUID) {
		nodes, err := r.nodesOf(ctx, id)
		if err != nil {
			return err
		}
		states, err := r.states(ctx, controller.OfInstance(id))
		if err != nil {
			return err
		}
		if len(nodes) == 0 && len(states) == 0 {
			r.releaseReplacements(id)
		}
	}
	return nil
}

// instancesOf returns the instance that each status describes. The node name can belong to another instance by now.
func instancesOf(states []v1alpha1.NodeENIState) []string {
	ids := make([]string, len(states))
	for n := range states {
		ids[n] = cmp.Or(states[n].Status.InstanceID, states[n].Spec.InstanceID)
	}
	return ids
}

// checkUnattached returns why no interface may be created in the whole cluster, or "". Leaks do not count: garbage
// collection removes them, and their number does not grow.
func (r *Reconciler) checkUnattached(s *snapshot) string {
	n := r.unattached(s)
	r.mu.Lock()
	n += r.state.Creates.Count()
	r.creationBlocked = n >= r.MaxUnattached
	r.mu.Unlock()
	if n < r.MaxUnattached {
		return ""
	}
	return fmt.Sprintf("%d interfaces of the cluster are unattached, and none is created until there are "+
		"fewer than %d; see the events of their nodes for the cause",
		n, r.MaxUnattached)
}

func (r *Reconciler) unattached(s *snapshot) int {
	return r.Observer.Unattached(func(owner identity.Owner) bool { return s.nodeENI(owner) != nil })
}

// beginCreates counts the creates among the actions as in flight until end, unless the cluster has too many unattached
// interfaces. It counts before it asks the observer: another node's create that ends meanwhile is then in the count, in
// the inventory, or in both.
func (r *Reconciler) beginCreates(s *snapshot, actions []plan.Action) (end func(), ok bool) {
	r.mu.Lock()
	creates, before := r.state.Creates.Begin(actions)
	r.mu.Unlock()
	end = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state.Creates.End(creates)
	}
	if creates > 0 && before+r.unattached(s) >= r.MaxUnattached {
		end()
		return nil, false
	}
	return end, true
}

// statesOf returns the NodeENIStates of an instance, under any name of the instance. That of the node is the last.
func (r *Reconciler) statesOf(ctx context.Context, s *snapshot, instanceID string) ([]v1alpha1.NodeENIState, error) {
	states, err := r.states(ctx, controller.OfInstance(instanceID))
	if err != nil {
		return nil, err
	}
	states = slices.DeleteFunc(slices.Clone(states), func(other v1alpha1.NodeENIState) bool {
		return other.Name == s.name
	})
	if s.state != nil { // it may be newer than the cache
		states = append(states, *s.state)
	}
	return states, nil
}

// evidence returns what NodeENIStates say about an instance's interfaces.
func (s *snapshot) evidence(states []v1alpha1.NodeENIState, instanceID string) render.Evidence {
	e := render.Evidence{
		OtherLedgers: identity.Generations{}, HasState: len(states) > 0, Copies: map[string]bool{},
	}
	for n := range states {
		e.Recorded = append(e.Recorded, recorded(&states[n], instanceID)...)
		for _, u := range states[n].Status.Unverified {
			e.Copies[u.ENIID] = u.Copy
		}
		if states[n].Name == s.name {
			continue
		}
		for key, generation := range generations(ledgerOf(states[n].Spec, instanceID)) {
			e.OtherLedgers[key] = max(e.OtherLedgers[key], generation)
		}
	}
	return e
}

// recorded returns the interfaces that a state lists for members.
func recorded(state *v1alpha1.NodeENIState, instanceID string) []render.Recorded {
	var all []render.Recorded
	for _, i := range state.Status.Interfaces {
		if i.ENIID != "" && !i.Unverified {
			all = append(all, render.Recorded{
				ID: i.ENIID, Key: identity.Key{Owner: identity.Owner(i.NodeENIUID), Ordinal: int(i.Ordinal)},
				Generation: identity.Generation(i.Generation),
				Attached:   i.InstanceID == instanceID && i.AttachmentID != "",
			})
		}
	}
	return all
}

// judged reports to the observer which interfaces are verified and which are not, and emits Events for those that
// became unverified. Only the store of the ledger shows that what the cache said about the state of the node is true:
// call judged after it.
func (r *Reconciler) judged(s *snapshot, one result) {
	denied := make([]string, len(one.unverified))
	for n, u := range one.unverified {
		denied[n] = u.ID
	}
	newly := r.Observer.Judged(r.Now(), one.instanceID, one.verified, denied)
	var all []nodeEvent
	for _, u := range one.unverified {
		if slices.Contains(newly, u.ID) {
			r.Log.Warn("an interface is left alone", "node", s.name, "nodeeni", u.Member.NodeENI, "interface", u.ID,
				"why", u.Message)
			o := outcome{corev1.EventTypeWarning, v1alpha1.ReasonUnverified, "Plan"}
			all = append(all, nodeEvent{o, u.Member.NodeENI, clip(u.Message, 1000), u.ID})
		}
	}
	r.emit(s, all)
}
