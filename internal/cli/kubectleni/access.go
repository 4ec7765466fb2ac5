// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/clustername"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/text"
)

// controllerComponent is the label of the controller's pods.
var controllerComponent = client.MatchingLabels{"app.kubernetes.io/component": "eni-controller"}

// checkOwnAccess is the command that checks the controller's own access to EC2.
const checkOwnAccess = "kubectl exec -n %s deployment/eni-controller -- /multieni doctor, and kubectl logs -n %s " +
	"deployment/eni-controller."

// pods checks whether the controller's pods are ready: one that cannot read EC2, or has another cluster name, is not.
func (d *doctor) pods(ctx context.Context) {
	var pods corev1.PodList
	var events eventsv1.EventList
	if err := d.api.List(ctx, &pods, client.InNamespace(d.namespace), controllerComponent); err != nil {
		d.add(report.Warning, "controller pods", "they cannot be listed: "+err.Error(),
			"Ask for permission to list pods in "+d.namespace+".")
		return
	}
	if err := d.api.List(ctx, &events, client.InNamespace(d.namespace)); err != nil {
		events.Items = nil // they only say more
	}
	ready := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if isReady(pod) {
			ready++
			continue
		}
		d.add(report.Failed, "controller pods",
			fmt.Sprintf("pod %s is not ready: %s", pod.Name, whyNotReady(pod, events.Items)),
			fmt.Sprintf(checkOwnAccess, d.namespace, d.namespace))
	}
	if ready > 0 && ready == len(pods.Items) {
		d.add(report.OK, "controller pods", fmt.Sprintf("all %d are ready, and can read EC2", ready), "")
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// whyNotReady returns why a pod of the controller is not ready: what its container waits for, what the controller says
// in its latest Event, or how its container ended.
func whyNotReady(pod *corev1.Pod, events []eventsv1.Event) string {
	var said *eventsv1.Event
	for i := range events {
		e := &events[i]
		ours := e.Reason == v1alpha1.ReasonUnreadable || e.Reason == v1alpha1.ReasonOtherClusterName
		if ours && e.Regarding.Kind == "Pod" && e.Regarding.Name == pod.Name &&
			(said == nil || said.EventTime.Before(&e.EventTime)) {
			said = e
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			ended := ""
			if last := c.LastTerminationState.Terminated; last != nil {
				ended = "; it ended with: " + cmp.Or(last.Message, last.Reason)
			}
			return cmp.Or(c.State.Waiting.Message, c.State.Waiting.Reason) + ended
		}
	}
	if said != nil {
		return said.Note
	}
	return cmp.Or(pod.Status.Message, fmt.Sprintf("its phase is %s; its log says why", pod.Status.Phase))
}

// unable reports what the controller says about its own access in the condition of the first NodeENI that has such a
// reason.
func (d *doctor) unable(o objects) {
	for _, n := range o.fleet().NodeENIs {
		if n.Ready.Status == "False" && !n.NotObserved && slices.Contains([]string{
			v1alpha1.ReasonUnreadable, v1alpha1.ReasonOtherClusterName}, n.Ready.Reason) {
			d.add(report.Failed, "controller access", fmt.Sprintf("NodeENI %s: %s: %s", n.Name, n.Ready.Reason, n.Ready.Message),
				report.Remediation(n.Ready.Reason))
			return
		}
	}
}

// otherNames reports interfaces of the cluster's NetworkInterfaces with the name of another cluster in their tags.
func (d *doctor) otherNames(ctx context.Context, cloud ec2, o objects) {
	found, err := clustername.CountByName(ctx, cloud, uidsOf(o))
	if err != nil {
		d.add(report.Warning, "cluster name", err.Error(), "Repeat the check.")
		return
	}
	delete(found, cloud.cluster)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		d.add(report.Failed, "cluster name", fmt.Sprintf("%s of this cluster's NodeENIs have the cluster name %s, and not %s",
			text.Count(found[name], "interface"), name, cloud.cluster), report.OtherNameAdvice)
	}
	if len(found) == 0 {
		d.add(report.OK, "cluster name", cloud.cluster, "")
	}
}

// uidsOf returns the UIDs of the NetworkInterfaces, which are in the tags of their ENIs.
func uidsOf(o objects) []identity.UID {
	var uids []identity.UID
	for i := range o.interfaces {
		uids = append(uids, identity.UID(o.interfaces[i].UID))
	}
	return uids
}
