// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// oldest returns the oldest Kubernetes that the chart accepts, and the version before that.
func oldest(t *testing.T) (first, before *version.Version) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, chart, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct {
		KubeVersion string `json:"kubeVersion"`
	}
	if err := yaml.Unmarshal(content, &metadata); err != nil {
		t.Fatal(err)
	}
	first, err = version.ParseGeneric(strings.TrimSuffix(strings.TrimPrefix(metadata.KubeVersion, ">="), "-0"))
	if err != nil {
		t.Fatal(err)
	}
	return first, version.MajorMinor(first.Major(), first.Minor()-1)
}

func TestChartRefusesAnOlderKubernetes(t *testing.T) {
	first, before := oldest(t)
	mustHelm(t, "template", "multieni", chart, "--kube-version", first.String())
	out, err := helm(t, "template", "multieni", chart, "--kube-version", before.String())
	want := fmt.Sprintf("chart requires kubeVersion: >=%s-0 which is incompatible with Kubernetes v%s", first, before)
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("want %q, got %v: %s", want, err, out)
	}
}

// The API server of the tests is newer than the oldest one that the chart accepts, and its CEL has more functions. An API
// server accepts in new rules only what the minor version before it knows, so that a rollback to that one keeps every
// rule (DefaultCompatibilityVersion of k8s.io/apiserver/pkg/cel/environment).
func TestTheOldestKubernetesCompilesEveryRule(t *testing.T) {
	first, before := oldest(t)
	if n, err := compileRules(before, render(t, "reserveNodeKeys: true")); err != nil || n < 50 {
		t.Errorf("%d rules compile on %s: %v", n, first, err)
	}
}

// compileRules compiles the CEL expressions of all definitions and policies as an API server does on their first write,
// and returns their number.
func compileRules(kubernetes *version.Version, objects []*unstructured.Unstructured) (int, error) {
	compiled, wrong := 0, []error(nil)
	environments := environment.MustBaseEnvSet(kubernetes)
	for _, object := range objects {
		var n int
		var err error
		switch object.GetKind() {
		case "CustomResourceDefinition":
			n, err = compileDefinition(environments, object)
		case "ValidatingAdmissionPolicy":
			n, err = compilePolicy(environments, object)
		}
		compiled += n
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", object.GetName(), err))
		}
	}
	return compiled, errors.Join(wrong...)
}

func compileDefinition(environments *environment.EnvSet, object *unstructured.Unstructured) (int, error) {
	definition, internal := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.JSONSchemaProps{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		return 0, err
	}
	external := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external, internal, nil); err != nil {
		return 0, err
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return 0, err
	}
	return compileSchema(environments, structural, true)
}

// compileSchema compiles the rules of a schema and of all schemas below it.
func compileSchema(environments *environment.EnvSet, s *schema.Structural, root bool) (int, error) {
	results, err := schemacel.Compile(s, model.SchemaDeclType(s, root), celconfig.PerCallLimit, environments, schemacel.NewExpressionsEnvLoader())
	if err != nil {
		return 0, err
	}
	compiled, wrong := len(results), []error(nil)
	for _, result := range results {
		if result.Error != nil {
			wrong = append(wrong, result.Error)
		}
		if result.MessageExpressionError != nil {
			wrong = append(wrong, result.MessageExpressionError)
		}
	}
	var below []*schema.Structural
	for name := range s.Properties {
		property := s.Properties[name]
		below = append(below, &property)
	}
	if s.Items != nil {
		below = append(below, s.Items)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		below = append(below, s.AdditionalProperties.Structural)
	}
	for _, child := range below {
		n, err := compileSchema(environments, child, child.XEmbeddedResource)
		compiled, wrong = compiled+n, append(wrong, err)
	}
	return compiled, errors.Join(wrong...)
}

func compilePolicy(environments *environment.EnvSet, object *unstructured.Unstructured) (int, error) {
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
		return 0, err
	}
	compiler, err := admissioncel.NewCompositedCompiler(environments)
	if err != nil {
		return 0, err
	}
	options := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}
	compiled, wrong := 0, []error(nil)
	note := func(result admissioncel.CompilationResult) {
		compiled++
		if result.Error != nil {
			wrong = append(wrong, result.Error)
		}
	}
	compile := func(e admissioncel.ExpressionAccessor) {
		note(compiler.CompileCELExpression(e, options, environment.NewExpressions))
	}
	for _, v := range policy.Spec.Variables {
		variable := &validating.Variable{Name: v.Name, Expression: v.Expression}
		note(compiler.CompileAndStoreVariable(variable, options, environment.NewExpressions))
	}
	for _, c := range policy.Spec.MatchConditions {
		compile(&matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	for _, v := range policy.Spec.Validations {
		compile(&validating.ValidationCondition{Expression: v.Expression})
		if v.MessageExpression != "" {
			compile(&validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
		}
	}
	return compiled, errors.Join(wrong...)
}
