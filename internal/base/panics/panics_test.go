// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package panics_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
)

func TestWorkThatDoesNotPanic(t *testing.T) {
	for _, want := range []error{nil, io.EOF} {
		if got := panics.AsError("node n", func() error { return want }); !errors.Is(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestAPanicIsAnErrorOfItsWork(t *testing.T) {
	var missing *eni.Interface
	cases := map[string]struct {
		work func() error
		says string
	}{
		"nil pointer": {func() error { return errors.New(missing.ID) }, "nil pointer dereference"},
		"an error":    {func() error { panic(io.EOF) }, "EOF"},
		"a text":      {func() error { panic("out of range") }, "out of range"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := panics.AsError("node n", tc.work)
			var caught *panics.Error
			if !errors.As(err, &caught) || caught.Of != "node n" {
				t.Fatalf("got %v", err)
			}
			for _, part := range []string{"node n: ", tc.says, "panics_test.go:"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

func TestAPanicWithAnErrorIsThatError(t *testing.T) {
	if err := panics.AsError("node n", func() error { panic(io.EOF) }); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
