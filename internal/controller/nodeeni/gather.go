// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/selector"
)

// facts are what one reconciliation knows.
type facts struct {
	now time.Time
	// nodes are the selected Nodes.
	nodes []corev1.Node
	// objects are those of the NodeENI, those of its name that belong to a network among them.
	objects []v1alpha1.NetworkInterface
	// nodeENI, inFleet and instances are what package fleet decides from, and outcome what it decided.
	nodeENI   fleet.NodeENI
	inFleet   []fleet.Object
	instances []fleet.Instance
	outcome   fleet.Outcome
	// subnets and groups are the matches of the selectors, or why they could not be read.
	subnets               selector.SubnetMatch
	groups                selector.GroupMatch
	subnetsErr, groupsErr error
	// refused says which required reads EC2 refuses; empty for none.
	refused string
	// unlisted is set if the list of the cluster's interfaces is one of them.
	unlisted bool
	// unstored has the API server's reasons for refusing objects, by name.
	unstored map[string]string
	// owningNodes has, by name, the selected nodes whose instance belongs to another Node, with the name of that one.
	owningNodes map[string]string
	// refusals has the API server's reasons for refusing evictions, by the name of the object.
	refusals map[string]string
	// nextEviction is when to try evictions again; 0 for none.
	nextEviction time.Duration
	// attachments is the state of the NetworkAttachmentDefinitions.
	attachments attachments
	// floating has, by interface ID, why an address that a pod brought up is not where the pod is, or on which nodes pods
	// have it.
	floating map[string]string
}

func (f facts) resolved() bool {
	_, problems := f.groups.ForVPC("")
	return len(f.subnets.Unknown) == 0 && len(problems) == 0
}

// object returns the object of a name that package fleet decided about.
func (f facts) object(name string) *v1alpha1.NetworkInterface {
	at, _ := slices.BinarySearchFunc(f.objects, name, func(o v1alpha1.NetworkInterface, name string) int {
		return cmp.Compare(o.Name, name)
	})
	return &f.objects[at]
}

// gather reads the state of the fleet. It returns failed reads of selectors as a separate error, so that the report can
// be written before the error causes a retry.
func (r *Reconciler) gather(ctx context.Context, nodeENI *v1alpha1.NodeENI) (f facts, unreadable, err error) {
	f.now, f.refusals = r.Now(), map[string]string{}
	if f.nodes, err = r.selected(ctx, nodeENI); err != nil {
		return f, nil, err
	}
	objects, err := object.OfNodeENI(ctx, r.Client, nodeENI.Name)
	if err != nil {
		return f, nil, err
	}
	r.addObjects(&f, objects)
	if f.floating, err = r.floating(ctx, nodeENI, objects); err != nil {
		return f, nil, err
	}
	f.attachments.AttachmentResult, f.attachments.known = r.Attachments.Of(nodeENI.Name)
	f.unstored = r.RefusedWrites.OfNodeENI(nodeENI.Name)
	if err := r.addInstances(ctx, &f); err != nil {
		return f, nil, err
	}
	if err := r.addBusy(ctx, &f, nodeENI.Name); err != nil {
		return f, nil, err
	}
	if r.Refusals.CannotRead() {
		f.refused, f.unlisted = r.Refusals.Message(), r.Refusals.Refused("DescribeNetworkInterfaces")
	}
	unreadable, err = r.addNodeENI(ctx, &f, nodeENI)
	return f, unreadable, err
}

// addObjects adds the objects of the NodeENI. One that this process deleted counts as deleted before the cache says so.
func (r *Reconciler) addObjects(f *facts, objects []v1alpha1.NetworkInterface) {
	f.objects = objects
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, at := range r.deleted {
		if f.now.Sub(at) > deletedFor {
			delete(r.deleted, uid)
		}
	}
	f.inFleet = make([]fleet.Object, 0, len(objects))
	for n := range objects {
		converted := object.InFleet(&objects[n])
		if at, deleted := r.deleted[converted.UID]; deleted && !converted.Deleting {
			converted.Deleting, converted.DeletedAt = true, at
		}
		f.inFleet = append(f.inFleet, converted)
	}
}

