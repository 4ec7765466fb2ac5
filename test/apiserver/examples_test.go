// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// defaults are the values that the API server sets in a NodeENI without them.
var defaults = map[string]any{
	"deviceIndex":         int64(1),
	"deviceIndexPolicy":   "Prefer",
	"networkCardIndex":    int64(0),
	"maxUnavailable":      int64(1),
	"addressMode":         "None",
	"required":            true,
	"interfaceType":       "interface",
	"deleteOnTermination": true,
	"sourceDestCheck":     true,
	"ipv4Allocation":      "Auto",
	"updatePolicy":        "InPlace",
}

// podDefaults are the API server's defaults of spec.pods.
var podDefaults = map[string]any{"attachment": "IPVLAN", "onRemoval": "Wait"}

func setDefaults(fields, defaults map[string]any) {
	for name, value := range defaults {
		if _, set := fields[name]; !set {
			fields[name] = value
		}
	}
}

// The API server accepts every example as it is written, returns its values, and sets defaults for the rest.
func TestExamplesApply(t *testing.T) {
	c := connect(t)
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples found: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, document := range documents(t, file) {
				switch document.GetKind() {
				case "Pod", "StatefulSet", "NetworkAttachmentDefinition":
					continue // they need Multus; the demo and test/cni run them
				}
				applied := document.DeepCopy()
				create(t, c, applied)
				if document.GetKind() != "NodeENI" {
					continue // its defaults are nested, so the test only checks that it is accepted
				}
				want, _, _ := unstructured.NestedMap(document.Object, "spec")
				setDefaults(want, defaults)
				if pods, has := want["pods"].(map[string]any); has {
					setDefaults(pods, podDefaults)
				}
				if diff := cmp.Diff(want, applied.Object["spec"]); diff != "" {
					t.Errorf("%s (-written and defaulted +stored):\n%s", document.GetName(), diff)
				}
			}
		})
	}
}

func documents(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if document := parse(t, string(text)); len(document.Object) > 0 {
			found = append(found, document)
		}
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if string(encoded) == "null" { // only comments
		return &unstructured.Unstructured{}
	}
	parsed := &unstructured.Unstructured{}
	if err := parsed.UnmarshalJSON(encoded); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// create makes the object under strict field validation and removes it when the test ends.
func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, c, object) })
}
