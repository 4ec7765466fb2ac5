// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/podnetwork"
	"github.com/multieni/multieni/internal/core/connectivity"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/netattach"
	"github.com/multieni/multieni/internal/core/podnet"
)

// gather reads what the API server has about the network and two of its pods.
func (k *check) gather(ctx context.Context, api client.Reader) (connectivity.Facts, error) {
	var facts connectivity.Facts
	var nodeENIs v1alpha1.NodeENIList
	if err := api.List(ctx, &nodeENIs); err != nil {
		return facts, unlisted("NodeENIs", err)
	}
	network, ordinal, err := findNetwork(nodeENIs.Items, k.network)
	if err != nil {
		return facts, err
	}
	facts.Network, facts.Traffic = network, k.traffic
	var interfaces v1alpha1.NetworkInterfaceList
	if err := api.List(ctx, &interfaces); err != nil {
		return facts, unlisted("NetworkInterfaces", err)
	}
	nodes := map[string]placement{}
	for i := range interfaces.Items {
		n := &interfaces.Items[i]
		if n.Spec.NodeENI.Name == network.NodeENI && int(n.Spec.Ordinal) == ordinal && n.Status.ENIID != "" {
			nodes[n.Spec.NodeName] = placementOf(n)
		}
	}
	names, err := k.choose(ctx, api, network, nodes)
	if err != nil {
		return facts, err
	}
	for i, name := range names {
		pod, noMultus, err := readPod(ctx, api, name)
		if err != nil {
			return facts, err
		}
		pod.Report, pod.Interface = nodes[pod.Node].report, nodes[pod.Node].networkInterface
		facts.Pods[i], facts.NoMultus = pod, facts.NoMultus || noMultus
	}
	return facts, nil
}

// findNetwork returns the pod network with the name, and the ordinal of its interface among those of the NodeENI.
func findNetwork(nodeENIs []v1alpha1.NodeENI, name string) (connectivity.Network, int, error) {
	for i := range nodeENIs {
		n := &nodeENIs[i]
		networks := podnetwork.Networks(n)
		if n.Spec.Pods != nil && n.Spec.Pods.Attachment == v1alpha1.PodAttachmentObserved {
			networks = []netattach.Network{{NodeENI: n.Name}}
		}
		for _, one := range networks {
			if one.Name() == name {
				return connectivity.Network{
					Name: name, NodeENI: n.Name, Attachment: podnet.Attachment(n.Spec.Pods.Attachment),
					Link: hostnet.AltName(one.LinkName()),
				}, one.Ordinal, nil
			}
		}
		if n.Name == name {
			return connectivity.Network{}, 0, fmt.Errorf("NodeENI %s has no spec.pods, so it is no pod network; see "+
				"docs/pod-networks.md", name)
		}
	}
	return connectivity.Network{}, 0, fmt.Errorf("there is no pod network %s: no NodeENI has that name; see kubectl get "+
		"nodeeni", name)
}

// placement is what the NetworkInterface of a node has about the network.
type placement struct {
	report           *connectivity.Report
	networkInterface *connectivity.Interface
}

func placementOf(n *v1alpha1.NetworkInterface) placement {
	p := placement{networkInterface: interfaceOf(n)}
	if r := n.Status.Node; r != nil && r.Pods != nil {
		p.report = &connectivity.Report{Ready: r.Pods.Ready, Reason: r.Pods.Reason, Message: r.Pods.Message}
	}
	return p
}

func interfaceOf(n *v1alpha1.NetworkInterface) *connectivity.Interface {
	one := &connectivity.Interface{ID: n.Status.ENIID, InstanceID: n.Spec.InstanceID}
	for _, subnet := range n.Spec.Subnets {
		if subnet.ID == n.Status.SubnetID {
			one.Subnets = prefixes(subnet.CIDR, subnet.IPv6CIDR)
		}
	}
	if n.Spec.Pods != nil {
		one.Routes = prefixes(n.Spec.Pods.Routes...)
	}
	return one
}

