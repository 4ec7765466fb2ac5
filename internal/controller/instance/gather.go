// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// gathered is what a plan for one instance is based on, besides EC2. It does not change.
type gathered struct {
	// objects are those of the instance, by name. The cache shares them.
	objects []v1alpha1.NetworkInterface
	// nodes are the Nodes that name the instance, the oldest first.
	nodes []corev1.Node
	// nodeENIs are those of the objects, as far as they exist, by name.
	nodeENIs map[string]*v1alpha1.NodeENI
	// awaitsTurn are the objects whose removal waits for its turn, and letGo those that end without a call.
	awaitsTurn, letGo map[identity.UID]bool
	// inherited are the objects that were in the first list of the process without an interface.
	inherited map[identity.UID]bool
	// assigned has, by interface, the addresses that follow pods.
	assigned map[string][]netip.Addr
	repairs  []plan.InPlaceUpdate
	// next is when to gather again if no event comes earlier; zero for none.
	next time.Time
}

// isEmpty reports whether nothing concerns the instance.
func (g *gathered) isEmpty() bool { return len(g.objects) == 0 && len(g.repairs) == 0 }

// object returns the object of a UID, nil for none.
func (g *gathered) object(uid identity.UID) *v1alpha1.NetworkInterface {
	n := slices.IndexFunc(g.objects, func(o v1alpha1.NetworkInterface) bool { return identity.UID(o.UID) == uid })
	if n < 0 {
		return nil
	}
	return &g.objects[n]
}

// paused reports whether a user paused a Node of the instance.
func (g *gathered) paused() bool {
	return slices.ContainsFunc(g.nodes, func(n corev1.Node) bool { return controller.Paused(&n) })
}

// gather reads everything that concerns an instance. It asks nothing of EC2.
func (r *Reconciler) gather(ctx context.Context, instanceID string) (*gathered, error) {
	g := &gathered{
		nodeENIs: map[string]*v1alpha1.NodeENI{}, awaitsTurn: map[identity.UID]bool{}, letGo: map[identity.UID]bool{},
		assigned: map[string][]netip.Addr{},
	}
	var err error
	if g.objects, err = object.OfInstance(ctx, r.Client, instanceID); err != nil {
		return nil, err
	}
	if g.nodes, err = r.nodesOf(ctx, instanceID); err != nil {
		return nil, err
	}
	if len(g.nodes) > 0 && !g.paused() {
		g.repairs = r.Repairs.Of(instanceID)
	}
	if len(g.nodes) == 0 && len(g.objects) > 0 {
		g.next = r.Now().Add(nodelessCheck)
	}
	for _, gather := range []func(context.Context, *gathered) error{
		r.gatherNodeENIs, r.gatherTurns, r.gatherLettingGo, r.gatherAddresses,
	} {
		if err := gather(ctx, g); err != nil {
			return nil, err
		}
	}
	uids := make([]identity.UID, len(g.objects))
	for n := range g.objects {
		uids[n] = identity.UID(g.objects[n].UID)
	}
	g.inherited = r.inherited(uids)
	return g, nil
}

// nodesOf returns the Nodes that name an instance, the oldest first.
func (r *Reconciler) nodesOf(ctx context.Context, instanceID string) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	err := r.Client.List(ctx, &nodes, controller.OfInstance(instanceID), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the nodes of instance %s: %w", instanceID, err)
	}
	slices.SortFunc(nodes.Items, controller.CompareNodes)
	return nodes.Items, nil
}

func (r *Reconciler) gatherNodeENIs(ctx context.Context, g *gathered) error {
	for n := range g.objects {
		name := g.objects[n].Spec.NodeENI.Name
		if _, known := g.nodeENIs[name]; known {
			continue
		}
		nodeENI, err := getNodeENI(ctx, r.Client, name)
		if err != nil {
			return err
		}
		g.nodeENIs[name] = nodeENI
	}
	return nil
}

// getNodeENI returns the NodeENI of a name, nil for none.
func getNodeENI(ctx context.Context, reader client.Reader, name string) (*v1alpha1.NodeENI, error) {
	var nodeENI v1alpha1.NodeENI
	if err := reader.Get(ctx, types.NamespacedName{Name: name}, &nodeENI); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read NodeENI %s: %w", name, err)
	}
	if nodeENI.UID == "" {
		return nil, nil
	}
	return &nodeENI, nil
}

