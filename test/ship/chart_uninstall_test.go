// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// particular are values of a cluster whose nodes are tainted, and that reaches AWS through a proxy.
const particular = `
instanceTags: [kubernetes.io/cluster/prod]
nodeCluster: {name: prod, endpoint: https://prod.example.com}
imagePullSecrets: [{name: registry}]
podAnnotations: {sidecar.istio.io/inject: "false"}
podLabels: {team: network}
controller:
  extraArgs: [--ec2-buckets=AttachNetworkInterface=50/5]
  extraEnv: [{name: AWS_USE_FIPS_ENDPOINT, value: "true"}]
  proxy: {url: "http://proxy.example.com:3128"}
  nodeSelector: {pool: system}
  tolerations: [{key: dedicated, operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: eks.amazonaws.com/compute-type, operator: NotIn, values: [fargate]}]}]
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/name: multieni}}}
  priorityClassName: of-the-platform
networkPolicy: {enabled: true}
`

// controllerAndDrain returns the pods of the controller and of the Job of an uninstallation.
func controllerAndDrain(t *testing.T, values string) (controller, drain corev1.PodTemplateSpec) {
	t.Helper()
	all := render(t, values)
	var deployment appsv1.Deployment
	var job batchv1.Job
	convert(t, named(all, "Deployment", "eni-controller"), &deployment)
	convert(t, named(all, "Job", "eni-controller-drain"), &job)
	return deployment.Spec.Template, job.Spec.Template
}

// The Job of an uninstallation runs where the controller runs, and reaches AWS as the controller does: else it stays
// Pending on tainted nodes, or waits for EC2 behind a proxy until its time is over.
func TestTheUninstallationRunsLikeTheController(t *testing.T) {
	controller, drain := controllerAndDrain(t, particular)
	for what, values := range map[string][2]any{
		"the environment":    {controller.Spec.Containers[0].Env, drain.Spec.Containers[0].Env},
		"the node selector":  {controller.Spec.NodeSelector, drain.Spec.NodeSelector},
		"the tolerations":    {controller.Spec.Tolerations, drain.Spec.Tolerations},
		"the node affinity":  {controller.Spec.Affinity.NodeAffinity, drain.Spec.Affinity.NodeAffinity},
		"the priority class": {controller.Spec.PriorityClassName, drain.Spec.PriorityClassName},
		"the pull secrets":   {controller.Spec.ImagePullSecrets, drain.Spec.ImagePullSecrets},
		"the annotations":    {controller.Annotations, drain.Annotations},
		"the user's label":   {controller.Labels["team"], drain.Labels["team"]},
		"the arguments": {controller.Spec.Containers[0].Args[1:],
			slices.DeleteFunc(slices.Clone(drain.Spec.Containers[0].Args[2:]), func(a string) bool { return strings.HasPrefix(a, "--timeout=") })},
	} {
		if diff := cmp.Diff(values[0], values[1]); diff != "" {
			t.Errorf("%s (-controller +uninstallation):\n%s", what, diff)
		}
	}
	if drain.Spec.Affinity.PodAntiAffinity != nil {
		t.Error("the affinity to pods keeps the uninstallation from the controller's nodes")
	}
}

// Objects of the controller do not take the pod of an uninstallation for one of its replicas, and the network policy
// covers both.
func TestSelectorsOfTheController(t *testing.T) {
	controller, drain := controllerAndDrain(t, particular)
	all := render(t, particular)
	var budget policyv1.PodDisruptionBudget
	convert(t, named(all, "PodDisruptionBudget", "eni-controller"), &budget)
	var service corev1.Service
	convert(t, named(all, "Service", "eni-controller-metrics"), &service)
	var deployment appsv1.Deployment
	convert(t, named(all, "Deployment", "eni-controller"), &deployment)
	var policy networkingv1.NetworkPolicy
	convert(t, named(all, "NetworkPolicy", "eni-controller"), &policy)
	for object, c := range map[string]struct {
		selector *metav1.LabelSelector
		drain    bool
	}{
		"the Deployment": {deployment.Spec.Selector, false}, "the PodDisruptionBudget": {budget.Spec.Selector, false},
		"the Service":       {&metav1.LabelSelector{MatchLabels: service.Spec.Selector}, false},
		"the NetworkPolicy": {&policy.Spec.PodSelector, true},
	} {
		selector, err := metav1.LabelSelectorAsSelector(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		if !selector.Matches(labels.Set(controller.Labels)) {
			t.Errorf("%s does not select the controller", object)
		}
		if selector.Matches(labels.Set(drain.Labels)) != c.drain {
			t.Errorf("%s selects the pod of an uninstallation: %t", object, !c.drain)
		}
	}
}
