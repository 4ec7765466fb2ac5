// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/podnetwork"
	"github.com/multieni/multieni/internal/core/report"
)

// waitingPods returns the pods that are Pending for lack of an address of a pod network. Without a pod network it reads
// no pods.
func (o objects) waitingPods(ctx context.Context, api client.Reader) ([]report.WaitingPods, error) {
	owners := map[string]string{}
	for i := range o.nodeENIs {
		for _, network := range podnetwork.Networks(&o.nodeENIs[i]) {
			owners[network.Name()] = o.nodeENIs[i].Name
		}
	}
	if len(owners) == 0 {
		return nil, nil
	}
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.MatchingFields{"spec.nodeName": ""}); err != nil {
		return nil, fmt.Errorf("list pods without a node: %w", err)
	}
	var demands []report.PodDemand
	for i := range pods.Items {
		if demand := demandOfPod(&pods.Items[i]); len(demand.Networks) > 0 {
			demands = append(demands, demand)
		}
	}
	offers := map[string]int{}
	for i := range o.nodes {
		for name, quantity := range o.nodes[i].Status.Allocatable {
			if network, is := strings.CutPrefix(string(name), v1alpha1.AddressesResourcePrefix); is && !quantity.IsZero() {
				offers[network]++
			}
		}
	}
	return report.Waiting(demands, offers, owners), nil
}

// demandOfPod returns the networks whose addresses a pod requests, if the scheduler has found no node for it.
func demandOfPod(pod *corev1.Pod) report.PodDemand {
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
	if at < 0 || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return report.PodDemand{}
	}
	requested, lacking := map[string]bool{}, map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name, quantity := range c.Resources.Requests {
			network, is := strings.CutPrefix(string(name), v1alpha1.AddressesResourcePrefix)
			if !is || quantity.IsZero() {
				continue
			}
			requested[network] = true
			// The scheduler ends the name with a comma or a period (plugin NodeResourcesFit, "Insufficient NAME").
			said := pod.Status.Conditions[at].Message + ","
			if text := "Insufficient " + string(name); strings.Contains(said, text+",") || strings.Contains(said, text+".") {
				lacking[network] = true
			}
		}
	}
	return report.PodDemand{
		Name: pod.Namespace + "/" + pod.Name, Networks: slices.Sorted(maps.Keys(requested)),
		Lacking: slices.Sorted(maps.Keys(lacking)),
	}
}

// waitingPods warns about pods that are Pending for lack of an address of a pod network.
func (d *doctor) waitingPods(ctx context.Context, o objects) {
	const check = "pending pods"
	all, err := o.waitingPods(ctx, d.api)
	if err != nil {
		d.add(report.Warning, check, err.Error(), "Ask for permission to list pods.")
		return
	}
	for _, w := range all {
		d.add(report.Warning, check, report.Page{}.Names(w.Pods)+": "+w.Cause(), w.Next())
	}
}
