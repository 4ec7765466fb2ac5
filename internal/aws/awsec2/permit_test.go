// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/awsec2"
)

// The simulator's catalog classifies every action that multieni calls in the same way.
func TestReadsAndChangesAreToldApart(t *testing.T) {
	mutating := map[string]bool{}
	for _, operation := range ec2.Operations() {
		mutating[operation.Name] = operation.IsMutating
	}
	for action := range awsec2.DocumentedBuckets() {
		isMutating, known := mutating[action]
		if !known {
			t.Errorf("the simulator has no %s", action)
		}
		if awsec2.IsRead(action) == isMutating {
			t.Errorf("%s counts as a read: %t", action, !isMutating)
		}
	}
}

// A replica without the lease reads everything that it needs, and changes nothing.
func TestThePermitHoldsChangesAlone(t *testing.T) {
	server := &fake{answer: func(r request) reply { return reply{code: "DryRunOperation"} }}
	client := server.client(t, awsec2.Options{AllowMutation: func() error { return errors.New("no lease") }})
	all, err := client.Permissions(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		want := awsec2.Unknown
		if awsec2.IsRead(strings.TrimPrefix(p.Action, "ec2:")) {
			want = awsec2.Granted
		}
		if p.Grant != want {
			t.Errorf("%s is %s, want %s: %v", p.Action, p.Grant, want, p.Err)
		}
	}
}
