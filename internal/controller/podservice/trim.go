// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podservice

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/connectivity"
)

// Caches returns what the manager's cache must keep of the kinds that only this controller reads: running pods,
// Services and the slices of this controller, each reduced to what it uses. The cache has them only if the controller
// is set up.
func Caches() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Transform: trimPod,
			Field: fields.AndSelectors(fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed))),
		},
		&corev1.Service{}: {Transform: trimService},
		&discoveryv1.EndpointSlice{}: {
			Label: labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: v1alpha1.EndpointSliceManager}),
		},
	}
}

// trimPod is a cache transform that keeps what an endpoint consists of. Of a pod without a further network only its
// identity and its labels remain.
func trimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{ObjectMeta: identity(pod), Status: corev1.PodStatus{Phase: pod.Status.Phase}}
	slim.Labels = pod.Labels
	status := trimStatus(pod.Annotations[connectivity.StatusAnnotation])
	if status == "" {
		return slim, nil
	}
	slim.Annotations = map[string]string{connectivity.StatusAnnotation: status}
	slim.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Hostname: pod.Spec.Hostname,
		Containers: trimContainers(pod.Spec.Containers), InitContainers: trimContainers(pod.Spec.InitContainers)}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			slim.Status.Conditions = []corev1.PodCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return slim, nil
}

// identity returns the metadata that every cached object keeps.
func identity(object client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), DeletionTimestamp: object.GetDeletionTimestamp(),
	}
}

// trimStatus returns the entries of a status annotation without that of the network of the cluster; "" for none. It
// keeps an annotation that it cannot read, for the Event.
func trimStatus(status string) string {
	entries, err := connectivity.Attachments(status)
	if err != nil {
		return status
	}
	entries = slices.DeleteFunc(entries, func(a connectivity.Attachment) bool { return a.Default })
	if len(entries) == 0 {
		return ""
	}
	trimmed, err := json.Marshal(entries)
	if err != nil {
		return status
	}
	return string(trimmed)
}

// trimContainers keeps the named ports of containers, which targetPort of a Service can name.
func trimContainers(containers []corev1.Container) (slim []corev1.Container) {
	for _, container := range containers {
		kept := corev1.Container{RestartPolicy: container.RestartPolicy}
		for _, port := range container.Ports {
			if port.Name != "" {
				kept.Ports = append(kept.Ports, port)
			}
		}
		if len(kept.Ports) > 0 {
			slim = append(slim, kept)
		}
	}
	return slim
}

// trimService is a cache transform that keeps only the identity of a Service that publishes no pod network.
func trimService(object any) (any, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	if !isDeclared(service) {
		return &corev1.Service{ObjectMeta: identity(service)}, nil
	}
	service.ManagedFields = nil
	return service, nil
}
