// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/floating"
)

// decision is a step for one address, with what it was based on.
type decision struct {
	object  *v1alpha1.FloatingAddress
	address floating.Address
	memory  floating.Memory
	step    floating.Step
	// instanceID is the instance whose addresses the step changes, and siblings are its interfaces.
	instanceID string
	siblings   []string
	// places are the instances whose interfaces have the address, or may have it.
	places []string
}

// decide returns the step for an address.
func (r *Reconciler) decide(ctx context.Context, object *v1alpha1.FloatingAddress) (*decision, error) {
	d := &decision{object: object, address: addressOf(object)}
	r.mu.Lock()
	r.inherit(d)
	r.mu.Unlock()
	facts, err := r.gather(ctx, d)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d.step, d.memory = floating.Next(d.address, facts, r.remember(object), r.Now())
	r.memories[object.Name] = memory{object.UID, d.memory}
	return d, nil
}

// addressOf converts an object.
func addressOf(object *v1alpha1.FloatingAddress) floating.Address {
	ip, _ := netip.ParseAddr(object.Spec.Address) // the definition has its form
	a := floating.Address{IP: ip, SubnetID: object.Spec.SubnetID, Sequence: object.Status.Sequence,
		Holder: holderOf(object.Status.Holder), Contender: holderOf(object.Status.Contender),
		Deleting: !object.DeletionTimestamp.IsZero()}
	if last := object.Status.Assignment; last != nil {
		a.Assignment = &floating.Assignment{InterfaceID: last.ENIID, Sequence: last.Sequence, Found: last.Found}
	}
	return a
}

func holderOf(holder *v1alpha1.AddressHolder) *floating.Holder {
	if holder == nil {
		return nil
	}
	return &floating.Holder{Node: holder.NodeName, InterfaceID: holder.ENIID, Pod: cmp.Or(holder.Pod, holder.PodIP)}
}

// gather returns what is known about an address. It sets the instance of the decision: that of the holder or, without
// one, that of the interface which has the address.
func (r *Reconciler) gather(ctx context.Context, d *decision) (floating.Facts, error) {
	f := floating.Facts{At: r.Observer.WithAddress(d.address.SubnetID, d.address.IP), Era: r.Era()}
	on := slices.Clone(f.At)
	if d.address.Assignment != nil {
		on = append(on, d.address.Assignment.InterfaceID)
	}
	if err := r.addHolder(ctx, d, &f); err != nil {
		return f, err
	}
	for _, id := range on {
		if err := r.addPlace(ctx, d, &f, id); err != nil {
			return f, err
		}
	}
	return f, nil
}

// addPlace adds an interface that has the address, or may have it. Without a holder the change concerns this interface.
func (r *Reconciler) addPlace(ctx context.Context, d *decision, f *floating.Facts, id string) error {
	known, exists := r.Observer.Find(id)
	if !exists {
		return nil
	}
	if known.Attachment != nil {
		d.places = append(d.places, known.Attachment.InstanceID)
	}
	if f.ReadAt.IsZero() || known.LastRead.Before(f.ReadAt) {
		f.ReadAt = known.LastRead
		f.Unread = f.Unread || known.LastRead.IsZero()
	}
	if f.Interface != nil {
		return nil
	}
	d.siblings = append(d.siblings, id)
	if d.instanceID == "" && known.Attachment != nil {
		d.instanceID = known.Attachment.InstanceID
	}
	objects, err := object.OfENI(ctx, r.Client, id)
	if err != nil {
		return err
	}
	node, nodeENI := known.Tagged.Node, known.Tagged.NodeENI
	if len(objects) > 0 {
		node, nodeENI = objects[0].Spec.NodeName, objects[0].Spec.NodeENI.Name
		d.instanceID = cmp.Or(d.instanceID, objects[0].Spec.InstanceID)
	}
	d.instanceID = cmp.Or(d.instanceID, known.Tagged.InstanceID)
	paused, err := r.paused(ctx, d.instanceID, node, nodeENI)
	f.Paused = f.Paused || paused
	return err
}

