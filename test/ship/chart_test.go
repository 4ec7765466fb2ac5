// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	_ "github.com/multieni/multieni/internal/cli" // the controller, whose parts register their metrics
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/cli/telemetry"
)

const chart = "charts/multieni"

// everything are values with which the chart renders all its objects.
const everything = `
awsRegion: eu-west-1
clusterName: prod
reserveNodeKeys: true
nodeSelector: {ng: multi-eni}
image: {tag: v9.9.9}
imagePullSecrets: [{name: registry}]
controller:
  extraArgs: [--max-concurrent-nodes=64]
  extraEnv: [{name: AWS_USE_FIPS_ENDPOINT, value: "true"}]
  nodeSelector: {pool: system}
  tolerations: [{operator: Exists}]
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
eniManager:
  ignoreInterfaces: [eth7, eth8]
  dpdk: true
  networkd: true
  extraArgs: [--default-mtu=1500]
pods: {enabled: true, eviction: true, requestAddresses: true}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/multieni"}}
podAnnotations: {note: "yes"}
podLabels: {team: network}
metrics: {service: true, serviceMonitor: true, prometheusRule: true, dashboard: true, secure: true, certSecret: metrics-tls, labels: {release: prometheus}}
networkPolicy: {enabled: true, metricsFrom: {kubernetes.io/metadata.name: monitoring}}
extraObjects:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: extra, namespace: "{{ .Values.namespace }}"}
`

// variants are ways to set the chart.
var variants = map[string]string{
	"as it comes": "",
	"everything":  everything,
	"as little as possible": `
eniManager: {enabled: false}
uninstall: {drain: false}
crds: {enabled: false}
metrics: {service: false}
controller: {replicas: 1}
`,
}

// render returns the objects that helm renders, including hooks.
func render(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return objects(t, mustHelm(t, "template", "multieni", chart, "--values", file))
}

// objects reads a file of objects.
func objects(t *testing.T, content string) []*unstructured.Unstructured {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(content), 4096)
	var all []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		case object.Object != nil:
			all = append(all, object)
		}
	}
}

func named(all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for _, object := range all {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	return nil
}

// The API server accepts every object that the chart renders, with every field.
func TestChartIsAcceptedByTheAPIServer(t *testing.T) {
	c := connect(t)
	defineMonitoring(t, c)
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			all := render(t, values)
			slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
			for _, object := range all {
				target := client.NewDryRunClient(strict)
				if rank(object) == 0 {
					target = strict // the namespace of other objects must exist
				}
				if err := target.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("helm"), client.ForceOwnership); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
}

func rank(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace", "ServiceAccount":
		return 0
	}
	return 1
}