// gatherTurns finds the objects whose removal waits for its turn. An object that is held waits anyway, and one of a
// network needs no turn.
func (r *Reconciler) gatherTurns(ctx context.Context, g *gathered) error {
	for n := range g.objects {
		o := &g.objects[n]
		if !o.Final() || o.Status.ENIID == "" || o.Spec.Origin != v1alpha1.OriginDeclared {
			continue
		}
		may, err := r.MayRemove(ctx, o)
		if err != nil {
			return fmt.Errorf("find whether %s has its turn: %w", o.Name, err)
		}
		if !may {
			g.awaitsTurn[identity.UID(o.UID)] = true
			g.next = sooner(g.next, r.Now().Add(turnCheck))
		}
	}
	return nil
}

// gatherAddresses finds the addresses that follow pods.
func (r *Reconciler) gatherAddresses(ctx context.Context, g *gathered) error {
	for n := range g.objects {
		id := g.objects[n].Status.ENIID
		if id == "" {
			continue
		}
		var all v1alpha1.FloatingAddressList
		if err := r.Client.List(ctx, &all, controller.AddressesOn(id), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the FloatingAddresses of %s: %w", id, err)
		}
		for a := range all.Items {
			last := all.Items[a].Status.Assignment
			address, err := netip.ParseAddr(all.Items[a].Spec.Address)
			if err == nil && last != nil && last.ENIID == id {
				g.assigned[id] = append(g.assigned[id], address)
			}
		}
	}
	return nil
}

// withRecorded adds the interfaces that objects record although their tags name another instance.
func (r *Reconciler) withRecorded(known []inventory.Record,
	objects []v1alpha1.NetworkInterface) []inventory.Record {
	for n := range objects {
		id := objects[n].Status.ENIID
		if id == "" || slices.ContainsFunc(known, func(k inventory.Record) bool { return k.ID == id }) {
			continue
		}
		if record, is := r.Observer.Record(id); is {
			known = append(known, record)
		}
	}
	return known
}

// inherit records, once, the objects without an interface: an earlier leader may have called EC2 for them.
func (r *Reconciler) inherit(ctx context.Context) error {
	r.mu.Lock()
	listed := r.state.Objects.Listed()
	r.mu.Unlock()
	if listed {
		return nil
	}
	all, err := object.All(ctx, r.Client)
	if err != nil {
		return err
	}
	var uids []identity.UID
	for n := range all {
		if all[n].Status.ENIID == "" {
			uids = append(uids, identity.UID(all[n].UID))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.state.Objects.Listed() {
		r.state.Objects.List(uids)
	}
	return nil
}

// checkUnattached returns why no interface may be created in the whole cluster, or "".
func (r *Reconciler) checkUnattached(ctx context.Context) string {
	n := r.unattached(ctx)
	r.mu.Lock()
	n += r.state.Creates.Count()
	r.creationBlocked = n >= r.MaxUnattached
	r.mu.Unlock()
	if n < r.MaxUnattached {
		return ""
	}
	return fmt.Sprintf("%d interfaces of the cluster are unattached, and none is created until there are "+
		"fewer than %d; see the events of their objects for the cause",
		n, r.MaxUnattached)
}

// unattached returns the number of unattached interfaces. Near the limit it leaves out those without an object: they
// are deleted as unowned, and their number does not grow.
func (r *Reconciler) unattached(ctx context.Context) int {
	n := r.Observer.Unattached(func(inventory.Record) bool { return true })
	if n < r.MaxUnattached {
		return n
	}
	objects, err := object.All(ctx, r.Client)
	if err != nil {
		return n
	}
	uids := map[identity.UID]bool{}
	for i := range objects {
		uids[identity.UID(objects[i].UID)] = true
	}
	return r.Observer.Unattached(func(i inventory.Record) bool { return uids[i.Tagged.UID] })
}

// beginCreates counts the creates among the calls as in flight until end, unless the cluster has too many unattached
// interfaces. It counts before it asks the observer: another instance's create that ends meanwhile is then in the
// count, in the inventory, or in both.
func (r *Reconciler) beginCreates(ctx context.Context, calls []plan.Call) (end func(), ok bool) {
	r.mu.Lock()
	creates, before := r.state.Creates.Begin(calls)
	r.mu.Unlock()
	end = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state.Creates.End(creates)
	}
	if creates > 0 && before+r.unattached(ctx) >= r.MaxUnattached {
		end()
		return nil, false
	}
	return end, true
}

// floatingOn returns the addresses on an interface that follow pods: those that were assigned for pods, and those
// within the ranges of the object.
func floatingOn(i *eni.Interface, assigned []netip.Addr, pods *v1alpha1.PodSettings) []netip.Addr {
	all := slices.Clone(assigned)
	if i == nil || pods == nil {
		return all
	}
	for _, text := range pods.Floating {
		within, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		for _, address := range i.SecondaryIPv4 {
			if within.Contains(address) && !slices.Contains(all, address) {
				all = append(all, address)
			}
		}
	}
	return all
}
