// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package needs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/needs"
)

// ended is a test that records how it ends.
type ended struct {
	testing.TB
	how string
}

func (e *ended) Helper() {}

func (e *ended) Skipf(format string, arguments ...any) {
	e.how = "skipped: " + fmt.Sprintf(format, arguments...)
}

func (e *ended) Fatalf(format string, arguments ...any) {
	e.how = "failed: " + fmt.Sprintf(format, arguments...)
}

// What the machine lacks skips a test on a workstation, and fails it in CI, with the reason.
func TestLacking(t *testing.T) {
	cases := map[string]struct {
		need  func(testing.TB)
		lacks string
	}{
		"root":                  {func(tb testing.TB) { needs.Namespaces(tb, errors.New("network namespaces need root")) }, "need root"},
		"namespaces":            {func(tb testing.TB) { needs.Namespaces(tb, nil) }, ""},
		"an absent program":     {func(tb testing.TB) { needs.Programs(tb, "go", "multieni-absent") }, "multieni-absent"},
		"a program that it has": {func(tb testing.TB) { needs.Programs(tb, "go") }, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for ci, how := range map[string]string{"": "skipped", "true": "failed"} {
				t.Setenv("CI", ci)
				e := &ended{TB: t}
				c.need(e)
				if got, _, _ := strings.Cut(e.how, ":"); c.lacks == "" && e.how != "" || c.lacks != "" && (got != how || !strings.Contains(e.how, c.lacks)) {
					t.Errorf("with CI=%q the test is %q, want %q", ci, e.how, how)
				}
			}
		})
	}
}
