// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// agent reports the links of one node. It watches each object of its instance by its name, which its Node has.
type agent struct {
	fleet          *fleet
	name, instance string
	// links are the interfaces whose links appear, and events the changes of the watched objects.
	links  chan string
	events chan *v1alpha1.NetworkInterface
	// present are the interfaces that have a link, objects the watched objects by name; nil until the watch shows one.
	present map[string]bool
	objects map[string]*v1alpha1.NetworkInterface
}

func (f *fleet) newAgent(n int) *agent {
	return &agent{
		fleet: f, name: nodeName(n), instance: instanceID(n),
		links: make(chan string, 1), events: make(chan *v1alpha1.NetworkInterface, 1),
		present: map[string]bool{}, objects: map[string]*v1alpha1.NetworkInterface{},
	}
}

// start watches the Node.
func (a *agent) start(ctx context.Context) error {
	node, err := a.fleet.client.Watch(ctx, &corev1.NodeList{}, byName(a.name))
	if err != nil {
		return err
	}
	a.fleet.run(ctx, func() error { return a.serve(ctx, node) })
	return nil
}

// serve reports links until the context ends.
func (a *agent) serve(ctx context.Context, node watch.Interface) error {
	defer node.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-a.links:
			a.present[id] = true
			for _, object := range a.objects {
				if err := a.report(ctx, object); err != nil {
					return err
				}
			}
		case object := <-a.events:
			a.objects[object.Name] = object
			if err := a.report(ctx, object); err != nil {
				return err
			}
		case event, open := <-node.ResultChan():
			if !open {
				return fmt.Errorf("the watch of Node %s ended", a.name)
			}
			node, is := event.Object.(*corev1.Node)
			if !is {
				return fmt.Errorf("watch of Node %s: %v", a.name, event.Object)
			}
			for _, name := range strings.Split(node.Annotations[v1alpha1.NetworkInterfacesAnnotation], ",") {
				if err := a.watch(ctx, name); err != nil {
					return err
				}
			}
		}
	}
}

// watch watches an object that is not watched yet, and reads it: the product does not wait for the watch to begin.
func (a *agent) watch(ctx context.Context, name string) error {
	if _, watched := a.objects[name]; watched {
		return nil
	}
	a.objects[name] = nil
	changes, err := a.fleet.client.Watch(ctx, &v1alpha1.NetworkInterfaceList{}, byName(name))
	if err != nil {
		return err
	}
	a.fleet.run(ctx, func() error { return a.follow(ctx, changes, name) })
	return a.fleet.client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.NetworkInterface{})
}

// follow passes the changes of one object on.
func (a *agent) follow(ctx context.Context, changes watch.Interface, name string) error {
	defer changes.Stop()
	for event := range changes.ResultChan() {
		object, is := event.Object.(*v1alpha1.NetworkInterface)
		if !is {
			return fmt.Errorf("watch of %s: %v", name, event.Object)
		}
		select {
		case a.events <- object:
		case <-ctx.Done():
			return nil
		}
	}
	return fmt.Errorf("the watch of %s ended", name)
}

// report writes that the link is ready and pods may use the interface, over the version that the agent read.
func (a *agent) report(ctx context.Context, object *v1alpha1.NetworkInterface) error {
	if object == nil || object.Status.Node != nil || !a.present[object.Status.ENIID] {
		return nil
	}
	applied, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "NetworkInterface",
		"metadata": map[string]any{"name": object.Name, "uid": object.UID, "resourceVersion": object.ResourceVersion},
		"status": map[string]any{"node": v1alpha1.NodeReport{
			Agent: v1alpha1.AgentProcess{BootID: bootID, ProcessID: bootID}, Open: true, ObservedGeneration: object.Generation,
			Link: &v1alpha1.LinkReport{
				State: v1alpha1.LinkReady, Reason: "Ready", Name: "ens6", AltName: "storage-0", MTU: 9001,
			},
		}},
	})
	if err != nil {
		return err
	}
	written := &v1alpha1.NetworkInterface{}
	written.Name = object.Name
	if err := a.fleet.client.Status().Patch(ctx, written, client.RawPatch(types.ApplyPatchType, applied),
		client.FieldOwner(v1alpha1.FieldOwnerAgent), client.ForceOwnership); err != nil {
		return err
	}
	a.objects[object.Name] = written
	return nil
}

// byName selects one object: the API server dispatches its events only to the watches of its name.
func byName(name string) client.MatchingFields { return client.MatchingFields{"metadata.name": name} }
