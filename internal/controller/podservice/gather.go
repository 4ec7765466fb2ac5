// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podservice

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/connectivity"
	"github.com/multieni/multieni/internal/core/netattach"
	"github.com/multieni/multieni/internal/core/podservice"
)

// isDeclared reports whether a Service publishes a pod network.
func isDeclared(service *corev1.Service) bool {
	_, is := service.Annotations[v1alpha1.PodNetworkAnnotation]
	return is
}

// unsupported says why a Service cannot publish a pod network; "" if it can.
func unsupported(service *corev1.Service) string {
	switch {
	case len(service.Spec.Selector) > 0:
		return "the Service has spec.selector"
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return "the Service has type ExternalName"
	default:
		return ""
	}
}

// selector returns the pod selector of a Service. An empty one would select every pod of the namespace.
func selector(service *corev1.Service) (labels.Selector, error) {
	text, is := service.Annotations[v1alpha1.PodSelectorAnnotation]
	if !is {
		return nil, errors.New("it is missing")
	}
	parsed, err := labels.Parse(text)
	if err == nil && parsed.Empty() {
		return nil, errors.New("it selects every pod of the namespace")
	}
	return parsed, err
}

// findings returns what the Service alone says.
func findings(service *corev1.Service) podservice.Findings {
	_, err := selector(service)
	return podservice.Findings{
		NetworkKey: v1alpha1.PodNetworkAnnotation, Network: service.Annotations[v1alpha1.PodNetworkAnnotation],
		SelectorKey: v1alpha1.PodSelectorAnnotation, Selector: service.Annotations[v1alpha1.PodSelectorAnnotation],
		Namespace: service.Namespace, SelectorErr: err, Unsupported: unsupported(service), Families: families(service),
	}
}

// families returns the address families of a Service.
func families(service *corev1.Service) string {
	names := make([]string, 0, len(service.Spec.IPFamilies))
	for _, family := range service.Spec.IPFamilies {
		names = append(names, string(family))
	}
	return strings.Join(names, " or ")
}

// hasFamily reports whether a Service publishes addresses of the family of an address.
func hasFamily(service *corev1.Service, address netip.Addr) bool {
	family := corev1.IPv6Protocol
	if address.Is4() {
		family = corev1.IPv4Protocol
	}
	return slices.Contains(service.Spec.IPFamilies, family)
}

// gather returns copies of the selected pods with their addresses on the network.
func (r *Reconciler) gather(
	ctx context.Context, service *corev1.Service, existing []*discoveryv1.EndpointSlice,
) (podservice.Findings, []*corev1.Pod, error) {
	found, published := findings(service), publishedBy(existing)
	selected, err := r.selected(ctx, service, published)
	if err != nil {
		return found, nil, err
	}
	nodes := map[string][]v1alpha1.NetworkInterface{}
	var pods []*corev1.Pod
	for n := range selected {
		pod := &selected[n]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		found.Selected++
		interfaces, known := nodes[pod.Spec.NodeName]
		if !known && pod.Spec.NodeName != "" {
			if interfaces, err = r.interfaces(ctx, pod.Spec.NodeName); err != nil {
				return found, nil, err
			}
			nodes[pod.Spec.NodeName] = interfaces
		}
		status := pod.Annotations[connectivity.StatusAnnotation]
		given, err := r.given(ctx, interfaces, found.Network, status)
		if err != nil {
			return found, nil, err
		}
		choice := podservice.Choose(found.Network, podservice.Pod{Status: status, Published: published[pod.UID]}, given)
		if len(choice.Refused) > 0 || choice.Err != nil {
			found.Refused = append(found.Refused, podservice.Refusal{Namespace: pod.Namespace, Pod: pod.Name,
				Node: pod.Spec.NodeName, Addresses: choice.Refused, Err: choice.Err})
		}
		if slices.ContainsFunc(choice.Addresses, func(a netip.Addr) bool { return hasFamily(service, a) }) {
			pods = append(pods, withAddresses(pod, service, choice.Addresses))
		}
	}
	if found.Published = len(pods); found.Published == 0 {
		found.Exists, err = r.exists(ctx, found.Network)
	}
	return found, pods, err
}

// selected returns the pods of a Service. If its selector cannot be used, these are the pods that are endpoints
// already: a mistake of the author removes none.
func (r *Reconciler) selected(
	ctx context.Context, service *corev1.Service, published map[types.UID][]netip.Addr,
) ([]corev1.Pod, error) {
	var list corev1.PodList
	chosen, err := selector(service)
	if err == nil {
		err = r.Client.List(ctx, &list, client.InNamespace(service.Namespace),
			client.MatchingLabelsSelector{Selector: chosen}, client.UnsafeDisableDeepCopy)
		return list.Items, err
	}
	if len(published) == 0 {
		return nil, nil
	}
	if err := r.Client.List(ctx, &list, client.InNamespace(service.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var kept []corev1.Pod
	for _, pod := range list.Items {
		if published[pod.UID] != nil {
			kept = append(kept, pod)
		}
	}
	return kept, nil
}

// publishedBy returns the addresses of each pod in slices.
func publishedBy(existing []*discoveryv1.EndpointSlice) map[types.UID][]netip.Addr {
	published := map[types.UID][]netip.Addr{}
	for _, slice := range existing {
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				address, err := netip.ParseAddr(text)
				if err == nil && endpoint.TargetRef != nil {
					published[endpoint.TargetRef.UID] = append(published[endpoint.TargetRef.UID], address)
				}
			}
		}
	}
	return published
}

