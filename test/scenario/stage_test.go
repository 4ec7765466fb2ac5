// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"

	"github.com/multieni/multieni/internal/controller/clustername"
)

// A stage leaves no record of the cluster's name on its API server: a controller of the next story there can have
// another name, and that story can import interfaces before.
func TestAStageLeavesNoClusterName(t *testing.T) {
	t.Parallel()
	recordInputs(t)
	server := <-servers
	defer func() { servers <- server }()
	s := &stage{dir: t.TempDir()}
	if err := s.start(server); err != nil {
		t.Fatal(err)
	}
	name := clustername.Guard{Reader: s.api, Writer: s.api, Namespace: clustername.DefaultNamespace, Name: "another"}
	if err := name.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	record, err := clustername.Read(t.Context(), s.api, clustername.DefaultNamespace)
	if err != nil || record != nil {
		t.Errorf("the next story finds the record %v, %v", record, err)
	}
}
