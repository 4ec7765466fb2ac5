// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// store writes what the plan needs in the ledger of an instance before its calls. A previous instance of the node keeps
// its ledger until that is empty, although nothing more is created for it: the last created interface may not be
// visible yet, and without the ledger its NodeENI could be deleted before the interface.
func (r *Reconciler) store(ctx context.Context, s *snapshot, instanceID string, look *eni.InstanceSnapshot,
	p plan.Plan) (*snapshot, error) {
	if s.state == nil && (instanceID != s.owner() || len(p.Members) == 0) {
		return s, nil
	}
	wanted, recreated := s.spec(instanceID, look, p), false
	earlier, err := r.earlierInterfaces(ctx, s, instanceID, p)
	if err != nil {
		return s, err
	}
	addEarlier(&wanted, earlier...)
	wanted.EarlierInterfaces = slices.DeleteFunc(wanted.EarlierInterfaces, func(id string) bool {
		return r.provedUnused(s, id)
	})
	if s.state != nil && !s.state.DeletionTimestamp.IsZero() && len(p.Members) > 0 && len(wanted.PreviousInstances) == 0 &&
		!addsGenerations(p) {
		// A user deleted the object while the node still needs it. It is released and created again at once, but not while
		// only it names an interface: a reader of the release must not conclude that the interface is gone.
		if _, err := r.release(ctx, s); err != nil {
			return s, err
		}
		recreated = true
		addEarlier(&wanted, s.openNetworks()...)
	}
	if s.state == nil || recreated {
		next, err := r.createState(ctx, s, wanted)
		return r.proceedWithoutState(next, p, err)
	}
	if next, is := s.deferLedger(wanted); is {
		return next, nil
	}
	next, err := r.patchLedger(ctx, s, wanted)
	return r.proceedWithoutState(next, p, err)
}

// deferLedger returns a snapshot with a ledger that needs no write now: nothing changed, or members only go.
func (s *snapshot) deferLedger(wanted v1alpha1.NodeENIStateSpec) (next *snapshot, is bool) {
	switch {
	case needsFinalizer(s.state, wanted):
		return nil, false
	case equality.Semantic.DeepEqual(s.state.Spec, wanted):
		return s.withLedger(s.state, nil), true
	case shrinks(s.state.Spec, wanted):
		return s.withLedger(s.state, &wanted), true
	default:
		return nil, false
	}
}

// needsFinalizer reports whether a ledger has members and no finalizer, so that a deletion of the state would lose them
// at once. A leader removed the finalizer of the empty ledger and did not delete the state.
func needsFinalizer(state *v1alpha1.NodeENIState, wanted v1alpha1.NodeENIStateSpec) bool {
	return len(wanted.Members)+len(wanted.PreviousInstances) > 0 && state.DeletionTimestamp.IsZero() &&
		!controllerutil.ContainsFinalizer(state, v1alpha1.Finalizer)
}

// patchLedger returns a snapshot with the ledger as stored, or the given one with an error.
func (r *Reconciler) patchLedger(ctx context.Context, s *snapshot,
	wanted v1alpha1.NodeENIStateSpec) (*snapshot, error) {
	if err := r.confirmReliedOn(ctx, s); err != nil {
		return s, err
	}
	after := s.state.DeepCopy()
	after.Spec = wanted
	if needsFinalizer(s.state, wanted) {
		controllerutil.AddFinalizer(after, v1alpha1.Finalizer)
	}
	// With the lock, a write based on a stale read fails: two generations for one member must never be stored.
	patch := client.MergeFromWithOptions(s.state, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return s, fmt.Errorf("store the ledger of node %s: %w", s.name, err)
	}
	return s.withLedger(after, nil), nil
}

