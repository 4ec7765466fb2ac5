// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/config/crd"
	"github.com/multieni/multieni/internal/cli/admission"
)

// catalogue reads an annotation of the chart for Artifact Hub.
func catalogue[T any](t *testing.T, name string) (value T) {
	t.Helper()
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(chart, "Chart.yaml"))), &metadata); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(metadata.Annotations["artifacthub.io/"+name]), &value); err != nil {
		t.Fatalf("artifacthub.io/%s: %v", name, err)
	}
	return value
}

// TestTheCatalogueListsTheKinds compares the kinds that Artifact Hub shows with the definitions, and creates its
// examples.
func TestTheCatalogueListsTheKinds(t *testing.T) {
	type kind struct{ Kind, Version, Name, DisplayName, Description string }
	definitions, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	for _, d := range definitions {
		want[d.Name] = d.Spec.Names.Kind + " " + d.Spec.Versions[0].Name
	}
	for _, k := range catalogue[[]kind](t, "crds") {
		got[k.Name] = k.Kind + " " + k.Version
		if k.DisplayName != k.Kind || k.Description == "" {
			t.Errorf("%s has the name %q and the description %q", k.Name, k.DisplayName, k.Description)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	examples := catalogue[[]json.RawMessage](t, "crdsExamples")
	if len(examples) == 0 {
		t.Error("there are no examples")
	}
	for _, example := range examples {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(example); err != nil {
			t.Fatal(err)
		}
		rules, err := admission.Load(object.GetKind())
		if err != nil {
			t.Fatal(err)
		}
		if refused := rules.Admit(t.Context(), object.Object); len(refused) > 0 {
			t.Errorf("the example %s is refused: %v", object.GetName(), refused.ToAggregate())
		}
	}
}

func TestTheCatalogueLeadsToPagesThatExist(t *testing.T) {
	const repository = "https://github.com/multieni/multieni/blob/main/"
	for _, link := range catalogue[[]struct{ Name, URL string }](t, "links") {
		page, ours := strings.CutPrefix(link.URL, repository)
		if _, err := os.Stat(filepath.Join(root, page)); !ours || err != nil {
			t.Errorf("%s leads to %s: %v", link.Name, link.URL, err)
		}
	}
}
