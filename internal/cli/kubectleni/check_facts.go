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
	var states v1alpha1.NodeENIStateList
	if err := api.List(ctx, &states); err != nil {
		return facts, unlisted("NodeENIStates", err)
	}
	nodes := map[string]placement{}
	onNodes := map[string][]connectivity.Lessee{}
	for i := range states.Items {
		place := placementOf(&states.Items[i], network, ordinal)
		nodes[states.Items[i].Name] = place
		if place.report != nil {
			onNodes[states.Items[i].Name] = place.report.Pods
		}
	}
	names, err := k.choose(onNodes)
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

// placement is what the NodeENIState of a node has about the network.
type placement struct {
	report           *connectivity.Report
	networkInterface *connectivity.Interface
}

func placementOf(state *v1alpha1.NodeENIState, network connectivity.Network, ordinal int) placement {
	var p placement
	for _, i := range state.Status.Interfaces {
		if i.NodeENI == network.NodeENI && int(i.Ordinal) == ordinal && i.ENIID != "" {
			p.networkInterface = interfaceOf(state, i)
		}
	}
	if p.networkInterface == nil {
		return p
	}
	for _, n := range state.Status.PodNetworks {
		if n.Network != network.Name || n.ENIID != p.networkInterface.ID {
			continue
		}
		p.report = &connectivity.Report{
			Ready: n.Ready, Reason: n.Reason, Message: n.Message, Omitted: int(n.PodsOmitted),
		}
		for _, pod := range n.Pods {
			p.report.Pods = append(p.report.Pods, connectivity.Lessee{
				PodName: connectivity.PodName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID,
			})
		}
	}
	return p
}

func interfaceOf(state *v1alpha1.NodeENIState, i v1alpha1.InterfaceState) *connectivity.Interface {
	one := &connectivity.Interface{ID: i.ENIID, InstanceID: state.Spec.InstanceID}
	one.Subnets = prefixes(i.SubnetCIDR)
	if i.Pods != nil {
		one.Subnets = append(one.Subnets, prefixes(i.Pods.SubnetIPv6CIDR)...)
		one.Routes = prefixes(i.Pods.Routes...)
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
	pod.UID, pod.Node, pod.Phase = string(object.UID), object.Spec.NodeName, string(object.Status.Phase)
	pod.HostNetwork = object.Spec.HostNetwork
	pod.Annotation = object.Annotations[connectivity.NetworksAnnotation]
	pod.Status = object.Annotations[connectivity.StatusAnnotation]
	requested, err := connectivity.Requested(name.Namespace, pod.Annotation)
	if err != nil {
		return pod, false, nil //nolint:nilerr // the step annotation says so
	}
	for _, one := range requested {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(schema.GroupVersionKind{
			Group: netattach.Group, Version: netattach.Version, Kind: netattach.Kind,
		})
		err := api.Get(ctx, client.ObjectKey{Namespace: one.Namespace, Name: one.Name}, definition)
		switch {
		case meta.IsNoMatchError(err):
			return pod, true, nil
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return pod, false, fmt.Errorf("read NetworkAttachmentDefinition %s: %w", one, err)
		}
		config, _, _ := unstructured.NestedString(definition.Object, "spec", "config")
		pod.Definitions[one] = config
	}
	return pod, false, nil
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
