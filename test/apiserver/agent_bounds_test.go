// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/multieni/multieni/api/v1alpha1"
)

// Every watcher of Nodes gets what an agent writes to its Node, so the API server bounds that. A Node with more keys than
// the bound can lose some.
func TestAgentsWriteFewKeys(t *testing.T) {
	admin := everything(t, server.Config)
	for _, file := range []string{"config/rbac/agent.yaml", "config/admission/agent.yaml"} {
		applyFile(t, admin, file)
	}
	provide(t, admin, "node-a")
	agent := everything(t, withToken(agentToken(t, admin, "node-a")))
	policyInForce(t, everything(t, withToken(agentToken(t, admin, ""))))

	const most = 128
	keys := func(prefix string, n int, value any) map[string]any {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprintf("%s-%d", prefix, i)] = value
		}
		return all
	}
	parts := map[string]struct {
		part, field, prefix string
		value               any
	}{
		"capacity":              {"status", "capacity", v1alpha1.AddressesResourcePrefix + "n", "16"},
		"allocatable resources": {"status", "allocatable", v1alpha1.AddressesResourcePrefix + "n", "16"},
	}
	for name, p := range parts {
		t.Run(name, func(t *testing.T) {
			patch := func(n int) map[string]any { return map[string]any{p.field: keys(p.prefix, n, p.value)} }
			for _, n := range []int{most + 1, 5000} {
				if err := write(t, agent, "Node", p.part, patch(n)); !apierrors.IsForbidden(err) {
					t.Errorf("%d: %v, want a refusal", n, err)
				}
			}
			if err := write(t, agent, "Node", p.part, patch(most)); err != nil {
				t.Errorf("%d: %v", most, err)
			}
			if err := write(t, agent, "Node", p.part, patch(most+1)); !apierrors.IsForbidden(err) {
				t.Errorf("one more: %v, want a refusal", err)
			}
			if err := write(t, admin, "Node", p.part, patch(most+2)); err != nil {
				t.Fatal(err)
			}
			less := map[string]any{p.field: map[string]any{p.prefix + "-0": nil}}
			if err := write(t, agent, "Node", p.part, less); err != nil {
				t.Errorf("the removal of one of %d: %v", most+2, err)
			}
			none := map[string]any{p.field: keys(p.prefix, most+2, nil)}
			if err := write(t, agent, "Node", p.part, none); err != nil {
				t.Errorf("the removal of all: %v", err)
			}
		})
	}
}