// addNodeENI converts the NodeENI with the matches of its selectors.
func (r *Reconciler) addNodeENI(ctx context.Context, f *facts, nodeENI *v1alpha1.NodeENI) (unreadable, err error) {
	f.subnets, f.subnetsErr = r.Resolver.Subnets(ctx, controller.SubnetTerms(nodeENI.Spec))
	f.groups, f.groupsErr = r.Resolver.SecurityGroups(ctx, controller.GroupTerms(nodeENI.Spec))
	f.nodeENI = fleet.NodeENI{
		NodeENI: controller.NodeENI(nodeENI), Replace: nodeENI.Spec.UpdatePolicy == v1alpha1.UpdateReplace,
		MaxUnavailable: int(nodeENI.Spec.MaxUnavailable),
	}
	for _, t := range nodeENI.Status.Turns {
		f.nodeENI.Turns = append(f.nodeENI.Turns, fleet.Turn{InstanceID: t.InstanceID, Name: t.Name, UID: t.UID})
	}
	if f.nodeENI.FloatingOf, err = controller.FloatingOf(ctx, r.Client, nodeENI); err != nil {
		return nil, err
	}
	if f.subnetsErr == nil && f.groupsErr == nil {
		f.nodeENI.Found = &selector.Found{Subnets: f.subnets, Groups: f.groups}
		r.addVPCs(f)
	}
	return errors.Join(f.subnetsErr, f.groupsErr), nil
}

// addVPCs adds the VPCs of instances with an interface in a subnet that the NodeENI does not select. For all others the
// matches of the selectors say the VPC.
func (r *Reconciler) addVPCs(f *facts) {
	selected, vpcs := map[string]bool{}, map[string]string{}
	for _, s := range f.subnets.Subnets() {
		selected[s.ID] = true
	}
	for _, o := range f.inFleet {
		if o.ENIID == "" || selected[o.SubnetID] {
			continue
		}
		if i, known := r.Observer.Interface(o.ENIID); known {
			vpcs[o.Spec.InstanceID] = i.VPCID
		}
	}
	for n := range f.instances {
		f.instances[n].VPCID = vpcs[f.instances[n].ID]
	}
}

// selected lists the Nodes that a NodeENI selects. They are only read.
func (r *Reconciler) selected(ctx context.Context, nodeENI *v1alpha1.NodeENI) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	selector := client.MatchingLabelsSelector{Selector: controller.Selector(nodeENI.Spec)}
	err := r.Client.List(ctx, &nodes, selector, client.UnsafeDisableDeepCopy)
	return nodes.Items, err
}

// addInstances adds the instances of the selected Nodes, and the selected Nodes whose instance belongs to another Node.
func (r *Reconciler) addInstances(ctx context.Context, f *facts) error {
	f.owningNodes, f.instances = map[string]string{}, make([]fleet.Instance, 0, len(f.nodes))
	for _, node := range f.nodes {
		ref, err := eni.ServedInstance(node.Spec.ProviderID, node.Labels)
		if err != nil {
			continue
		}
		var same corev1.NodeList
		if err := r.Client.List(ctx, &same, controller.OfInstance(ref.ID), client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		if len(same.Items) == 0 { // the index of the cache is about to have it
			same.Items = []corev1.Node{node}
		}
		if owner := slices.MinFunc(same.Items, controller.CompareNodes); owner.Name != node.Name {
			f.owningNodes[node.Name] = owner.Name
			continue
		}
		f.instances = append(f.instances, fleet.Instance{ID: ref.ID, Zone: ref.Zone,
			Paused: slices.ContainsFunc(same.Items, func(n corev1.Node) bool { return controller.Paused(&n) })})
	}
	return nil
}

// isUndefined reports whether the kind of the objects is missing, regardless of the cache: if the kind was deleted, the
// cache does not learn of the end of the last objects.
func (r *Reconciler) isUndefined(ctx context.Context) bool {
	return controller.IsCRDMissing(r.Reader.List(ctx, &v1alpha1.NetworkInterfaceList{}, client.Limit(1)))
}

// hasObjects reports whether the API server itself has an object of a NodeENI.
func (r *Reconciler) hasObjects(ctx context.Context, nodeENI *v1alpha1.NodeENI) (bool, error) {
	var live v1alpha1.NetworkInterfaceList
	err := r.Reader.List(ctx, &live, client.MatchingLabels{v1alpha1.NodeENILabel: object.LabelOf(nodeENI.Name)})
	if controller.IsCRDMissing(err) {
		return false, nil // objects end with their kind
	}
	if err != nil {
		return false, fmt.Errorf("confirm that NodeENI %s has no objects: %w", nodeENI.Name, err)
	}
	return slices.ContainsFunc(live.Items, func(o v1alpha1.NetworkInterface) bool {
		return o.Spec.NodeENI.UID == nodeENI.UID
	}), nil
}
