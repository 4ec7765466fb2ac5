// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Ten common mistakes of users. Package config/crd tests every rule without a server; this test checks the errors that
// users see.
func TestBadNodeENIsAreRefused(t *testing.T) {
	tooManyTags := map[string]any{}
	for i := range 10_000 {
		tooManyTags[fmt.Sprintf("tag-%d", i)] = "x"
	}
	rows := map[string]struct {
		field string // the message must name it
		spec  map[string]any
	}{
		"empty selector":              {"nodeSelector", map[string]any{"nodeSelector": map[string]any{}}},
		"no subnet":                   {"subnetID", map[string]any{"subnetID": nil}},
		"two exclusive fields":        {"subnetName", map[string]any{"subnetName": "blue"}},
		"index 0":                     {"deviceIndex", map[string]any{"deviceIndex": int64(0)}},
		"negative count":              {"secondaryPrivateIPAddressCount", map[string]any{"secondaryPrivateIPAddressCount": int64(-1)}},
		"EFA":                         {"launch template", map[string]any{"interfaceType": "efa"}},
		"subnet ID of 6 characters":   {"subnetID", map[string]any{"subnetID": "subnet-abc123"}},
		"description of 300":          {"description", map[string]any{"description": strings.Repeat("x", 300)}},
		"unknown field":               {"subnetIds", map[string]any{"subnetIds": []any{"subnet-0f59b4f14737be9ad"}}},
		"10,000 tags":                 {"tags", map[string]any{"tags": tooManyTags}},
		"tag that is not theirs":      {"networking.k8s.aws/", map[string]any{"tags": map[string]any{"networking.k8s.aws/cluster": "x"}}},
		"prefixes and addresses both": {"ipv4PrefixCount", map[string]any{"ipv4PrefixCount": int64(1), "secondaryPrivateIPAddressCount": int64(1)}},
	}
	c := connect(t)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), badNodeENI(row.spec), client.FieldValidation("Strict"))
			if err == nil {
				t.Fatal("accepted")
			}
			t.Log(err)
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("refused as %s, want Invalid or BadRequest", apierrors.ReasonForError(err))
			}
			if !strings.Contains(err.Error(), row.field) {
				t.Errorf("the message does not name %s", row.field)
			}
			if len(err.Error()) > 2000 {
				t.Errorf("the message has %d characters: nobody reads that", len(err.Error()))
			}
		})
	}
}

// badNodeENI is a valid NodeENI with some fields set to bad values; nil removes a field.
func badNodeENI(badly map[string]any) *unstructured.Unstructured {
	spec := map[string]any{
		"nodeSelector":     map[string]any{"ng": "multi-eni"},
		"subnetID":         "subnet-0f59b4f14737be9ad",
		"securityGroupIDs": []any{"sg-05da196f3314d4af8"},
	}
	for name, value := range badly {
		if value == nil {
			delete(spec, name)
			continue
		}
		spec[name] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.k8s.aws/v1alpha1",
		"kind":       "NodeENI",
		"metadata":   map[string]any{"name": "bad"},
		"spec":       spec,
	}}
}

// Two managers that apply different selectors, or different security groups, are in conflict. Merged, no node would have
// all labels, and every node would lose its interfaces.
func TestTwoManagersOfOneNodeENIConflict(t *testing.T) {
	admin := everything(t, server.Config)
	declared := func(selector, groups string) *unstructured.Unstructured {
		return parse(t, "{apiVersion: networking.k8s.aws/v1alpha1, kind: NodeENI, metadata: {name: managers}, spec: {nodeSelector: "+selector+
			", subnetID: subnet-0f59b4f14737be9ad, securityGroupIDs: "+groups+"}}")
	}
	first := declared("{ng: multi-eni}", "[sg-05da196f3314d4af8]")
	apply := func(object *unstructured.Unstructured, manager string) error {
		return admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner(manager))
	}
	if err := apply(first, "team-a"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, admin, first) })
	for field, second := range map[string]*unstructured.Unstructured{
		"nodeSelector":     declared("{team: x}", "[sg-05da196f3314d4af8]"),
		"securityGroupIDs": declared("{ng: multi-eni}", "[sg-0aaaaaaaaaaaaaaa1]"),
	} {
		if err := apply(second, "team-b"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), field) {
			t.Errorf("another %s by a second manager: %v, want a conflict", field, err)
		}
	}
	if err := apply(first, "team-b"); err != nil {
		t.Errorf("the same declaration by a second manager: %v", err)
	}
}
