// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// TrimNode is a cache transform that keeps only the fields of a Node that multieni uses, so that thousands of Nodes fit
// in memory.
func TrimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	slim := &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: sharedMap(node.Labels),
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID, Taints: node.Spec.Taints},
	}
	for _, key := range []string{v1alpha1.PausedAnnotation, v1alpha1.InterfacesAnnotation} {
		if value, is := node.Annotations[key]; is {
			metav1.SetMetaDataAnnotation(&slim.ObjectMeta, key, value)
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1alpha1.NodeConditionDrifted || c.Type == v1alpha1.NodeConditionInterfacesReady {
			slim.Status.Conditions = append(slim.Status.Conditions, c)
		}
	}
	for name, quantity := range node.Status.Capacity {
		if launchtemplate.IsNodeLabel(string(name)) {
			if slim.Status.Capacity == nil {
				slim.Status.Capacity = corev1.ResourceList{}
			}
			slim.Status.Capacity[name] = quantity
		}
	}
	return slim, nil
}

// TrimState is a cache transform that removes the managed fields of a NodeENIState, and stores the rest in less memory:
// a decoder leaves spare capacity in slices, and allocates a string again for every object that contains it.
func TrimState(object any) (any, error) {
	state, ok := object.(*v1alpha1.NodeENIState)
	if !ok {
		return object, nil
	}
	state.ManagedFields = nil
	slim := state.DeepCopy()
	slim.Spec.Zone, slim.Spec.InstanceType = shared(slim.Spec.Zone), shared(slim.Spec.InstanceType)
	for n := range slim.Spec.Members {
		shareMember(&slim.Spec.Members[n])
	}
	for n := range slim.Spec.PreviousInstances {
		for m := range slim.Spec.PreviousInstances[n].Members {
			shareMember(&slim.Spec.PreviousInstances[n].Members[m])
		}
	}
	for n := range slim.Status.Interfaces {
		i := &slim.Status.Interfaces[n]
		shareMember(&i.Member)
		i.Phase, i.SubnetID = shared(i.Phase), shared(i.SubnetID)
	}
	for n := range slim.Status.NodeENIs {
		o := &slim.Status.NodeENIs[n]
		o.NodeENI, o.NodeENIUID, o.Reason = shared(o.NodeENI), shared(o.NodeENIUID), shared(o.Reason)
	}
	for n := range slim.Status.Links {
		l := &slim.Status.Links[n]
		l.NodeENI, l.State, l.Reason = shared(l.NodeENI), shared(l.State), shared(l.Reason)
	}
	for n := range slim.Status.PodNetworks {
		p := &slim.Status.PodNetworks[n]
		p.Network, p.NodeENI, p.Reason = shared(p.Network), shared(p.NodeENI), shared(p.Reason)
	}
	for n := range slim.Status.Conditions {
		c := &slim.Status.Conditions[n]
		c.Type, c.Status, c.Reason, c.Message = shared(c.Type), shared(c.Status), shared(c.Reason), shared(c.Message)
	}
	return slim, nil
}

func shareMember(m *v1alpha1.Member) {
	m.NodeENI, m.NodeENIUID = shared(m.NodeENI), shared(m.NodeENIUID)
}

// shared returns the one copy of a string that all equal strings share.
func shared[S ~string](s S) S { return S(unique.Make(string(s)).Value()) }

func sharedMap(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	slim := make(map[string]string, len(m))
	for key, value := range m {
		slim[shared(key)] = shared(value)
	}
	return slim
}
