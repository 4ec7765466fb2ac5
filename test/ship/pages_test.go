// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/test/documents"
)

// blocksOf returns the YAML of a page that begins with a line.
func blocksOf(t *testing.T, page, first string) []string {
	t.Helper()
	var all []string
	for _, block := range documents.Parse(page, read(t, page)).Blocks {
		if block.Language == "yaml" && strings.HasPrefix(block.Text, first+"\n") {
			all = append(all, block.Text)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no YAML that begins with %q", page, first)
	}
	return all
}

// valuesOfGitOps returns the values of the chart within the manifests of docs/gitops.md.
func valuesOfGitOps(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, block := range documents.Parse("docs/gitops.md", read(t, "docs/gitops.md")).Blocks {
		if block.Language != "yaml" {
			continue
		}
		for _, object := range objects(t, block.Text) {
			for _, path := range [][]string{{"spec", "source", "helm", "valuesObject"}, {"spec", "values"}} {
				values, found, err := unstructured.NestedMap(object.Object, path...)
				if err != nil {
					t.Fatal(err)
				}
				if text, err := yaml.Marshal(values); found && err == nil {
					all = append(all, string(text))
				}
			}
		}
	}
	if len(all) != 2 {
		t.Fatalf("docs/gitops.md has %d sets of values, want those of Argo CD and of Flux", len(all))
	}
	return all
}

// TestValuesOnPages renders the chart with each set of values that a page shows.
func TestValuesOnPages(t *testing.T) {
	sets := valuesOfGitOps(t)
	for _, page := range []string{"docs/private-clusters.md", "docs/self-managed.md", "docs/telco-sizing.md"} {
		sets = append(sets, blocksOf(t, page, "# values.yaml")...)
	}
	for _, values := range sets {
		controller, drain := controllerAndDrain(t, values)
		if controller.Spec.Containers[0].Image == "" || len(drain.Spec.Containers) == 0 {
			t.Errorf("the chart renders no controller or no drain with\n%s", values)
		}
	}
}

// TestCNIFolders checks that the folders of docs/self-managed.md reach the agent.
func TestCNIFolders(t *testing.T) {
	for _, values := range blocksOf(t, "docs/self-managed.md", "# values.yaml") {
		var set struct {
			Pods struct{ CNIDir, WaitForCNI string }
		}
		if err := yaml.Unmarshal([]byte(values), &set); err != nil {
			t.Fatal(err)
		}
		if set.Pods.CNIDir == "" {
			continue
		}
		agent := agentOf(t, values)
		for name, want := range map[string]string{"cni": set.Pods.CNIDir, "cni-config": set.Pods.WaitForCNI} {
			isIt := func(v corev1.Volume) bool { return v.Name == name && v.HostPath.Path == want }
			if !slices.ContainsFunc(agent.Spec.Template.Spec.Volumes, isIt) {
				t.Errorf("the agent has no volume %s of %s", name, want)
			}
		}
	}
}

// TestNamesOnSelfManaged compares the names on docs/self-managed.md with those of the chart and of the controller.
func TestNamesOnSelfManaged(t *testing.T) {
	all := render(t, "")
	var kops struct {
		Spec struct {
			IAM struct {
				ServiceAccountExternalPermissions []struct{ Name, Namespace string }
			}
		}
	}
	unmarshal(t, blocksOf(t, "docs/self-managed.md", "# kops edit cluster")[0], &kops)
	for _, account := range kops.Spec.IAM.ServiceAccountExternalPermissions {
		found := named(all, "ServiceAccount", account.Name)
		if found == nil || found.GetNamespace() != account.Namespace {
			t.Errorf("the chart has no ServiceAccount %s in namespace %s", account.Name, account.Namespace)
		}
	}

	var rke2 map[string][]string
	unmarshal(t, blocksOf(t, "docs/self-managed.md", "# /etc/rancher/rke2/config.yaml")[0], &rke2)
	_, providerID, _ := strings.Cut(rke2["kubelet-arg"][0], "=")
	providerID = strings.NewReplacer("ZONE", "us-east-1a", "INSTANCE", "i-0a10000000000000a").Replace(providerID)
	if _, err := eni.ParseProviderID(providerID); err != nil {
		t.Error(err)
	}
	if want := []string{v1alpha1.NotReadyTaint + ":NoSchedule"}; !slices.Equal(rke2["node-taint"], want) {
		t.Errorf("the taint is %q, want %q", rke2["node-taint"], want)
	}

	bound := 0
	for _, values := range blocksOf(t, "docs/self-managed.md", "# values.yaml") {
		var openshift struct{ ExtraObjects []rbacv1.RoleBinding }
		unmarshal(t, values, &openshift)
		for _, binding := range openshift.ExtraObjects {
			for _, subject := range binding.Subjects {
				bound++
				account := named(all, "ServiceAccount", subject.Name)
				if account == nil || account.GetNamespace() != subject.Namespace || binding.Namespace != subject.Namespace {
					t.Errorf("the chart has no ServiceAccount %s in namespace %s", subject.Name, subject.Namespace)
				}
			}
		}
	}
	if bound != 2 {
		t.Errorf("%d ServiceAccounts have a role of OpenShift, want those of controller and agents", bound)
	}
}

// Argo CD and Flux keep the definitions, and run the Job of an uninstallation, by the annotations of helm.
func TestAnnotationsForGitOps(t *testing.T) {
	all := render(t, "")
	definitions := 0
	for _, object := range all {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		definitions++
		if object.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the chart", object.GetName())
		}
		// kubectl apply stores the object in an annotation (apimachinery, TotalAnnotationSizeLimitB).
		if text, err := object.MarshalJSON(); err != nil || len(text) > 256<<10 {
			t.Errorf("%s has %d bytes, %v", object.GetName(), len(text), err)
		}
	}
	if definitions == 0 {
		t.Error("the chart renders no definitions")
	}
	if hook := named(all, "Job", "eni-controller-drain").GetAnnotations()["helm.sh/hook"]; hook != "pre-delete" {
		t.Errorf("the Job is the hook %q", hook)
	}
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
