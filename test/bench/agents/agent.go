// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// agent reports the links of one node, as the agent of the design does.
type agent struct {
	fleet          *fleet
	node, instance string
	// links are the interfaces whose links appear, events the changes of the objects that the agent watches.
	links  chan string
	events chan *unstructured.Unstructured
	// present are the interfaces that have a link, watched the names of objects.
	present, watched map[string]bool
}

func (f *fleet) newAgent(n int) *agent {
	return &agent{
		fleet: f, node: nodeName(n), instance: instanceID(n), links: make(chan string, 1),
		events: make(chan *unstructured.Unstructured, 1), present: map[string]bool{}, watched: map[string]bool{},
	}
}

// start finds the objects of the node and watches them, and its Node.
func (a *agent) start(ctx context.Context) error {
	if err := a.find(ctx); err != nil {
		return err
	}
	node, err := a.fleet.kube.CoreV1().Nodes().Watch(ctx, byName(a.node))
	if err != nil {
		return err
	}
	a.fleet.run(ctx, func() error { return a.serve(ctx, node) })
	return nil
}

// serve reports links until the context ends.
func (a *agent) serve(ctx context.Context, node watch.Interface) error {
	defer node.Stop()
	unready := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-a.links:
			a.present[id] = true
			if err := a.find(ctx); err != nil {
				return err
			}
		case object := <-a.events:
			if err := a.report(ctx, object); err != nil {
				return err
			}
		case event, open := <-node.ResultChan():
			if !open {
				return fmt.Errorf("the watch of Node %s ended", a.node)
			}
			node, is := event.Object.(*corev1.Node)
			if !is {
				return fmt.Errorf("watch of Node %s: %v", a.node, event.Object)
			}
			was := unready
			if unready = isUnready(node); unready && !was {
				if err := a.find(ctx); err != nil {
					return err
				}
			}
		}
	}
}

// find lists the objects of the instance from the API server's cache, and watches by name those that are new.
func (a *agent) find(ctx context.Context) error {
	list, err := a.fleet.objects.List(ctx, metav1.ListOptions{LabelSelector: instanceLabel + "=" + a.instance,
		ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for n := range list.Items {
		object := &list.Items[n]
		if a.watched[object.GetName()] {
			continue
		}
		a.watched[object.GetName()] = true
		options := byName(object.GetName())
		options.ResourceVersion = object.GetResourceVersion()
		changes, err := a.fleet.objects.Watch(ctx, options)
		if err != nil {
			return err
		}
		a.fleet.run(ctx, func() error { return a.follow(ctx, changes, object.GetName()) })
		if err := a.report(ctx, object); err != nil {
			return err
		}
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
	id, _, _ := unstructured.NestedString(object.Object, "status", "eniID")
	open, _, _ := unstructured.NestedBool(object.Object, "status", "node", "open")
	if id == "" || open || !a.present[id] {
		return nil
	}
	status := map[string]any{"node": map[string]any{
		"bootID": bootID, "processID": bootID, "open": true,
		"link": map[string]any{"state": "Up", "name": "ens6", "altName": object.GetName(), "mtu": int64(9001)},
	}}
	return a.fleet.applyStatus(ctx, object, "multieni-agent", status)
}

// byName selects one object: the API server dispatches its events only to the watches of its name.
func byName(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}
