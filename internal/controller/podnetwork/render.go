// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/netattach"
)

// NodeENILabel is the label of a generated NetworkAttachmentDefinition that names its NodeENI.
const NodeENILabel = "networking.k8s.aws/nodeeni"

// definitionKind is the kind of the generated objects, namespaceKind that of their namespaces.
var (
	definitionKind = schema.GroupVersionKind{Group: netattach.Group, Version: netattach.Version, Kind: netattach.Kind}
	namespaceKind  = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

// Networks returns the pod networks of a NodeENI that pods attach to, as far as its subnets are known. It returns none
// without spec.pods, and none with attachment Observed, where the user attaches pods.
func Networks(nodeENI *v1alpha1.NodeENI) []netattach.Network {
	if nodeENI.Spec.Pods == nil || nodeENI.Spec.Pods.Attachment == v1alpha1.PodAttachmentObserved {
		return nil
	}
	var zones []string
	for _, subnet := range nodeENI.Status.Subnets {
		zones = append(zones, subnet.Zone)
	}
	listed := len(nodeENI.Spec.SubnetIDs)+len(nodeENI.Spec.SubnetNames) > 0
	var networks []netattach.Network
	for ordinal := range netattach.Count(zones, listed) {
		networks = append(networks, netattach.Network{
			NodeENI: nodeENI.Name, Ordinal: ordinal,
			HostDevice:  nodeENI.Spec.Pods.Attachment == v1alpha1.PodAttachmentHostDevice,
			IGMPVersion: int(nodeENI.Spec.Pods.IGMPVersion),
		})
	}
	return networks
}

// Render returns the NetworkAttachmentDefinitions of a NodeENI in one namespace, or without a namespace if it is empty.
func Render(nodeENI *v1alpha1.NodeENI, namespace string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, network := range Networks(nodeENI) {
		all = append(all, Object(namespace, network.Definition()))
	}
	return all
}

// Object returns a definition as an object in one namespace, or without a namespace if it is empty. It has no label and
// no owner, so the controller neither restores nor deletes an object that a user creates from it.
func Object(namespace string, definition netattach.Definition) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": definition.Config}}}
	object.SetGroupVersionKind(definitionKind)
	object.SetNamespace(namespace)
	object.SetName(definition.Name)
	return object
}

// ownedBy returns the reference to the NodeENI. Kubernetes deletes a definition together with it.
func ownedBy(nodeENI *v1alpha1.NodeENI) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeENI", Name: nodeENI.Name, UID: nodeENI.UID,
		Controller: ptr.To(true),
	}
}

// merged returns the existing definition with our part as rendered: spec, label and owner. Other programs' additions to
// its metadata stay.
func merged(existing, rendered *unstructured.Unstructured, owner metav1.OwnerReference) *unstructured.Unstructured {
	object := existing.DeepCopy()
	object.SetLabels(union(object.GetLabels(), map[string]string{NodeENILabel: owner.Name}))
	owners := slices.DeleteFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		return o.Kind == owner.Kind && o.APIVersion == owner.APIVersion
	})
	object.SetOwnerReferences(append(owners, owner))
	object.Object["spec"] = rendered.Object["spec"]
	return object
}

func union(present, ours map[string]string) map[string]string {
	all := maps.Clone(present)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, ours)
	return all
}

// isOurs reports whether a definition was generated for a NodeENI of this name, or handed over to it.
func isOurs(definition client.Object, nodeENI string) bool {
	return definition.GetLabels()[NodeENILabel] == nodeENI
}

// generated reports whether the controller wrote a definition for this very NodeENI. A label alone does not say so: a
// user may copy it.
func generated(definition client.Object, nodeENI *v1alpha1.NodeENI) bool {
	return slices.ContainsFunc(definition.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		return o.Kind == "NodeENI" && o.UID == nodeENI.UID
	})
}
