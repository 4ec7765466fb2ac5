// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/test/size"
)

// The tables equal EC2's answers, if the installed package has the version from which they were written. The long form
// also fails for another version: then the tables must be written again.
func TestTablesAreWhatEC2Says(t *testing.T) {
	version, path, err := locate(t.Context())
	if err != nil {
		t.Skipf("nothing to compare the tables with: %v", err)
	}
	tables, err := generate(version, path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range tables {
		got, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), "moto "+version+";") && !size.Long() {
			t.Skipf("%s is of another version than moto %s", name, version)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from moto %s; run go run ./hack/instancetypes (-source +table):\n%s", name, version, diff)
		}
	}
}
