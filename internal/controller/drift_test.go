// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

func TestEveryFieldHasADriftClass(t *testing.T) {
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.NodeENISpec]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	slices.Sort(fields)
	if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(controller.DriftClasses()))); diff != "" {
		t.Errorf("fields of NodeENISpec (-) and of the table (+):\n%s", diff)
	}
}

func TestTheDocumentHasTheTable(t *testing.T) {
	document, err := os.ReadFile("../../docs/changes.md")
	if err != nil {
		t.Fatal(err)
	}
	for field, class := range controller.DriftClasses() {
		if row := fmt.Sprintf("| `%s` | %s |", field, class); !strings.Contains(string(document), row) {
			t.Errorf("docs/changes.md lacks the row %s", row)
		}
	}
}
