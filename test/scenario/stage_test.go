// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: clustername.DefaultNamespace, Name: clustername.RecordName}}
	if err := s.api.Create(t.Context(), record); err != nil {
		t.Error(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	left, err := clustername.Read(t.Context(), s.api, clustername.DefaultNamespace)
	if err != nil || left != nil {
		t.Errorf("the next story finds the record %v, %v", left, err)
	}
}