// interfaces returns the interfaces of a node, without those of an instance that had the name of the node before.
func (r *Reconciler) interfaces(ctx context.Context, name string) ([]v1alpha1.NetworkInterface, error) {
	all, err := object.OfNode(ctx, r.Client, name)
	if err != nil {
		return nil, err
	}
	var node corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &node); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	ids := controller.Indexed(&node)
	return slices.DeleteFunc(slices.Clone(all), func(i v1alpha1.NetworkInterface) bool {
		return len(ids) > 0 && !slices.Contains(ids, i.Spec.InstanceID)
	}), nil
}

// given returns what a network gave to pods of a node, as far as it concerns the addresses of a status annotation. A
// node without an interface of the network says nothing: its object may be lost.
func (r *Reconciler) given(
	ctx context.Context, interfaces []v1alpha1.NetworkInterface, network, status string,
) (given podservice.Given, err error) {
	for n := range interfaces {
		i := &interfaces[n]
		if !isOn(i, network) {
			continue
		}
		given.Known = true
		given.Prefixes = append(given.Prefixes, prefixes(i)...)
		if i.Spec.Pods.Attachment == v1alpha1.PodAttachmentHostDevice {
			given.Addresses = append(given.Addresses, own(i)...)
		}
		held, err := r.held(ctx, i, status)
		if err != nil {
			return given, err
		}
		given.Addresses = append(given.Addresses, held...)
	}
	return given, nil
}

// isOn reports whether an interface has the network of a name.
func isOn(i *v1alpha1.NetworkInterface, network string) bool {
	has := netattach.Network{NodeENI: i.Spec.NodeENI.Name, Ordinal: int(i.Spec.Ordinal)}
	return i.Spec.Pods != nil && i.Status.ENIID != "" && has.Name() == network
}

// prefixes returns the prefixes that the interface grants to pods.
func prefixes(i *v1alpha1.NetworkInterface) (all []netip.Prefix) {
	if i.Status.Pods == nil {
		return nil
	}
	for _, text := range i.Status.Pods.Prefixes {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

// own returns the addresses of an interface that one pod has.
func own(i *v1alpha1.NetworkInterface) (all []netip.Addr) {
	for _, text := range append([]string{i.Status.Addresses.PrivateIP}, i.Status.Addresses.IPv6Addresses...) {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, address)
		}
	}
	return all
}

// held returns the addresses of a status annotation that pods of the node hold on an interface as FloatingAddresses.
func (r *Reconciler) held(
	ctx context.Context, i *v1alpha1.NetworkInterface, status string,
) (all []netip.Addr, err error) {
	entries, _ := connectivity.Attachments(status)
	for _, entry := range entries {
		addresses, _ := entry.Addresses() // [podservice.Choose] reports the error
		for _, address := range addresses {
			var floating v1alpha1.FloatingAddress
			name := v1alpha1.FloatingAddressName(i.Status.SubnetID, address.String())
			if !address.Is4() || entry.Default {
				continue
			}
			err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &floating, client.UnsafeDisableDeepCopy)
			if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			holder := floating.Status.Holder
			if err == nil && holder != nil && holder.NodeName == i.Spec.NodeName && holder.ENIID == i.Status.ENIID {
				all = append(all, address)
			}
		}
	}
	return all, nil
}

// exists reports whether a NodeENI with pods has the network.
func (r *Reconciler) exists(ctx context.Context, network string) (bool, error) {
	name := netattach.NodeENIOf(network)
	if name == "" {
		return false, nil
	}
	var nodeENI v1alpha1.NodeENI
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &nodeENI); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return nodeENI.Spec.Pods != nil, nil
}

// withAddresses returns a copy of a pod whose addresses are those on a network. A pod with a hostname, as those of a
// StatefulSet, gets its name in the domain of this Service too: its own subdomain can be that of one Service only.
func withAddresses(pod *corev1.Pod, service *corev1.Service, addresses []netip.Addr) *corev1.Pod {
	published := *pod
	published.Status.PodIP, published.Status.PodIPs = "", nil
	for _, address := range addresses {
		published.Status.PodIPs = append(published.Status.PodIPs, corev1.PodIP{IP: address.String()})
	}
	published.Spec.Subdomain = service.Name
	return &published
}
