// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page says what the simulator answers now.
func TestPageIsUpToDate(t *testing.T) {
	want, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(have)); diff != "" {
		t.Errorf("%s is out of date; run go run ./hack/simulated (-want +got):\n%s", page, diff)
	}
}