// defineMonitoring defines the kinds of the Prometheus operator in the API server, without schemas.
func defineMonitoring(t *testing.T, c client.Client) {
	t.Helper()
	for plural, kind := range map[string]string{"servicemonitors": "ServiceMonitor", "prometheusrules": "PrometheusRule"} {
		definition := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: %[1]s, kind: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, kind)
		for _, object := range objects(t, definition) {
			if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The pod security levels of the namespaces admit the pods: restricted for the controller.
func TestPodsKeepToTheSecurityOfTheirNamespaces(t *testing.T) {
	c := connect(t)
	all := render(t, everything)
	for _, object := range all {
		if rank(object) == 0 {
			if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("helm"), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
		}
	}
	var controller appsv1.Deployment
	var agent appsv1.DaemonSet
	var drain batchv1.Job
	convert(t, named(all, "Deployment", "eni-controller"), &controller)
	convert(t, named(all, "DaemonSet", "eni-manager"), &agent)
	convert(t, named(all, "Job", "eni-controller-drain"), &drain)
	if level := namespaceLevel(t, c, controller.Namespace); level != "restricted" {
		t.Errorf("the controller's namespace is %s, want restricted", level)
	}
	for namespace, template := range map[string]corev1.PodTemplateSpec{
		controller.Namespace: controller.Spec.Template, drain.Namespace: drain.Spec.Template, agent.Namespace: agent.Spec.Template,
	} {
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace, pod.Name = namespace, "try"
		if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("a pod in %s: %v", namespace, err)
		}
	}
	intruder := &corev1.Pod{Spec: agent.Spec.Template.Spec}
	intruder.Namespace, intruder.Name, intruder.Spec.ServiceAccountName = controller.Namespace, "intruder", "eni-controller"
	if err := c.Create(t.Context(), intruder, client.DryRunAll); err == nil {
		t.Error("the controller's namespace lets pods in that use the network of the host")
	}
}

func namespaceLevel(t *testing.T, c client.Client, name string) string {
	t.Helper()
	var namespace corev1.Namespace
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Labels["pod-security.kubernetes.io/enforce"]
}

func convert(t *testing.T, from *unstructured.Unstructured, to runtime.Object) {
	t.Helper()
	if from == nil {
		t.Fatalf("the chart renders no %T", to)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		t.Fatal(err)
	}
}

// Commands and scripts for the aws-multi-eni-controller find what they use under its names.
func TestChartKeepsTheNamesOfItsPredecessor(t *testing.T) {
	all := render(t, "awsRegion: eu-west-1\nimage: {tag: v2}\nnodeSelector: {ng: multi-eni}\n")
	var controller appsv1.Deployment
	convert(t, named(all, "Deployment", "eni-controller"), &controller)
	var agent appsv1.DaemonSet
	convert(t, named(all, "DaemonSet", "eni-manager"), &agent)
	container := controller.Spec.Template.Spec.Containers[0]
	environment := map[string]string{}
	for _, variable := range container.Env {
		environment[variable.Name] = variable.Value
	}
	got := map[string]any{
		"namespace": controller.Namespace, "image": container.Image, "agents": agent.Spec.Template.Spec.NodeSelector,
		"AWS_REGION": environment["AWS_REGION"], "MAX_CONCURRENT_RECONCILES": environment["MAX_CONCURRENT_RECONCILES"],
		"MAX_CONCURRENT_ENI_CLEANUP": environment["MAX_CONCURRENT_ENI_CLEANUP"],
	}
	want := map[string]any{
		"namespace": "eni-controller-system", "image": "ghcr.io/multieni/multieni:v2",
		"agents":     map[string]string{"kubernetes.io/os": "linux", "ng": "multi-eni"},
		"AWS_REGION": "eu-west-1", "MAX_CONCURRENT_RECONCILES": "5", "MAX_CONCURRENT_ENI_CLEANUP": "3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The chart hands the values of the cluster to the controller as flags that it accepts.
func TestNodeClusterIsAFlagOfTheController(t *testing.T) {
	var controller appsv1.Deployment
	convert(t, named(render(t, "nodeCluster: {name: prod, endpoint: https://prod.example.com, serviceCIDR: 10.100.0.0/16}\n"), "Deployment", "eni-controller"), &controller)
	got := slices.DeleteFunc(controller.Spec.Template.Spec.Containers[0].Args, func(arg string) bool { return !strings.HasPrefix(arg, "--node-cluster") })
	want := []string{"--node-cluster=endpoint=https://prod.example.com", "--node-cluster=name=prod", "--node-cluster=serviceCIDR=10.100.0.0/16"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var parsed options.Controller
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	parsed.Bind(flags)
	if err := errors.Join(flags.Parse(got), parsed.Validate()); err != nil {
		t.Errorf("the controller refuses %v: %v", got, err)
	}
	if diff := cmp.Diff(map[string]string{"name": "prod", "endpoint": "https://prod.example.com", "serviceCIDR": "10.100.0.0/16"}, parsed.NodeCluster); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// helm refuses invalid values, and names them.
func TestChartRefusesWrongValues(t *testing.T) {
	for name, c := range map[string]struct{ set, named string }{
		"a misspelt value":         {"awsRegoin=us-east-1", "awsRegoin"},
		"a zone as region":         {"awsRegion=us-east-1a", "awsRegion"},
		"a number as text":         {"controller.replicas=many", "replicas"},
		"a digest of nothing":      {"image.digest=latest", "digest"},
		"an unknown pull policy":   {"image.pullPolicy=Sometimes", "pullPolicy"},
		"an MTU beyond the limit":  {"eniManager.defaultMTU=9002", "defaultMTU"},
		"a share of nothing":       {"controller.ec2RateShare=0", "ec2RateShare"},
		"a name without endpoint":  {"nodeCluster.name=prod", "nodeCluster/endpoint"},
		"an endpoint without name": {"nodeCluster.endpoint=https://prod.example.com", "nodeCluster/endpoint"},
		"a proxy without a port":   {"controller.proxy.url=http://proxy.example.com", "controller/proxy/url"},
		"a proxy without a scheme": {"controller.proxy.url=proxy.example.com:3128", "controller/proxy/url"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := helm(t, "template", "multieni", chart, "--set", c.set)
			if err == nil || !strings.Contains(out, c.named) {
				t.Errorf("helm says %v and\n%s\nwant a complaint about %s", err, out, c.named)
			}
		})
	}
}

// The schema lists each value, and nothing else.
func TestSchemaListsTheValues(t *testing.T) {
	var schema, values map[string]any
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	listed := paths(schema["properties"].(map[string]any), "", func(v any) map[string]any {
		below, _ := v.(map[string]any)["properties"].(map[string]any)
		return below
	})
	valued := paths(values, "", func(v any) map[string]any { below, _ := v.(map[string]any); return below })
	former := formerValues(t)
	listed = slices.DeleteFunc(listed, func(path string) bool {
		answered := slices.ContainsFunc(slices.Collect(maps.Keys(former)), func(key string) bool { return strings.HasPrefix("."+key+".", path+".") })
		return path == ".global" /* helm's own */ || answered && !slices.Contains(valued, path)
	})
	// The schema lists nothing below a value that can be any object.
	valued = slices.DeleteFunc(valued, func(path string) bool { return strings.Contains(path, ".resources.") })
	if diff := cmp.Diff(valued, listed); diff != "" {
		t.Errorf("values.schema.json and values.yaml differ (-values +schema):\n%s", diff)
	}
}

// formerValues are the values of the predecessor's chart that this chart does not have, each with what to set instead.
func formerValues(t *testing.T) map[string]string {
	t.Helper()
	former := map[string]string{}
	if err := yaml.Unmarshal([]byte(read(t, chart+"/files/former-values.yaml")), &former); err != nil {
		t.Fatal(err)
	}
	return former
}

// The chart refuses a value file of the predecessor, with an answer for all of its values at once, and never deploys
// its image.
func TestChartAnswersTheValuesOfItsPredecessor(t *testing.T) {
	page := read(t, "docs/migration.md")
	for key, answer := range formerValues(t) {
		t.Run(key, func(t *testing.T) {
			out, err := helm(t, "template", "multieni", chart, "--set", key+"=1")
			if want := key + ": " + answer; err == nil || !strings.Contains(out, want) {
				t.Errorf("helm says %v and\n%s\nwant %s", err, out, want)
			}
			if row := fmt.Sprintf("| `%s` | %s |", key, answer); !strings.Contains(page, row) {
				t.Errorf("docs/migration.md lacks the row %s", row)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		former := formerValues(t)
		arguments := []string{"template", "multieni", chart}
		for _, key := range slices.Sorted(maps.Keys(former)) {
			arguments = append(arguments, "--set", key+"=1")
		}
		out, err := helm(t, arguments...)
		for key, answer := range former {
			if err == nil || !strings.Contains(out, key+": "+answer) {
				t.Errorf("helm says %v, and nothing of %s", err, key)
			}
		}
	})
	t.Run("after a key of neither chart", func(t *testing.T) {
		out, err := helm(t, "template", "multieni", chart, "--set", "affinity=1", "--set", "nonsense=1")
		if err == nil || !strings.Contains(out, "'nonsense' not allowed") || strings.Contains(out, "'affinity'") {
			t.Errorf("helm says %v and\n%s\nwant a complaint about nonsense alone, as docs/migration.md says", err, out)
		}
	})
	for name, set := range map[string]string{
		"image.repository":            "image.repository=ghcr.io/johnlam90/aws-multi-eni-controller",
		"eniManager.ignoreInterfaces": "eniManager.ignoreInterfaces=tunl0",
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := helm(t, "template", "multieni", chart, "--set", set); err == nil || !strings.Contains(out, name) {
				t.Errorf("helm says %v and\n%s\nwant an answer for %s", err, out, name)
			}
		})
	}
}

// paths lists a tree.
func paths(tree map[string]any, above string, below func(any) map[string]any) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		all = append(all, above+"."+key)
		all = append(all, paths(below(tree[key]), above+"."+key, below)...)
	}
	return all
}

// The controller has every metric that alerts and the dashboard query.
func TestMetricsOfAlertsAndDashboardExist(t *testing.T) {
	exposed := names(t)
	name := regexp.MustCompile(`\b(multieni|controller_runtime|workqueue|process|go|rest_client)_[a-z0-9_]+`)
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		found := name.FindAllString(read(t, chart+"/files/"+file), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, metric := range found {
			base := metric
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !exposed[metric] && !exposed[base] {
				t.Errorf("%s asks for %s, which the controller does not have", file, metric)
			}
		}
	}
}

// names are the metrics of the controller.
func names(t *testing.T) map[string]bool {
	t.Helper()
	descriptions := make(chan *prometheus.Desc, 1000)
	metrics.Registry.(prometheus.Collector).Describe(descriptions)
	close(descriptions)
	fqName := regexp.MustCompile(`fqName: "([^"]+)"`)
	all := map[string]bool{}
	for _, d := range telemetry.Catalog() {
		all[fqName.FindStringSubmatch(d.String())[1]] = true
	}
	for d := range descriptions {
		all[fqName.FindStringSubmatch(d.String())[1]] = true
	}
	return all
}

// The plain manifests and the base for kustomize are the chart's objects.
func TestKustomizationHasTheChartsObjects(t *testing.T) {
	out := kubectl(t, "kustomize", "deploy")
	keys := func(all []*unstructured.Unstructured) []string {
		var keys []string
		for _, object := range all {
			if object.GetAnnotations()["helm.sh/hook"] == "" {
				keys = append(keys, object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName())
			}
		}
		slices.Sort(keys)
		return keys
	}
	if diff := cmp.Diff(keys(render(t, "")), keys(objects(t, out))); diff != "" {
		t.Errorf("(-chart +kustomize)\n%s", diff)
	}
	if strings.Contains(out, "UNIFIED_IMAGE") {
		t.Error("kustomize leaves the placeholder of the image")
	}
}

// Without labels of namespaces the policy admits no traffic to the controller: an empty selector would match all of
// them.
func TestNetworkPolicyAdmitsWhatItNames(t *testing.T) {
	for values, want := range map[string][]any{
		"networkPolicy: {enabled: true}": nil,
		"networkPolicy: {enabled: true, metricsFrom: {kubernetes.io/metadata.name: monitoring}}": {
			map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "monitoring"}}},
		},
	} {
		policy := named(render(t, values), "NetworkPolicy", "eni-controller")
		types, _, _ := unstructured.NestedStringSlice(policy.Object, "spec", "policyTypes")
		ingress, _, err := unstructured.NestedSlice(policy.Object, "spec", "ingress")
		if err != nil || !slices.Contains(types, "Ingress") {
			t.Fatalf("%s: policy types %v, %v", values, types, err)
		}
		var from []any
		for _, rule := range ingress {
			peers := rule.(map[string]any)["from"].([]any)
			if len(peers) == 0 {
				t.Errorf("%s: a rule without peers admits all", values)
			}
			from = append(from, peers...)
		}
		if diff := cmp.Diff(want, from); diff != "" {
			t.Errorf("%s (-want +got):\n%s", values, diff)
		}
	}
}
