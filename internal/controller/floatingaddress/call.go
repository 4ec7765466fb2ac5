// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress

import (
	"context"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// call is a call to EC2 for one or more addresses.
type call struct {
	do floating.Action
	on string
}

// call makes a call for addresses. If EC2 refuses it and one of them may be the cause, it makes one for each.
func (r *Reconciler) call(ctx context.Context, on call, together []*decision) {
	err := r.request(ctx, on, together)
	if err == nil || len(together) == 1 || !floating.Divides(eni.ErrorClass(err)) {
		r.note(ctx, on, together, err)
		return
	}
	for _, d := range together {
		one := []*decision{d}
		if err := r.prepare(ctx, d); err == nil { // one that changed meanwhile has a reconciliation of its own
			r.note(ctx, on, one, r.request(ctx, on, one))
		}
	}
}

// request makes a call for addresses.
func (r *Reconciler) request(ctx context.Context, on call, together []*decision) (err error) {
	var addresses []netip.Addr
	for _, d := range together {
		addresses = append(addresses, d.address.IP)
	}
	if on.do == floating.Assign {
		err = r.EC2.ReassignIPv4(ratelimit.In(ctx, ratelimit.Move), on.on, addresses)
	} else {
		err = r.EC2.UnassignIPv4(ratelimit.In(ctx, ratelimit.Update), on.on, eni.Addresses{SecondaryIPv4: addresses})
	}
	if err != nil {
		r.Log.Warn("EC2 did not change addresses of pods", "interface", on.on, "addresses", addresses, "err", err)
	}
	return err
}

// note records the effects of a call.
func (r *Reconciler) note(ctx context.Context, on call, together []*decision, err error) {
	now := r.Now()
	r.mu.Lock()
	for _, d := range together {
		m := r.remember(d.object)
		if err == nil {
			m = m.Accepted(on.do, now)
		} else {
			m = m.Failed(d.address.Sequence, eni.ErrorClass(err), err.Error(), now)
		}
		r.memories[d.object.Name] = memory{d.object.UID, m}
	}
	r.mu.Unlock()
	if err != nil {
		return
	}
	for _, d := range together {
		r.record(ctx, on, d.address)
	}
}

// record records that an accepted call changed who has an address, and lets the objects report it.
func (r *Reconciler) record(ctx context.Context, on call, a floating.Address) {
	now := r.Now()
	for _, id := range r.Observer.WithAddress(a.SubnetID, a.IP) {
		if id != on.on || on.do == floating.Unassign {
			r.Observer.RecordChange(now, id, func(i eni.Interface) eni.Interface {
				i.SecondaryIPv4 = i.Without(eni.Addresses{SecondaryIPv4: []netip.Addr{a.IP}}).SecondaryIPv4
				return i
			}, inventory.Effect{Aspect: "address " + a.IP.String(), IsVisible: func(i eni.Interface) bool {
				return !slices.Contains(i.SecondaryIPv4, a.IP)
			}})
		}
		r.enqueueInstance(ctx, id)
	}
	if on.do == floating.Unassign {
		return
	}
	r.Observer.RecordChange(now, on.on, func(i eni.Interface) eni.Interface {
		if !slices.Contains(i.SecondaryIPv4, a.IP) {
			i.SecondaryIPv4 = append(slices.Clone(i.SecondaryIPv4), a.IP)
		}
		return i
	}, inventory.Effect{Aspect: "address " + a.IP.String(), IsVisible: func(i eni.Interface) bool {
		return slices.Contains(i.SecondaryIPv4, a.IP)
	}})
	r.enqueueInstance(ctx, on.on)
}

// enqueueInstance lets the object of an interface report the changed addresses.
func (r *Reconciler) enqueueInstance(ctx context.Context, interfaceID string) {
	objects, err := object.OfENI(ctx, r.Client, interfaceID)
	if err != nil {
		r.Log.Error("the object of an interface could not be found", "interface", interfaceID, "err", err)
	}
	for n := range objects {
		r.Observer.Enqueue(ctx, objects[n].Spec.InstanceID)
	}
}
