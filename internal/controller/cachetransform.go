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
	for _, key := range []string{
		v1alpha1.PausedAnnotation, v1alpha1.InterfacesAnnotation, v1alpha1.NetworkInterfacesAnnotation,
	} {
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

// TrimInterface is a cache transform that removes the managed fields of a NetworkInterface, and stores the rest in less
// memory: a decoder leaves spare capacity in slices, and allocates a string again for every object that contains it.
func TrimInterface(object any) (any, error) {
	o, ok := object.(*v1alpha1.NetworkInterface)
	if !ok {
		return object, nil
	}
	o.ManagedFields = nil
	slim := o.DeepCopy()
	slim.Labels, slim.Finalizers = sharedMap(slim.Labels), sharedList(slim.Finalizers)
	spec := &slim.Spec
	spec.Zone, spec.NodeENI.Name, spec.NodeENI.UID = shared(spec.Zone), shared(spec.NodeENI.Name), shared(spec.NodeENI.UID)
	spec.Revision, spec.Description, spec.Origin = shared(spec.Revision), shared(spec.Description), shared(spec.Origin)
	spec.SecurityGroupIDs = sharedList(spec.SecurityGroupIDs)
	for n := range spec.Subnets {
		s := &spec.Subnets[n]
		s.ID, s.CIDR, s.IPv6CIDR = shared(s.ID), shared(s.CIDR), shared(s.IPv6CIDR)
	}
	st := &slim.Status
	st.Phase, st.SubnetID, st.Evidence = shared(st.Phase), shared(st.SubnetID), shared(st.Evidence)
	st.SecurityGroupIDs = sharedList(st.SecurityGroupIDs)
	for n := range st.Conditions {
		c := &st.Conditions[n]
		c.Type, c.Status, c.Reason, c.Message = shared(c.Type), shared(c.Status), shared(c.Reason), shared(c.Message)
	}
	if st.Node != nil && st.Node.Link != nil {
		l := st.Node.Link
		l.State, l.Reason, l.Message = shared(l.State), shared(l.Reason), shared(l.Message)
	}
	return slim, nil
}

func sharedList(list []string) []string {
	for n := range list {
		list[n] = shared(list[n])
	}
	return list
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
