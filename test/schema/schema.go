// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schema refuses objects of our kinds whose content a real API server refuses. [Schemas.Check] leaves out rules
// in CEL: most are about fields that people write, and config/crd tests them. [Schemas.CheckRules] has the rules.
package schema

import (
	"context"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/multieni/multieni/config/crd"
)

// Schemas are those of the definitions that ship.
type Schemas struct{ byKind map[string]kind }

type kind struct {
	name       k8sschema.GroupKind
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	// rules compiles the rules in CEL once.
	rules func() *cel.Validator
}

// Load reads the definitions.
func Load() (*Schemas, error) {
	definitions, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	s := &Schemas{byKind: map[string]kind{}}
	for _, definition := range definitions {
		root := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(root, internal,
			nil); err != nil {
			return nil, err
		}
		structural, err := schema.NewStructural(internal)
		if err != nil {
			return nil, err
		}
		openAPI, _, err := validation.NewSchemaValidator(internal)
		if err != nil {
			return nil, err
		}
		name := definition.Spec.Names.Kind
		s.byKind[name] = kind{k8sschema.GroupKind{Group: definition.Spec.Group, Kind: name}, structural, openAPI,
			sync.OnceValue(func() *cel.Validator {
				return cel.NewValidator(structural, true, celconfig.PerCallLimit)
			})}
	}
	return s, nil
}

// Check returns the API server's answer to an object that does not fit its schema; nil if it does, or is of another
// kind.
func (s *Schemas) Check(object map[string]any) error {
	u := unstructured.Unstructured{Object: object}
	k, ours := s.byKind[u.GetKind()]
	if !ours {
		return nil
	}
	wrong := validation.ValidateCustomResource(nil, object, k.openAPI)
	wrong = append(wrong, listtype.ValidateListSetsAndMaps(nil, k.structural, object)...)
	if len(wrong) == 0 {
		return nil
	}
	return apierrors.NewInvalid(k.name, u.GetName(), wrong)
}

// CheckRules returns the API server's answer to an object that breaks a rule in CEL; nil if it breaks none, or is of
// another kind. Before is the object as it is stored, nil for a new one.
func (s *Schemas) CheckRules(object, before map[string]any) error {
	u := unstructured.Unstructured{Object: object}
	k, ours := s.byKind[u.GetKind()]
	if !ours {
		return nil
	}
	var old any
	if before != nil {
		old = before
	}
	wrong, _ := k.rules().Validate(context.Background(), nil, k.structural, object, old, celconfig.RuntimeCELCostBudget)
	if len(wrong) == 0 {
		return nil
	}
	return apierrors.NewInvalid(k.name, u.GetName(), wrong)
}
