// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tables are what EC2 answered, where the package that publishes its answers is installed. A newer version of the
// package knows types that the tables do not have yet: then it is time to write them again.
func TestTablesAreWhatEC2Says(t *testing.T) {
	version, path, err := locate()
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
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from moto %s; run go run ./hack/instancetypes (-source +table):\n%s", name, version, diff)
		}
	}
}
