// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission checks objects of our kinds as the API server does when they are created, without an API server.
package admission

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/multieni/multieni/config/crd"
)

// Rules are the rules of one kind: those of its definition, and those of every object.
type Rules struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	cel        *cel.Validator
}

// Load returns the rules of a kind by its name.
func Load(kind string) (*Rules, error) {
	definitions, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return d.Spec.Names.Kind == kind
	})
	if at < 0 {
		return nil, fmt.Errorf("there is no definition of kind %s", kind)
	}
	internal := &apiextensions.JSONSchemaProps{}
	root := definitions[at].Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(root, internal,
		nil); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
	}
	openAPI, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
	}
	return &Rules{structural, openAPI, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Admit sets the defaults of an object in place, and returns the rules that the object breaks, under strict field
// validation. It removes unknown fields.
func (r *Rules) Admit(ctx context.Context, object map[string]any) field.ErrorList {
	var broken field.ErrorList
	unknown := pruning.PruneWithOptions(object, r.structural, true,
		schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		broken = append(broken, field.Forbidden(field.NewPath(path), "unknown field"))
	}
	defaulting.Default(object, r.structural)
	// Our kinds have no namespace. The API server drops one that an object names.
	unstructured.RemoveNestedField(object, "metadata", "namespace")
	broken = append(broken, metavalidation.ValidateObjectMetaAccessor(&unstructured.Unstructured{Object: object}, false,
		metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	broken = append(broken, validation.ValidateCustomResource(nil, object, r.openAPI)...)
	broken = append(broken, listtype.ValidateListSetsAndMaps(nil, r.structural, object)...)
	if len(broken) > 0 {
		return broken
	}
	broken, _ = r.cel.Validate(ctx, nil, r.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return broken
}
