// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"github.com/multieni/multieni/config/crd"
	"github.com/multieni/multieni/internal/cli/admission"
)

// kind is a definition with its rules.
type kind struct {
	definition *apiextensionsv1.CustomResourceDefinition
	rules      *admission.Rules
}

func load(t *testing.T, name string) kind {
	t.Helper()
	rules, err := admission.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return kind{definitionOf(t, name), rules}
}

func definitionOf(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	for _, definition := range definitions(t) {
		if definition.Spec.Names.Kind == name {
			return definition
		}
	}
	t.Fatalf("no definition of kind %s", name)
	return nil
}

func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func rootSchema(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// admit defaults the object in place and returns what the API server would say against it.
func (k kind) admit(object map[string]any) []string {
	var refusals []string
	for _, err := range k.rules.Admit(context.Background(), object) {
		refusals = append(refusals, err.Error())
	}
	return refusals
}

// The API server computes the worst-case cost of every CEL rule when a definition is installed, and refuses it when
// that is too high.
func TestDefinitionsAreAcceptable(t *testing.T) {
	for _, definition := range definitions(t) {
		t.Run(definition.Spec.Names.Kind, func(t *testing.T) {
			defaulted := definition.DeepCopy()
			apiextensionsv1.SetDefaults_CustomResourceDefinition(defaulted)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&defaulted.Spec)
			defaulted.Status.StoredVersions = []string{"v1alpha1"}
			internal := &apiextensions.CustomResourceDefinition{}
			err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, internal, nil)
			if err != nil {
				t.Fatal(err)
			}
			if errs := apiextensionsvalidation.ValidateCustomResourceDefinition(t.Context(), internal); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			if definition.Spec.Scope != apiextensionsv1.ClusterScoped {
				t.Errorf("scope is %s", definition.Spec.Scope)
			}
			if !slices.Contains(definition.Spec.Names.Categories, "multieni") {
				t.Error("not in category multieni")
			}
		})
	}
}

// An unbounded field lets one object grow without limit, and makes the cost of a CEL rule over it unbounded too.
func TestEveryFieldIsBounded(t *testing.T) {
	for _, definition := range definitions(t) {
		root := rootSchema(definition)
		for _, part := range []string{"spec", "status"} {
			path := definition.Spec.Names.Kind + "." + part
			for _, unbounded := range unboundedFields(path, root.Properties[part]) {
				t.Error(unbounded)
			}
		}
	}
}

func unboundedFields(path string, s apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	switch s.Type {
	case "string":
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time" {
			found = append(found, path+": a string without maxLength, enum or bounded format")
		}
	case "integer":
		if s.Minimum == nil {
			found = append(found, path+": an integer without minimum")
		}
	case "array":
		if s.MaxItems == nil {
			found = append(found, path+": a list without maxItems")
		}
		if s.XListType == nil {
			found = append(found, path+": a list without a list type, so that server-side apply cannot merge it")
		}
		found = append(found, unboundedFields(path+"[]", *s.Items.Schema)...)
	case "object":
		if s.AdditionalProperties != nil {
			if s.MaxProperties == nil {
				found = append(found, path+": a map without maxProperties")
			}
			found = append(found, unboundedFields(path+"{}", *s.AdditionalProperties.Schema)...)
		}
		for name, property := range s.Properties {
			found = append(found, unboundedFields(path+"."+name, property)...)
		}
	case "boolean":
	default:
		found = append(found, path+": type "+s.Type+" is not one this API uses")
	}
	slices.Sort(found)
	return found
}

// `kubectl explain` prints the description next to the JSON name, so a description begins with that name.
func TestEveryFieldIsExplained(t *testing.T) {
	for _, definition := range definitions(t) {
		root := rootSchema(definition)
		for _, part := range []string{"spec", "status"} {
			property := root.Properties[part]
			path := definition.Spec.Names.Kind + "." + part
			if !strings.HasPrefix(property.Description, part+" is ") {
				t.Errorf("%s: description begins %.30q", path, property.Description)
			}
			for _, unexplained := range unexplainedFields(path, property) {
				t.Error(unexplained)
			}
		}
	}
}

func unexplainedFields(path string, s apiextensionsv1.JSONSchemaProps) []string {
	if s.Items != nil {
		s = *s.Items.Schema
	}
	var found []string
	for name, property := range s.Properties {
		if strings.HasSuffix(path, ".conditions") {
			continue
		}
		if !strings.HasPrefix(property.Description, name+" ") {
			found = append(found, path+"."+name+": the description does not begin with the field's name")
		}
		found = append(found, unexplainedFields(path+"."+name, property)...)
	}
	slices.Sort(found)
	return found
}

// A selector is one value: if server-side apply merged those of two managers, it would select less than either, and
// interfaces would go without a conflict. Maps whose keys mean something by themselves, such as tags, merge.
func TestSelectorsAreNotMerged(t *testing.T) {
	selectors := 0
	var walk func(path string, s apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s apiextensionsv1.JSONSchemaProps) {
		atomic := s.XMapType != nil && *s.XMapType == "atomic"
		if s.AdditionalProperties != nil && strings.HasSuffix(path, "Selector") {
			selectors++
			if !atomic {
				t.Errorf("%s is merged when two managers apply it", path)
			}
		}
		for name, property := range s.Properties {
			walk(path+"."+name, property)
		}
		if s.Items != nil && s.Items.Schema != nil {
			walk(path+"[]", *s.Items.Schema)
		}
	}
	for _, definition := range definitions(t) {
		walk(definition.Spec.Names.Kind, *rootSchema(definition))
	}
	if selectors < 5 {
		t.Errorf("%d selectors found, so the test looks in the wrong place", selectors)
	}
}

// Two managers that apply different security groups are in conflict: a union would open an interface wider than either
// declares.
func TestSecurityGroupsAreNotMerged(t *testing.T) {
	spec := rootSchema(definitionOf(t, "NodeENI")).Properties["spec"]
	for _, name := range []string{"securityGroupIDs", "securityGroupNames", "subnetIDs", "subnetNames"} {
		if list := spec.Properties[name].XListType; list == nil || *list != "atomic" {
			t.Errorf("%s is merged when two managers apply it", name)
		}
	}
}