// confirmReliedOn writes the states whose ledgers replace entries of this one, over the versions that were read. Two
// leaders could otherwise each remove entries because of the other ledger: a former leader that resumes after minutes
// writes over an unchanged version of this ledger, and now gets a conflict.
func (r *Reconciler) confirmReliedOn(ctx context.Context, s *snapshot) error {
	for _, other := range s.reliedOn {
		before := other.DeepCopy()
		metav1.SetMetaDataAnnotation(&other.ObjectMeta, v1alpha1.EvidenceAnnotation,
			s.name+" "+r.Now().UTC().Format(time.RFC3339Nano))
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, other, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
			return fmt.Errorf("confirm the ledger of node %s, which has members of node %s: %w", other.Name, s.name, err)
		}
	}
	return nil
}

// addsGenerations reports whether a plan's ledger names interfaces that are not known to exist.
func addsGenerations(p plan.Plan) bool {
	known := 0
	for _, m := range p.Members {
		if _, promised := p.Ledger[m.Key]; promised && m.Interface != nil {
			known++
		}
	}
	return known < len(p.Ledger)
}

// proceedWithoutState ignores an error of the ledger when its CustomResourceDefinition is deleted or being deleted, and
// the plan only removes: a user is uninstalling multieni in another order. The rest of the state is useless then.
func (r *Reconciler) proceedWithoutState(s *snapshot, p plan.Plan, err error) (*snapshot, error) {
	if !controller.IsCRDMissing(err) || slices.ContainsFunc(p.Actions, needsLedger) {
		return s, err
	}
	r.Log.Warn("NodeENIState is not defined any more; interfaces are removed without a ledger", "node", s.name)
	return s.withLedger(nil, nil), nil
}

// needsLedger reports whether a restart would lose an action without a ledger. Removals need none: EC2 returns what is
// left.
func needsLedger(action plan.Action) bool {
	switch action.(type) {
	case plan.Detach, plan.Delete:
		return false
	default:
		return true
	}
}

// spec returns the spec of the state with the ledger of one instance from the plan.
func (s *snapshot) spec(instanceID string, look *eni.InstanceSnapshot, p plan.Plan) v1alpha1.NodeENIStateSpec {
	var spec v1alpha1.NodeENIStateSpec
	switch {
	case s.deferredSpec != nil:
		spec = *s.deferredSpec.DeepCopy()
	case s.state != nil:
		spec = *s.state.Spec.DeepCopy()
	}
	members := membersFromPlan(ledgerOf(spec, instanceID), p)
	if instanceID == s.owner() {
		switchInstance(&spec, instanceID)
		if s.node != nil {
			spec.Zone, spec.NodeUID = s.instance.Zone, s.node.UID
			spec.InstanceType = cmp.Or(spec.InstanceType, s.node.Labels[corev1.LabelInstanceTypeStable])
		}
		if look != nil {
			spec.InstanceType = cmp.Or(look.Instance.Type, spec.InstanceType)
		}
	}
	setLedger(&spec, instanceID, members)
	return spec
}

// membersFromPlan returns the members of a plan's ledger. The NodeENI names come from the stored ledger or, for owners
// that it does not have, from the plan.
func membersFromPlan(before []v1alpha1.Member, p plan.Plan) []v1alpha1.Member {
	names := map[identity.Owner]string{}
	for _, m := range p.Members {
		names[m.Owner] = m.NodeENI
	}
	for _, m := range before {
		names[identity.Owner(m.NodeENIUID)] = m.NodeENI
	}
	var members []v1alpha1.Member
	for _, key := range slices.SortedFunc(maps.Keys(p.Ledger), func(a, b identity.Key) int { return a.Compare(b) }) {
		members = append(members, v1alpha1.Member{
			NodeENI: names[key.Owner], NodeENIUID: types.UID(key.Owner),
			Ordinal: int32(key.Ordinal), Generation: int64(p.Ledger[key]),
		})
	}
	return members
}

