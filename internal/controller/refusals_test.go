// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
)

func TestRefusalsHoldUntilAReadIsAllowed(t *testing.T) {
	var r controller.Refusals
	told := 0
	r.Watch(func() { told++ })
	for _, step := range []struct {
		action string
		class  eni.Class
		blind  bool
		told   int
	}{
		{"DescribeInstanceTypes", eni.Unauthorized, false, 1}, // a table replaces it
		{"DescribeInstances", eni.Unauthorized, true, 2},
		{"DescribeInstances", eni.Throttled, true, 2},
		{"DescribeImages", eni.Unauthorized, true, 2}, // an AWSNodeTemplate reports it itself
		{"DescribeInstances", "", false, 3},
		{"DescribeInstances", "", false, 3},
	} {
		r.Note(step.action, step.class, "")
		if r.CannotRead() != step.blind || told != step.told {
			t.Errorf("after %s %q: blind %t and told %d times, want %t and %d", step.action, step.class, r.CannotRead(), told, step.blind, step.told)
		}
	}
	if !strings.Contains(r.Message(), "EC2 refuses ec2:DescribeInstanceTypes to") {
		t.Errorf("%q does not name what is refused", r.Message())
	}
}

// TestRefusedCredentialsAreNoMissingPermission has answers of EC2 to credentials that it does not accept.
func TestRefusedCredentialsAreNoMissingPermission(t *testing.T) {
	for _, code := range []string{"AuthFailure", "ExpiredToken", "InvalidClientTokenId"} {
		var r controller.Refusals
		r.Note("DescribeInstances", eni.Unauthorized, code)
		if message := r.Message(); !strings.Contains(message, code) || strings.Contains(message, "policy") {
			t.Errorf("%s: %q", code, message)
		}
		told := false
		r.Watch(func() { told = true })
		r.Note("DescribeInstances", eni.Unauthorized, "UnauthorizedOperation")
		if !told || !strings.Contains(r.Message(), "policy") {
			t.Errorf("after the credentials were accepted: %q, told %t", r.Message(), told)
		}
	}
}
