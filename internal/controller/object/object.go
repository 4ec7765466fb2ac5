// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package object has what the reconcilers share about NetworkInterface objects: reads by index, and writes with
// preconditions. An object of the same name can be another object, so every write names the UID or the version.
package object

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// The fields of the cache's indexes of NetworkInterfaces.
const (
	byInstance = "instanceID"
	byNodeENI  = "nodeENI"
	byENI      = "eniID"
	byNode     = "nodeName"
)

// Index indexes NetworkInterfaces by instance, by the name of the NodeENI, by ENI, and by the name of the Node. The
// instance is that of the spec, which never changes, and not that of the label.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, field := range []string{byInstance, byNodeENI, byENI, byNode} {
		values := func(o client.Object) []string { return indexed(o, field) }
		if err := indexer.IndexField(ctx, &v1alpha1.NetworkInterface{}, field, values); err != nil {
			return err
		}
	}
	return nil
}

func indexed(object client.Object, field string) []string {
	o, ok := object.(*v1alpha1.NetworkInterface)
	if !ok {
		return nil
	}
	value := map[string]string{
		byInstance: o.Spec.InstanceID, byNodeENI: o.Spec.NodeENI.Name, byENI: o.Status.ENIID,
		byNode: o.Spec.NodeName,
	}[field]
	if value == "" {
		return nil
	}
	return []string{value}
}

// OfInstance returns the objects of an instance, by name. The cache shares them: they must not be changed.
func OfInstance(ctx context.Context, r client.Reader, instanceID string) ([]v1alpha1.NetworkInterface, error) {
	return list(ctx, r, client.MatchingFields{byInstance: instanceID})
}

// OfNodeENI returns the objects of a NodeENI or of a network, by name. The cache shares them: they must not be changed.
func OfNodeENI(ctx context.Context, r client.Reader, nodeENI string) ([]v1alpha1.NetworkInterface, error) {
	return list(ctx, r, client.MatchingFields{byNodeENI: nodeENI})
}

// OfNode returns the objects of a Node, by name. The cache shares them: they must not be changed.
func OfNode(ctx context.Context, r client.Reader, node string) ([]v1alpha1.NetworkInterface, error) {
	return list(ctx, r, client.MatchingFields{byNode: node})
}

// OfENI returns the objects that record an ENI, by name. There are two only if someone edited a status.
func OfENI(ctx context.Context, r client.Reader, eniID string) ([]v1alpha1.NetworkInterface, error) {
	return list(ctx, r, client.MatchingFields{byENI: eniID})
}

// All returns all objects, by name. The cache shares them: they must not be changed.
func All(ctx context.Context, r client.Reader) ([]v1alpha1.NetworkInterface, error) {
	return list(ctx, r)
}

func list(ctx context.Context, r client.Reader, options ...client.ListOption) ([]v1alpha1.NetworkInterface, error) {
	var all v1alpha1.NetworkInterfaceList
	if err := r.List(ctx, &all, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list NetworkInterfaces: %w", err)
	}
	return byName(all.Items), nil
}

// byName returns objects by name. It moves each object once, since a fleet has many and each is large.
func byName(objects []v1alpha1.NetworkInterface) []v1alpha1.NetworkInterface {
	order := make([]*v1alpha1.NetworkInterface, len(objects))
	for n := range objects {
		order[n] = &objects[n]
	}
	slices.SortFunc(order, func(a, b *v1alpha1.NetworkInterface) int { return cmp.Compare(a.Name, b.Name) })
	sorted := make([]v1alpha1.NetworkInterface, len(objects))
	for n, o := range order {
		sorted[n] = *o
	}
	return sorted
}

// Get returns the object of a name, or nil if there is none. With the cache as reader it must not be changed.
func Get(ctx context.Context, r client.Reader, name string) (*v1alpha1.NetworkInterface, error) {
	var o v1alpha1.NetworkInterface
	err := r.Get(ctx, client.ObjectKey{Name: name}, &o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read NetworkInterface %s: %w", name, err)
	}
	return &o, nil
}

// Live returns the newest version of an object from the API server itself, or nil if it no longer exists or if an
// object of another UID has the name.
func Live(ctx context.Context, live client.Reader, o *v1alpha1.NetworkInterface) (*v1alpha1.NetworkInterface, error) {
	now, err := Get(ctx, live, o.Name)
	if err != nil || now == nil || now.UID != o.UID {
		return nil, err
	}
	return now, nil
}