// earlierInterfaces returns the interfaces of members that a plan adds to the ledger of an instance, or has when it
// creates the state, although they exist: the ledger names a new interface before it exists. A launch interface exists
// before any ledger, and its tags name no NodeENI: another one can have adopted it before. If the instance was another
// node before, the state of that node is evidence that an interface was no network for pods. It is read past the cache,
// which can lack it.
func (r *Reconciler) earlierInterfaces(ctx context.Context, s *snapshot, instanceID string,
	p plan.Plan) (ids []string, err error) {
	if s.state == nil {
		ids = r.launchInterfaces(instanceID)
	}
	ledger := s.ledger(instanceID)
	for _, m := range p.Members {
		_, named := ledger[m.Key]
		_, enters := p.Ledger[m.Key]
		if named || m.Interface == nil || m.Owner.IsNetwork() || s.state != nil && !enters {
			continue
		}
		tagged, verdict := identity.Read(m.Cluster, m.Interface.Tags)
		switch {
		case verdict == identity.Launched:
			ids = append(ids, m.Interface.ID)
			continue
		case s.neverHadPods[m.Owner], tagged.Key != m.Key: // no pod used it, or it is being adopted
			continue
		}
		var former *v1alpha1.NodeENIState
		if tagged.Node != s.name {
			former, err = readState(ctx, r.Reader, tagged.Node)
			if err != nil && !controller.IsCRDMissing(err) {
				return nil, fmt.Errorf("read the ledger of node %s, which had instance %s before: %w", tagged.Node, instanceID, err)
			}
		}
		if former == nil || !knowsWithoutPods(former, instanceID, m) {
			ids = append(ids, m.Interface.ID)
		}
	}
	return ids, nil
}

