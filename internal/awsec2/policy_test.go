// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/awsec2"
)

// TestPolicy compares the controller's IAM policy with the calls it makes: each method of API and of LaunchAPI is one action.
func TestPolicy(t *testing.T) {
	content, err := os.ReadFile("../../deploy/iam/controller.json")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct {
			Effect string
			Action []string
		}
	}
	if err := json.Unmarshal(content, &policy); err != nil {
		t.Fatal(err)
	}
	var allowed, called []string
	for _, s := range policy.Statement {
		if s.Effect == "Allow" {
			allowed = append(allowed, s.Action...)
		}
	}
	for _, api := range []reflect.Type{reflect.TypeFor[awsec2.API](), reflect.TypeFor[awsec2.LaunchAPI]()} {
		for method := range api.Methods() {
			called = append(called, "ec2:"+method.Name)
		}
	}
	slices.Sort(allowed)
	slices.Sort(called)
	if diff := cmp.Diff(called, allowed); diff != "" {
		t.Errorf("deploy/iam/controller.json allows other actions than are called (-called +allowed):\n%s", diff)
	}
}
