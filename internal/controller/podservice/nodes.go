// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podservice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodes has the Nodes of the cache for the reconciler of slices, which takes the zone of a pod from its Node. A read of
// a cache does not wait, so it needs no context.
type nodes struct{ reader client.Reader }

var _ corelisters.NodeLister = nodes{}

// Get implements [corelisters.NodeLister].
func (n nodes) Get(name string) (*corev1.Node, error) {
	var node corev1.Node
	if err := n.reader.Get(context.Background(), client.ObjectKey{Name: name}, &node); err != nil {
		return nil, err
	}
	return &node, nil
}

// List implements [corelisters.NodeLister].
func (n nodes) List(selector labels.Selector) ([]*corev1.Node, error) {
	var list corev1.NodeList
	err := n.reader.List(context.Background(), &list, client.MatchingLabelsSelector{Selector: selector})
	all := make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, err
}