// addHolder adds the interface of the holder, if an object says that the holder's node has it. Agents can write to the
// addresses, and only the controller writes that part of an object. An interface that EC2 is still attaching can serve
// pods: its link comes first.
func (r *Reconciler) addHolder(ctx context.Context, d *decision, f *floating.Facts) error {
	holder := d.address.Holder
	if holder == nil {
		return nil
	}
	objects, err := object.OfENI(ctx, r.Client, holder.InterfaceID)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(objects, func(o v1alpha1.NetworkInterface) bool {
		return o.Spec.NodeName == holder.Node
	})
	known, exists := r.Observer.Interface(holder.InterfaceID)
	if at < 0 || !exists || !known.AttachedTo(objects[at].Spec.InstanceID) {
		return nil
	}
	o := &objects[at]
	if leaves(object.PhaseOf(o)) || known.Attachment.Status == eni.AttachmentDetaching {
		f.Leaves = true
		return nil
	}
	d.instanceID = o.Spec.InstanceID
	if err := r.addSiblings(ctx, d); err != nil {
		return err
	}
	f.Interface = &floating.Interface{ID: o.Status.ENIID, SubnetID: o.Status.SubnetID,
		Ranges: controller.FloatingRanges(o.Spec.Pods), Prefixes: known.IPv4Prefixes, Room: -1}
	for _, subnet := range o.Spec.Subnets {
		if subnet.ID == o.Status.SubnetID {
			f.Interface.Subnet, _ = netip.ParsePrefix(subnet.CIDR) // invalid for an IPv6-only subnet
		}
	}
	if f.Interface.InstanceType, err = r.instanceType(ctx, d.instanceID); err != nil {
		return err
	}
	if f.Paused, err = r.paused(ctx, d.instanceID, holder.Node, o.Spec.NodeENI.Name); err != nil {
		return err
	}
	if slices.Contains(known.SecondaryIPv4, d.address.IP) {
		return nil
	}
	return r.addRoom(ctx, d, f.Interface, known)
}

// leaves reports whether an interface in the phase leaves its node.
func leaves(phase v1alpha1.Phase) bool {
	return phase == v1alpha1.PhaseDetaching || phase == v1alpha1.PhaseDeleting
}

// addSiblings adds the interfaces of the instance.
func (r *Reconciler) addSiblings(ctx context.Context, d *decision) error {
	objects, err := object.OfInstance(ctx, r.Client, d.instanceID)
	for n := range objects {
		if id := objects[n].Status.ENIID; id != "" {
			d.siblings = append(d.siblings, id)
		}
	}
	return err
}

// instanceType returns the instance type that a Node of the instance names; empty if there is none.
func (r *Reconciler) instanceType(ctx context.Context, instanceID string) (string, error) {
	var registered corev1.NodeList
	if err := r.Client.List(ctx, &registered, controller.OfInstance(instanceID)); err != nil {
		return "", err
	}
	for n := range registered.Items {
		if t := registered.Items[n].Labels[corev1.LabelInstanceTypeStable]; t != "" {
			return t, nil
		}
	}
	return "", nil
}

// addRoom adds how many further addresses the interface takes, and how many others wait for them. The oldest come
// first, so that a new one takes nothing from the pods of the same node.
func (r *Reconciler) addRoom(ctx context.Context, d *decision, i *floating.Interface, known eni.Interface) error {
	if i.InstanceType == "" {
		return nil
	}
	limits, err := r.Limiter.Limits(ctx, i.InstanceType)
	if err != nil {
		return err
	}
	if limits.IPv4 == 0 {
		return nil
	}
	i.Room = max(0, limits.IPv4-1-len(known.SecondaryIPv4)-len(known.IPv4Prefixes))
	others, err := r.on(ctx, i.ID)
	if err != nil {
		return err
	}
	for n := range others {
		other := &others[n]
		if other.UID != d.object.UID && waitsFor(other, i, known) && compareSince(other, d.object) < 0 {
			i.Ahead++
		}
	}
	return nil
}

// waitsFor reports whether the interface is to get an address that it does not have.
func waitsFor(object *v1alpha1.FloatingAddress, i *floating.Interface, known eni.Interface) bool {
	a := addressOf(object)
	return a.Holder != nil && a.Holder.InterfaceID == i.ID && !a.Deleting &&
		!slices.Contains(known.SecondaryIPv4, a.IP) && within(i.Ranges, a.IP) && !within(i.Prefixes, a.IP)
}

// compareSince orders the addresses of an interface by the time since which it holds them, and then numerically.
func compareSince(a, b *v1alpha1.FloatingAddress) int {
	return cmp.Or(a.Status.Holder.Since.Time.Compare(b.Status.Holder.Since.Time),
		addressOf(a).IP.Compare(addressOf(b).IP))
}

func within(ranges []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) })
}

// paused reports whether a user paused the NodeENI of an interface, or a Node: the named one, or another one of the
// instance. An instance can register again under another name. A name can be empty.
func (r *Reconciler) paused(ctx context.Context, instanceID, node, nodeENI string) (bool, error) {
	var registered corev1.NodeList
	if err := r.Client.List(ctx, &registered, controller.OfInstance(instanceID)); err != nil {
		return false, err
	}
	if slices.ContainsFunc(registered.Items, func(n corev1.Node) bool { return controller.Paused(&n) }) {
		return true, nil
	}
	for _, one := range []struct {
		name   string
		object client.Object
	}{{node, &corev1.Node{}}, {nodeENI, &v1alpha1.NodeENI{}}} {
		if one.name == "" {
			continue
		}
		err := r.Client.Get(ctx, types.NamespacedName{Name: one.name}, one.object)
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		if err == nil && controller.Paused(one.object) {
			return true, nil
		}
	}
	return false, nil
}