// launchInterfaces returns the launch interfaces of an instance, except the primary one.
func (r *Reconciler) launchInterfaces(instanceID string) (ids []string) {
	for _, i := range r.Observer.Of(instanceID).Launched {
		if i.AttachedTo(instanceID) && i.Attachment.Slot != eni.Primary {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// neverDeclaredPods reports whether a NodeENI has declared no network for pods since it was created. The API server
// counts changes of a spec in the generation, and a deletion as one.
func neverDeclaredPods(nodeENI *v1alpha1.NodeENI) bool {
	changes := nodeENI.Generation - 1
	if !nodeENI.DeletionTimestamp.IsZero() {
		changes--
	}
	return nodeENI.Spec.Pods == nil && changes <= 0
}

// knowsWithoutPods reports whether a state has known an interface since its creation, and not as a network for pods.
func knowsWithoutPods(state *v1alpha1.NodeENIState, instanceID string, m plan.Member) bool {
	generation, named := generations(ledgerOf(state.Spec, instanceID))[m.Key]
	_, listed := controller.ListedNetworks(state)[m.Interface.ID]
	_, reported := controller.PodNetworks(state, instanceID)[m.Interface.ID]
	return named && generation == m.Generation && !listed && !reported &&
		!slices.Contains(state.Spec.EarlierInterfaces, m.Interface.ID)
}

// addEarlier adds interfaces whose reports may be lost. If there are too many, the first ones go: interfaces end, and
// only the last ones can have a report that is still missing.
func addEarlier(spec *v1alpha1.NodeENIStateSpec, ids ...string) {
	for _, id := range ids {
		if !slices.Contains(spec.EarlierInterfaces, id) {
			spec.EarlierInterfaces = append(spec.EarlierInterfaces, id)
		}
	}
	surplus := max(0, len(spec.EarlierInterfaces)-v1alpha1.MaxInterfaces)
	spec.EarlierInterfaces = spec.EarlierInterfaces[surplus:]
}

// switchInstance makes an instance the node's own. The ledger of the previous one stays.
func switchInstance(spec *v1alpha1.NodeENIStateSpec, instanceID string) {
	if spec.InstanceID == instanceID {
		return
	}
	before, ledger := *spec, ledgerOf(*spec, instanceID)
	*spec = v1alpha1.NodeENIStateSpec{InstanceID: instanceID, Members: ledger,
		PreviousInstances: without(before.PreviousInstances, instanceID), EarlierInterfaces: before.EarlierInterfaces}
	if before.InstanceID != "" {
		setLedger(spec, before.InstanceID, before.Members)
	}
}

// setLedger sets the ledger of an instance. It removes a previous instance whose ledger is empty.
func setLedger(spec *v1alpha1.NodeENIStateSpec, instanceID string, members []v1alpha1.Member) {
	if spec.InstanceID == instanceID {
		spec.Members = members
		return
	}
	spec.PreviousInstances = without(spec.PreviousInstances, instanceID)
	if len(members) > 0 {
		spec.PreviousInstances = append(spec.PreviousInstances,
			v1alpha1.PreviousInstance{InstanceID: instanceID, Members: members})
		slices.SortFunc(spec.PreviousInstances, func(a, b v1alpha1.PreviousInstance) int {
			return cmp.Compare(a.InstanceID, b.InstanceID)
		})
	}
}

func without(previous []v1alpha1.PreviousInstance, instanceID string) []v1alpha1.PreviousInstance {
	return slices.DeleteFunc(slices.Clone(previous), func(f v1alpha1.PreviousInstance) bool {
		return f.InstanceID == instanceID
	})
}

// createState creates the state of a node. The interfaces of a deleted state remain valid until the next status: pods
// may use an interface that no NodeENI declares as their network any more.
func (r *Reconciler) createState(ctx context.Context, s *snapshot, spec v1alpha1.NodeENIStateSpec) (*snapshot, error) {
	state := &v1alpha1.NodeENIState{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       spec,
	}
	if err := r.Client.Create(ctx, state, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return s.withLedger(nil, nil), fmt.Errorf("open the ledger of node %s: %w", s.name, err)
	}
	if s.state != nil {
		state.Status.Interfaces = s.state.Status.Interfaces
	}
	return s.withLedger(state, nil), nil
}

// release removes the finalizer of the state and deletes it. The ledger is empty, and EC2 has none of its interfaces
// any more. release reports whether the state existed: the cache may still have a deleted one. The deletion names the
// version without the finalizer: between the two writes another leader may have added members to the ledger.
func (r *Reconciler) release(ctx context.Context, s *snapshot) (bool, error) {
	if err := r.confirmReliedOn(ctx, s); err != nil {
		return false, err
	}
	after := s.state.DeepCopy()
	after.Spec.Members, after.Spec.PreviousInstances = nil, nil
	controllerutil.RemoveFinalizer(after, v1alpha1.Finalizer)
	// With the lock, the patch fails if the ledger has more members than the stale read.
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(s.state, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("release the NodeENIState of node %s: %w", s.name, err)
	}
	released := err == nil
	if released && s.state.DeletionTimestamp.IsZero() {
		version := client.Preconditions{UID: &s.state.UID, ResourceVersion: &after.ResourceVersion}
		if err := r.Client.Delete(ctx, after, version); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete the NodeENIState of node %s: %w", s.name, err)
		}
	}
	return released, nil
}

// shrinks reports whether the only changes to a ledger are removals.
func shrinks(from, to v1alpha1.NodeENIStateSpec) bool {
	kept := func(id string, members []v1alpha1.Member) bool {
		before := ledgerOf(from, id)
		return !slices.ContainsFunc(members, func(m v1alpha1.Member) bool { return !slices.Contains(before, m) })
	}
	for _, previous := range to.PreviousInstances {
		if !kept(previous.InstanceID, previous.Members) {
			return false
		}
	}
	if !kept(to.InstanceID, to.Members) {
		return false
	}
	from.Members, from.PreviousInstances, to.Members, to.PreviousInstances = nil, nil, nil, nil
	return equality.Semantic.DeepEqual(from, to)
}
