// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unowned finds interfaces with the tags of this cluster that no object has.
//
// An attached one stays: nothing says that no pod uses it. It ends with its instance, or when an object of its name
// takes it over. An unattached one is deleted if it is older than [identity.MinLeakAge] and two passes found it, at
// least [identity.ConfirmInterval] apart. Each pass follows a list of EC2, so that an interface is never newer than the
// absence of its object; the first deletion of a pass follows a live read of the objects of the instance. Tags alone
// command no removal of anything in use.
package unowned

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// Inventory is what the collector knows of EC2.
type Inventory interface {
	// All returns the owned interfaces.
	All() []inventory.Record
	// Deleted records that EC2 accepted the deletion of an interface.
	Deleted(now time.Time, id string)
}

// Cloud deletes interfaces. An unknown interface is an [eni.NotFound] fault.
type Cloud interface {
	DeleteInterface(ctx context.Context, interfaceID string) error
}

// Options are the settings of a Collector.
type Options struct {
	// Client reads from the cache, and Reader from the API server itself.
	Client, Reader client.Reader
	EC2            Cloud
	// Era returns the era of this process.
	Era func() era.Era
	// Period is the time between two passes while no interface is to be confirmed.
	Period time.Duration
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives the spans of passes; nil for no tracing.
	Traces trace.TracerProvider
}

// Collector is safe for concurrent use.
type Collector struct {
	Options
	// mu guards found.
	mu sync.Mutex
	// found are the interfaces without an object in the last pass, by ID.
	found map[string]finding
}

// finding is an interface without an object.
type finding struct {
	since    time.Time
	attached bool
}

// New returns a Collector that has found nothing.
func New(options Options) *Collector {
	return &Collector{Options: options, found: map[string]finding{}}
}

// Leaks returns the number of unattached interfaces without an object.
func (c *Collector) Leaks() int { return c.count(false) }

// Attached returns the number of attached interfaces without an object. They are left alone.
func (c *Collector) Attached() int { return c.count(true) }

func (c *Collector) count(attached bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.found {
		if f.attached == attached {
			n++
		}
	}
	return n
}

// Run makes one pass right after a list of EC2. It returns when to list again.
func (c *Collector) Run(ctx context.Context, known Inventory) time.Duration {
	ctx, end := controller.Trace(ctx, c.Traces, "unowned")
	next, err := c.pass(ctx, known)
	if err != nil {
		c.Log.Warn("the search for interfaces without an object skips this pass", "err", err)
		next = c.Period
	}
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("multieni.leaked_interfaces", c.Leaks()))
	end(err)
	return next
}

func (c *Collector) pass(ctx context.Context, known Inventory) (time.Duration, error) {
	objects, err := object.All(ctx, c.Client)
	if err != nil {
		return 0, err
	}
	next, now := c.Period, c.Now()
	for _, record := range c.update(known.All(), ownersOf(objects), now) {
		switch wait := c.wait(record, now); {
		case record.Attachment != nil:
		case wait > 0:
			next = min(next, wait)
		default:
			if err := c.delete(ctx, known, record); err != nil {
				c.Log.Warn("an interface without an object could not be deleted", "interface", record.ID, "err", err)
			}
		}
	}
	return next, nil
}

// update records the interfaces without an object, and returns them.
func (c *Collector) update(records []inventory.Record, owned owners, now time.Time) (unowned []inventory.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]finding{}
	for _, record := range records {
		if owned.has(record) {
			continue
		}
		f, is := c.found[record.ID]
		if !is {
			f.since = now
		}
		f.attached = record.Attachment != nil
		if f.attached && !c.found[record.ID].attached {
			c.Log.Warn("an attached interface has no object, and is left alone", "interface", record.ID, "instance",
				record.Attachment.InstanceID, "nodeeni", record.Tagged.NodeENI)
		}
		found[record.ID] = f
		unowned = append(unowned, record)
	}
	c.found = found
	return unowned
}

// wait returns how long an interface is not deleted yet: it must be old enough, and EC2 must have had the time to show
// every interface that an earlier leader created.
func (c *Collector) wait(record inventory.Record, now time.Time) time.Duration {
	c.mu.Lock()
	since := c.found[record.ID].since
	c.mu.Unlock()
	if visible := c.Era().VisibleAt(); since.Before(visible) {
		since = visible
	}
	if wait := since.Add(identity.ConfirmInterval).Sub(now); wait > 0 {
		return wait
	}
	if !identity.PastMinLeakAge(record.Tags, now) || record.Missing {
		return identity.ConfirmInterval
	}
	return 0
}

// isPaused reports whether a user paused the node of an interface, or its NodeENI.
func (c *Collector) isPaused(ctx context.Context, record inventory.Record) (bool, error) {
	var nodes corev1.NodeList
	ofInstance := controller.OfInstance(record.Tagged.InstanceID)
	if err := c.Client.List(ctx, &nodes, ofInstance, client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	for n := range nodes.Items {
		if controller.Paused(&nodes.Items[n]) {
			return true, nil
		}
	}
	var nodeENI v1alpha1.NodeENI
	if err := c.Client.Get(ctx, client.ObjectKey{Name: record.Tagged.NodeENI}, &nodeENI); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return controller.Paused(&nodeENI), nil
}

// delete deletes an unattached interface unless a user paused that, or the API server itself has an object for it.
func (c *Collector) delete(ctx context.Context, known Inventory, record inventory.Record) error {
	if paused, err := c.isPaused(ctx, record); paused || err != nil {
		return err
	}
	var live v1alpha1.NetworkInterfaceList
	labels := client.MatchingLabels{v1alpha1.InstanceLabel: record.Tagged.InstanceID}
	if err := c.Reader.List(ctx, &live, labels); err != nil {
		return err
	}
	if ownersOf(live.Items).has(record) {
		return nil
	}
	c.Log.Warn("an unattached interface has no object, and is deleted", "interface", record.ID, "nodeeni",
		record.Tagged.NodeENI, "node", record.Tagged.Node)
	if err := c.EC2.DeleteInterface(ctx, record.ID); err != nil && eni.ErrorClass(err) != eni.NotFound {
		return err
	}
	known.Deleted(c.Now(), record.ID)
	return nil
}

// owners are the objects by what leads to their interfaces.
type owners struct {
	enis, uids map[string]bool
	names      map[place]bool
}

// place is the name of an object and a subnet that its interface may be in.
type place struct{ name, subnetID string }

func ownersOf(objects []v1alpha1.NetworkInterface) owners {
	o := owners{map[string]bool{}, map[string]bool{}, map[place]bool{}}
	for n := range objects {
		if id := objects[n].Status.ENIID; id != "" {
			o.enis[id] = true
			continue
		}
		o.uids[string(objects[n].UID)] = true
		for _, subnet := range objects[n].Spec.Subnets {
			o.names[place{objects[n].Name, subnet.ID}] = true
		}
	}
	return o
}

// has reports whether an object has an interface, or can take it over: an object without one that has its UID, or its
// name and allows its subnet. An attached interface of a network needs none: its instance may not have joined the
// cluster yet.
func (o owners) has(record inventory.Record) bool {
	if record.Tagged.UID.IsNetwork() && record.Attachment != nil {
		return true
	}
	return o.enis[record.ID] || o.uids[string(record.Tagged.UID)] || o.names[place{record.Tagged.Name, record.SubnetID}]
}
