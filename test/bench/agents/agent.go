// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// agent reports the links of one node. Its Node names the objects of the node, and the agent watches each by its name.
type agent struct {
	fleet *fleet
	name  string
	// links are the interfaces whose links appear, events the changes of the objects that the agent watches.
	links  chan string
	events chan *unstructured.Unstructured
	// present are the interfaces that have a link, objects the watched objects by name; nil until the watch shows one.
	present map[string]bool
	objects map[string]*unstructured.Unstructured
}

func (f *fleet) newAgent(n int) *agent {
	return &agent{
		fleet: f, name: nodeName(n), links: make(chan string, 1), events: make(chan *unstructured.Unstructured, 1),
		present: map[string]bool{}, objects: map[string]*unstructured.Unstructured{},
	}
}

// start watches the Node, and then the objects that it names.
func (a *agent) start(ctx context.Context) error {
	node, err := a.fleet.kube.CoreV1().Nodes().Watch(ctx, byName(a.name))
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
			a.objects[object.GetName()] = object
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
			if err := a.watch(ctx, strings.Fields(node.Annotations[objectsAnnotation])); err != nil {
				return err
			}
		}
	}
}

// watch watches the named objects that are not watched yet. Each watch begins with the object.
func (a *agent) watch(ctx context.Context, names []string) error {
	for _, name := range names {
		if _, watched := a.objects[name]; watched {
			continue
		}
		a.objects[name] = nil
		changes, err := a.fleet.objects.Watch(ctx, byName(name))
		if err != nil {
			return err
		}
		a.fleet.run(ctx, func() error { return a.follow(ctx, changes, name) })
	}
	return nil
}

// follow passes the changes of one object on.
func (a *agent) follow(ctx context.Context, changes watch.Interface, name string) error {
	defer changes.Stop()
	for event := range changes.ResultChan() {
		object, is := event.Object.(*unstructured.Unstructured)
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

// report writes that the link is up and pods may use the interface, over the version that the agent read.
func (a *agent) report(ctx context.Context, object *unstructured.Unstructured) error {
	if object == nil {
		return nil // its watch has not begun
	}
	id, _, _ := unstructured.NestedString(object.Object, "status", "eniID")
	open, _, _ := unstructured.NestedBool(object.Object, "status", "node", "open")
	if id == "" || open || !a.present[id] {
		return nil
	}
	written, err := a.fleet.applyStatus(ctx, object, "multieni-agent", map[string]any{"node": map[string]any{
		"bootID": bootID, "processID": bootID, "open": true,
		"link": map[string]any{"state": "Up", "name": "ens6", "altName": object.GetName(), "mtu": int64(9001)},
	}})
	if err != nil {
		return err
	}
	a.objects[object.GetName()] = written
	return nil
}

// byName selects one object: the API server dispatches its events only to the watches of its name.
func byName(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}
