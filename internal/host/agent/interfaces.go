// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
)

// interfaceResource is the resource of NetworkInterfaces.
const interfaceResource = "networkinterfaces"

const (
	// listPause is the time between two lists of names, so that a burst of links causes one. listRetry is the time before
	// another attempt.
	listPause, listRetry = 500 * time.Millisecond, 2 * time.Second
	// listAgain is the time after which the names are listed without an event, if the Node has none.
	listAgain = 30 * time.Minute
)

// names are those of the NetworkInterfaces of the instance. The Node has them in an annotation. The agent lists them if
// it has not, and when a link appears that belongs to none of them: the API server compares the label of each object
// for a list.
type names struct {
	// wanted receives a value when a list is requested.
	wanted chan struct{}

	// mu guards the fields below: the instance, whether the Node has its names, whether its list was requested, the
	// instance that was listed, and the list that the agent has not taken yet.
	mu       sync.Mutex
	instance string
	named    bool
	asked    bool
	listed   string
	fresh    []v1alpha1.NetworkInterface
	taken    bool
}

// NamesOn returns the names that a Node has of the NetworkInterfaces of an instance. It has none of an instance that it
// does not name itself, or if no controller wrote them yet.
func NamesOn(node *corev1.Node, instance string) (names []string, has bool) {
	if node == nil || instanceOf(nil, node) != instance {
		return nil, false
	}
	value, has := node.Annotations[v1alpha1.NetworkInterfacesAnnotation]
	split := func(r rune) bool { return r == ',' }
	return strings.FieldsFunc(value, split), has
}

// want requests a list.
func (n *names) want() {
	select {
	case n.wanted <- struct{}{}:
	default: // one is requested already
	}
}

// known reports whether the names are known: the Node has them, or they were listed.
func (n *names) known() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.instance != "" && (n.named || n.instance == n.listed)
}

// of sets the instance and whether the Node has its names. The first time that it has not, it requests a list.
func (n *names) of(instance string, named bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if instance == "" {
		return
	}
	if n.instance != instance {
		n.instance, n.asked = instance, false
	}
	n.named = named
	if !named && !n.asked {
		n.asked = true
		n.want()
	}
}

// areOnNode reports whether the Node has the names.
func (n *names) areOnNode() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.named
}

// take returns the last list, once.
func (n *names) take() (list []v1alpha1.NetworkInterface, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list, is = n.fresh, !n.taken && n.listed != ""
	n.fresh, n.taken = nil, true
	return list, is
}

// keepNames lists the interfaces after each request, until the context ends.
func (a *API) keepNames(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.names.wanted:
		case <-time.After(listAgain):
			if a.names.areOnNode() {
				continue
			}
		}
		pause := listPause
		err := panics.AsError("the names of the NetworkInterfaces", func() error { return a.listInterfaces(ctx) })
		switch {
		case err == nil:
			a.Wake()
		case ctx.Err() == nil:
			a.log.Warn("the agent cannot list the NetworkInterfaces of its instance; it retries", "in", listRetry, "err", err)
			pause = listRetry
			a.names.want()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (a *API) listInterfaces(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	a.names.mu.Lock()
	instance := a.names.instance
	a.names.mu.Unlock()
	if instance == "" {
		return nil
	}
	var list v1alpha1.NetworkInterfaceList
	err := a.interfaces.client.Get().Resource(interfaceResource).
		Param("labelSelector", labels.Set{v1alpha1.InstanceLabel: instance}.String()).Do(ctx).Into(&list)
	if err != nil {
		return err
	}
	a.names.mu.Lock()
	defer a.names.mu.Unlock()
	a.names.listed, a.names.fresh, a.names.taken = instance, list.Items, false
	return nil
}

// findNames returns the names that the Node has of the NetworkInterfaces of the instance. Without them they are listed.
func (a *API) findNames(instance string) []string {
	if !a.nodes.informer.HasSynced() {
		return nil
	}
	found, has := NamesOn(a.nodeObject(), instance)
	a.names.of(instance, has)
	return found
}

// networkInterfaces returns the newest known versions of the objects of the instance, by name, and whether all are
// known. Callers must not change them.
func (a *API) networkInterfaces(ctx context.Context, instance string) ([]*v1alpha1.NetworkInterface, bool, error) {
	named := a.findNames(instance)
	isKnown := a.names.known()
	a.interfaces.follow(ctx, named...)
	if list, is := a.names.take(); is {
		a.followInterfaces(ctx, list)
	}
	var all []*v1alpha1.NetworkInterface
	for _, name := range a.interfaces.follow(ctx) {
		object, found, err := a.interfaces.get(ctx, name)
		if err != nil {
			return nil, false, fmt.Errorf("read NetworkInterface %s: %w", name, err)
		}
		switch {
		case found && object.Spec.InstanceID == instance:
			all = append(all, object)
		case !found && !slices.Contains(named, name):
			a.interfaces.leave(name)
		}
	}
	return all, isKnown, nil
}

// followInterfaces follows the objects of a list.
func (a *API) followInterfaces(ctx context.Context, list []v1alpha1.NetworkInterface) {
	for n := range list {
		one := &list[n]
		one.SetManagedFields(nil)
		isNew := a.interfaces.one(one.Name) == nil
		a.interfaces.follow(ctx, one.Name)
		if isNew {
			a.interfaces.note(one)
		}
	}
}

// writeReport applies the report of an interface over the version of the object: an apply without a version would void
// another writer's decision. It sends no other field.
func (a *API) writeReport(ctx context.Context, r Report) (*v1alpha1.NetworkInterface, error) {
	content, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "NetworkInterface",
		"metadata": map[string]any{"name": r.Interface.Name, "uid": r.Interface.UID,
			"resourceVersion": r.Interface.ResourceVersion},
		"status": map[string]any{"node": r.Node},
	})
	if err != nil {
		return nil, err
	}
	became := &v1alpha1.NetworkInterface{}
	interfaces := endpoint{a.interfaces.client, interfaceResource}
	err = interfaces.patch(ctx, r.Interface.Name, change{
		kind: types.ApplyPatchType, of: []string{"status"}, content: content,
		parameters: map[string]string{"fieldManager": v1alpha1.FieldOwnerAgent, "force": "true"},
	}, became)
	if err != nil {
		return nil, err
	}
	became.SetManagedFields(nil)
	a.interfaces.note(became)
	return became, nil
}

// endings are the MAC addresses of interfaces that are being deleted, or were, and that nothing holds.
type endings struct {
	// mu guards macs.
	mu   sync.Mutex
	macs map[string]bool
}

// see notes a version of an object that the API server sent.
func (e *endings) see(known any) {
	if last, is := known.(cache.DeletedFinalStateUnknown); is {
		known = last.Obj
	}
	n, is := known.(*v1alpha1.NetworkInterface)
	if !is || n.Status.MACAddress == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.macs == nil {
		e.macs = map[string]bool{}
	}
	if wantsLink(n) {
		delete(e.macs, n.Status.MACAddress)
	} else {
		e.macs[n.Status.MACAddress] = true
	}
}

// endedInterfaces returns the MAC addresses of interfaces whose deletion the agent has seen.
func (a *API) endedInterfaces() map[string]bool {
	a.ended.mu.Lock()
	defer a.ended.mu.Unlock()
	return maps.Clone(a.ended.macs)
}
