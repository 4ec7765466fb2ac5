// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/multieni/multieni/internal/agent"
)

// TestAnAgentWatchesItsOwnObjects keeps the API server from telling each agent of a fleet about all nodes.
func TestAnAgentWatchesItsOwnObjects(t *testing.T) {
	var kinds []string
	for object, by := range agent.CacheOptions("node-1").ByObject {
		kinds = append(kinds, fmt.Sprintf("%T", object))
		for node, want := range map[string]bool{"node-1": true, "node-2": false} {
			if got := by.Field != nil && by.Field.Matches(fields.Set{"metadata.name": node}); got != want {
				t.Errorf("%T of %s is watched: %t, want %t", object, node, got, want)
			}
		}
	}
	slices.Sort(kinds)
	if diff := gocmp.Diff([]string{"*v1.Node", "*v1alpha1.NodeENIState"}, kinds); diff != "" {
		t.Error(diff)
	}
}