// prefixes parses ranges. The API server accepts only valid ones; an unknown one is empty.
func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// readPod reads a pod and the definitions that it names, and returns whether the cluster knows no definitions.
func readPod(
	ctx context.Context, api client.Reader, name connectivity.PodName,
) (pod connectivity.Pod, noMultus bool, err error) {
	pod = connectivity.Pod{PodName: name, Definitions: map[connectivity.PodName]string{}}
	var object corev1.Pod
	err = api.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: name.Name}, &object)
	if apierrors.IsNotFound(err) {
		pod.Absent = true
		return pod, false, nil
	}
	if err != nil {
		return pod, false, fmt.Errorf("read pod %s: %w", name, err)
	}
	pod.Node, pod.Phase = object.Spec.NodeName, string(object.Status.Phase)
	pod.HostNetwork = object.Spec.HostNetwork
	pod.Annotation = object.Annotations[connectivity.NetworksAnnotation]
	pod.Status = object.Annotations[connectivity.StatusAnnotation]
	requested, err := connectivity.Requested(name.Namespace, pod.Annotation)
	if err != nil {
		return pod, false, nil //nolint:nilerr // the step annotation says so
	}
	for _, one := range requested {
		config, exists, err := readDefinition(ctx, api, one)
		switch {
		case meta.IsNoMatchError(err):
			return pod, true, nil
		case err != nil:
			return pod, false, err
		case exists:
			pod.Definitions[one] = config
		}
	}
	return pod, false, nil
}

// readDefinition reads the configuration of a NetworkAttachmentDefinition.
func readDefinition(
	ctx context.Context, api client.Reader, name connectivity.PodName,
) (config string, exists bool, err error) {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{
		Group: netattach.Group, Version: netattach.Version, Kind: netattach.Kind,
	})
	err = api.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: name.Name}, definition)
	if apierrors.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read NetworkAttachmentDefinition %s: %w", name, err)
	}
	config, _, _ = unstructured.NestedString(definition.Object, "spec", "config")
	return config, true, nil
}

// podsOf returns the pods that request the network, by the node that runs them.
func podsOf(
	ctx context.Context, api client.Reader, network connectivity.Network, nodes map[string]placement,
) (map[string][]connectivity.PodName, error) {
	var pods corev1.PodList
	if err := api.List(ctx, &pods); err != nil {
		return nil, fmt.Errorf("list pods: %w; name two pods to check", err)
	}
	ofNetwork := map[connectivity.PodName]bool{}
	onNodes := map[string][]connectivity.PodName{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		_, placed := nodes[pod.Spec.NodeName]
		requested, err := connectivity.Requested(pod.Namespace, pod.Annotations[connectivity.NetworksAnnotation])
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if err != nil || !placed || ended {
			continue
		}
		for _, one := range requested {
			if _, known := ofNetwork[one]; !known {
				config, _, err := readDefinition(ctx, api, one)
				if err != nil && !meta.IsNoMatchError(err) {
					return nil, err
				}
				ofNetwork[one] = one.Name == network.Name || network.Has(config)
			}
			if ofNetwork[one] {
				name := connectivity.PodName{Namespace: pod.Namespace, Name: pod.Name}
				onNodes[pod.Spec.NodeName] = append(onNodes[pod.Spec.NodeName], name)
			}
		}
	}
	return onNodes, nil
}

// gatherEC2 reads the interfaces of both pods, and their security groups.
func (k *check) gatherEC2(ctx context.Context, api client.Client, facts *connectivity.Facts) error {
	var ids []string
	for _, pod := range facts.Pods {
		if pod.Interface != nil {
			ids = append(ids, pod.Interface.ID)
		}
	}
	if len(ids) == 0 {
		return nil // a step before those of EC2 fails
	}
	cloud, err := k.cloud.open(ctx, api, "")
	if err != nil {
		return err
	}
	interfaces, err := cloud.Interfaces(ctx, slices.Compact(ids))
	if err != nil {
		return err
	}
	byID := map[string]eni.Interface{}
	var groups []string
	for _, i := range interfaces {
		byID[i.ID] = i
		groups = append(groups, i.Groups...)
	}
	slices.Sort(groups)
	rules, err := cloud.SecurityGroupRules(ctx, slices.Compact(groups))
	if err != nil {
		return err
	}
	facts.EC2 = &connectivity.EC2{Interfaces: byID, Groups: rules}
	return nil
}
