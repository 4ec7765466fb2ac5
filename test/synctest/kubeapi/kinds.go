// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/multieni/multieni/api/v1alpha1"
)

// kind is a kind of objects that is served.
type kind struct {
	schema.GroupVersion
	resource, name string
	isNamespaced   bool
	// isCustom kinds have a generation, and status as a subresource.
	isCustom bool
	// hasStatus is set for other kinds whose status can be patched as a subresource too.
	hasStatus bool
}

func kinds() []kind {
	core, ours := schema.GroupVersion{Version: "v1"}, v1alpha1.SchemeGroupVersion
	return []kind{
		{GroupVersion: core, resource: "namespaces", name: "Namespace"},
		{GroupVersion: core, resource: "nodes", name: "Node", hasStatus: true},
		{GroupVersion: core, resource: "pods", name: "Pod", isNamespaced: true},
		{GroupVersion: core, resource: "configmaps", name: "ConfigMap", isNamespaced: true},
		{GroupVersion: core, resource: "events", name: "Event", isNamespaced: true},
		{GroupVersion: schema.GroupVersion{Group: "events.k8s.io", Version: "v1"}, resource: "events", name: "Event",
			isNamespaced: true},
		{GroupVersion: schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}, resource: "leases", name: "Lease",
			isNamespaced: true},
		{GroupVersion: schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"},
			resource: "customresourcedefinitions", name: "CustomResourceDefinition"},
		{GroupVersion: ours, resource: "nodeenis", name: "NodeENI", isCustom: true},
		{GroupVersion: ours, resource: "networkinterfaces", name: "NetworkInterface", isCustom: true},
		{GroupVersion: ours, resource: "awsnodetemplates", name: "AWSNodeTemplate", isCustom: true},
		{GroupVersion: ours, resource: "subnetreservations", name: "SubnetReservation", isCustom: true},
		{GroupVersion: ours, resource: "floatingaddresses", name: "FloatingAddress", isCustom: true},
	}
}

func (k kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

// groups answers the discovery of API groups other than the core one.
func groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	known := map[string]bool{"": true}
	for _, k := range kinds() {
		if !known[k.Group] {
			known[k.Group] = true
			version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion.String(), Version: k.Version}
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
	}
	return list
}

// resources answers the discovery of the resources of a group.
func resources(version schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.String(),
	}
	for _, k := range kinds() {
		if k.GroupVersion != version {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.resource, Kind: k.name, Namespaced: k.isNamespaced,
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
		if k.isCustom || k.hasStatus {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.resource + "/status", Kind: k.name, Verbs: metav1.Verbs{"get", "patch"},
			})
		}
	}
	return list
}
