// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/launch"
)

const stateOwners = "nodeENIUIDs"

// IndexStates indexes NodeENIStates by the UIDs of the NodeENIs they speak of.
func IndexStates(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.NodeENIState{}, stateOwners, func(object client.Object) []string {
		return Owners(object.(*v1alpha1.NodeENIState))
	})
}

// StatesOf is the list option for the NodeENIStates that speak of a NodeENI.
func StatesOf(uid types.UID) client.ListOption {
	return client.MatchingFields{stateOwners: string(uid)}
}

// Owners returns the UIDs of the NodeENIs that a state speaks of, in its ledger or its status, each once.
func Owners(state *v1alpha1.NodeENIState) []string {
	var uids []string
	for _, m := range state.Spec.Members {
		uids = append(uids, string(m.NodeENIUID))
	}
	for _, i := range state.Status.Interfaces {
		uids = append(uids, string(i.NodeENIUID))
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// SlimNode is a cache transform that keeps of a Node only what is used here, so that thousands of them fit in memory.
func SlimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	var annotations map[string]string
	if value, paused := node.Annotations[v1alpha1.PausedAnnotation]; paused {
		annotations = map[string]string{v1alpha1.PausedAnnotation: value}
	}
	slim := &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels,
			Annotations: annotations, CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID},
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1alpha1.NodeConditionDrifted {
			slim.Status.Conditions = append(slim.Status.Conditions, c)
		}
	}
	for name, quantity := range node.Status.Capacity {
		if launch.IsNodeLabel(string(name)) {
			if slim.Status.Capacity == nil {
				slim.Status.Capacity = corev1.ResourceList{}
			}
			slim.Status.Capacity[name] = quantity
		}
	}
	return slim, nil
}
