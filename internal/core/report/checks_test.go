// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/report"
)

// graded are checks with these grades.
func graded(grades ...report.Severity) report.Checks {
	var all report.Checks
	for i, grade := range grades {
		all = append(all, report.Check{Check: fmt.Sprintf("check %d", i+1), Grade: grade, Found: "so"})
	}
	return all
}

// A warning does not fail kubectl eni doctor.
func TestChecksFailIfOneOfThemFailed(t *testing.T) {
	for name, tc := range map[string]struct {
		of   report.Checks
		want bool
	}{
		"no check":                 {nil, false},
		"all in order":             {graded(report.OK, report.OK), false},
		"a warning":                {graded(report.OK, report.Warning), false},
		"the first of several":     {graded(report.Failed, report.OK), true},
		"the last, after warnings": {graded(report.Warning, report.OK, report.Failed), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.of.Failed(); got != tc.want {
				t.Errorf("failed is %t, want %t", got, tc.want)
			}
		})
	}
}

// Checks are printed in the order in which they ran; each has the sign of its grade.
func TestChecksPrintEachGradeAndCountThem(t *testing.T) {
	for name, tc := range map[string]struct {
		of   report.Checks
		want string
	}{
		"no check": {nil, "\n0 in order, 0 warnings, 0 failed\n"},
		"one warning": {
			graded(report.Warning, report.OK),
			"◐ check 1: so\n● check 2: so\n\n1 in order, 1 warning, 0 failed\n",
		},
		"several of each": {
			graded(report.Failed, report.Warning, report.OK, report.Warning, report.Failed, report.Failed, report.OK),
			"✗ check 1: so\n◐ check 2: so\n● check 3: so\n◐ check 4: so\n✗ check 5: so\n✗ check 6: so\n● check 7: so\n" +
				"\n2 in order, 2 warnings, 3 failed\n",
		},
		"the next step is below what was found": {
			report.Checks{
				{Check: "VPC CNI", Grade: report.Failed, Found: "it is too old", Next: "Update it."},
				{Check: "quota", Grade: report.OK, Found: "5000 interfaces", Next: "Nothing."},
			},
			"✗ VPC CNI: it is too old\n  → Update it.\n● quota: 5000 interfaces\n  → Nothing.\n" +
				"\n1 in order, 0 warnings, 1 failed\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.of.Text(report.Page{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Programs read the fields and grades by these names.
func TestChecksHaveTheseFieldsInJSON(t *testing.T) {
	const want = `[
  {
    "check": "VPC CNI",
    "grade": "failed",
    "found": "it is too old",
    "next": "Update it."
  },
  {
    "check": "quota",
    "grade": "warning",
    "found": "5 are left"
  },
  {
    "check": "region",
    "grade": "ok",
    "found": "us-west-2"
  }
]`
	got := indented(t, report.Checks{
		{Check: "VPC CNI", Grade: report.Failed, Found: "it is too old", Next: "Update it."},
		{Check: "quota", Grade: report.Warning, Found: "5 are left"}, {Check: "region", Grade: report.OK, Found: "us-west-2"},
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
