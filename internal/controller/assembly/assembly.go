// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assembly connects the controllers of nodes, instances and NodeENIs with the observer, the collector of
// unowned interfaces and the state that they share. `multieni controller` and the simulation both use it, so that the simulation tests the connections
// of the product.
package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multieni/multieni/internal/aws/addresses"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/floatingaddress"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/controller/nodeeni"
	"github.com/multieni/multieni/internal/controller/unowned"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
)

const (
	// ResolveInterval is the time between two reads of subnets and security groups that exist.
	ResolveInterval = 30 * time.Minute
	// ResolveMissingInterval is the time between two reads of those that do not exist.
	ResolveMissingInterval = 30 * time.Second
)

// EC2 is the part of EC2 that the controllers use.
type EC2 interface {
	executor.Cloud
	observer.Reader
	resolver.Reader
	addresses.Reader
	instance.Limiter
}

// Options are the dependencies of the controllers, and the values in which production and the simulation differ.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself, not from a cache.
	Reader client.Reader
	Events events.EventRecorder
	EC2    EC2
	// Cluster is the cluster's name in ownership tags.
	Cluster string
	// InstanceTags restrict the instances: an instance gets interfaces if it has one of the tags. Without InstanceTags all
	// instances do.
	InstanceTags []eni.InstanceTag
	// Taint is the key of the startup taint, which keeps pods away until the interfaces of a node are ready. ReapplyTaint
	// adds it again to a node that loses a required interface.
	Taint        string
	ReapplyTaint bool
	// ConcurrentNodes and ConcurrentNodeENIs are how many reconciliations of each kind run concurrently.
	ConcurrentNodes, ConcurrentNodeENIs int
	// Members and Removals are how many calls for one instance run concurrently; see [executor.Options].
	Members, Removals int
	// MaxUnattached is the unattached limit: from this number of unattached interfaces in the cluster on, none is created.
	MaxUnattached int
	// Resync is the time between two full listings; Poll is the time between two reads of interfaces in transition.
	Resync, Poll time.Duration
	// Confirm confirms the cluster's name before the first list of its interfaces; nil confirms every name.
	Confirm func(context.Context) error
	// Permit returns an error once another process may be the leader; nil permits always.
	Permit func() error
	// Refusals are the reads that EC2 refuses; nil for none.
	Refusals *controller.Refusals
	// Attachments are the states of the NetworkAttachmentDefinitions; AttachmentsChanged receives the NodeENIs whose state
	// changed. Both may be nil.
	Attachments        *controller.AttachmentDefinitions
	AttachmentsChanged <-chan event.GenericEvent
	// Attached receives, for every interface that becomes ready, the time since the creation of its object; it may be nil.
	Attached func(after time.Duration)
	// Group and Go run concurrent calls and deferred work; goroutines do if they are nil.
	Group func() executor.Group
	Go    func(work func(life context.Context))
	// Era returns the era of this process. It is called only while the process leads.
	Era func() era.Era
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives spans; nil for none.
	Traces trace.TracerProvider
}

// Controllers are connected controllers.
type Controllers struct {
	Observer *observer.Observer
	Resolver *resolver.Resolver
	Unowned  *unowned.Collector
	// Nodes render the objects of nodes, Instances give them their interfaces, and NodeENIs decide about fleets.
	Nodes     *node.Reconciler
	Instances *instance.Reconciler
	NodeENIs  *nodeeni.Reconciler
	// FloatingAddresses are the addresses that pods bring up themselves.
	FloatingAddresses *floatingaddress.Reconciler
	// InPlaceUpdates are the updates of launch interfaces, which the AWSNodeTemplate controller declares.
	InPlaceUpdates *controller.InPlaceUpdates
	// RefusedWrites are the objects that the API server refuses to store.
	RefusedWrites *controller.RejectedWrites
}

// New connects controllers.
func New(o Options) *Controllers {
	c := &Controllers{InPlaceUpdates: &controller.InPlaceUpdates{}, RefusedWrites: &controller.RejectedWrites{}}
	c.Unowned = unowned.New(unowned.Options{Client: o.Client, Reader: o.Reader, EC2: o.EC2, Era: o.Era,
		Period: o.Resync, Now: o.Now, Log: o.Log, Traces: o.Traces})
	c.Observer = observer.New(o.EC2, observer.Options{
		Cluster: o.Cluster, Resync: o.Resync, Poll: o.Poll, Now: o.Now, Log: o.Log,
		BeforeListing: o.Confirm,
		AfterListing: func(ctx context.Context) time.Duration {
			c.Nodes.Listed()
			return c.Unowned.Run(ctx, c.Observer)
		},
	})
	c.Resolver = resolver.New(o.EC2, resolver.Options{Fresh: ResolveInterval,
		Doubtful: ResolveMissingInterval, Now: o.Now})
	c.NodeENIs = nodeeni.New(nodeeni.Options{
		Client: o.Client, Reader: o.Reader, Events: o.Events, Observer: c.Observer, Resolver: c.Resolver,
		Refusals: o.Refusals, RefusedWrites: c.RefusedWrites,
		Attachments: o.Attachments, AttachmentsChanged: o.AttachmentsChanged,
		Reresolve: ResolveInterval, ReresolveMissing: ResolveMissingInterval, Concurrency: o.ConcurrentNodeENIs,
		Now: o.Now, Log: o.Log,
	})
	c.Nodes = node.New(node.Options{
		Client: o.Client, Reader: o.Reader, Events: o.Events, Observer: c.Observer, Resolver: c.Resolver,
		RefusedWrites: c.RefusedWrites, Taint: o.Taint, ReapplyTaint: o.ReapplyTaint, Concurrency: o.ConcurrentNodes,
		Now: o.Now, Log: o.Log, Traces: o.Traces,
	})
	c.Instances = instance.New(instance.Options{
		Client: o.Client, Reader: o.Reader, Events: o.Events, Observer: c.Observer,
		Applier: executor.New(o.EC2, c.Observer, executor.Options{
			Members: o.Members, Removals: o.Removals, Group: o.Group,
			Addresses: addresses.NewReservations(o.EC2, o.Now), Now: o.Now,
		}),
		Limiter: o.EC2, Permit: o.Permit, Era: o.Era, MayRemove: c.NodeENIs.MayRemove,
		RefusedWrites: c.RefusedWrites, Repairs: c.InPlaceUpdates,
		MaxUnattached: o.MaxUnattached, Cluster: o.Cluster, InstanceTags: o.InstanceTags, Concurrency: o.ConcurrentNodes,
		Go: o.Go, Now: o.Now, Log: o.Log, Traces: o.Traces, Attached: o.Attached,
	})
	c.FloatingAddresses = floatingaddress.New(floatingaddress.Options{
		Client: o.Client, Reader: o.Reader, Observer: c.Observer, EC2: o.EC2, Limiter: o.EC2,
		Era: o.Era, Now: o.Now, Log: o.Log, Traces: o.Traces,
	})
	return c
}

// SetupWithManager makes a manager run the controllers and the observer.
func (c *Controllers) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	if err := controller.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := mgr.Add(c.Observer); err != nil {
		return err
	}
	if err := c.Nodes.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set the node controller up: %w", err)
	}
	if err := c.Instances.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set the instance controller up: %w", err)
	}
	if err := c.NodeENIs.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set the NodeENI controller up: %w", err)
	}
	if err := c.FloatingAddresses.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set the FloatingAddress controller up: %w", err)
	}
	return nil
}
