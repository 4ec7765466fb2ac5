// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/report"
)

// imported is a plan that imports two interfaces, skips one, and removes the marks from two NodeENIs.
func imported() report.ImportPlan {
	return report.ImportPlan{
		Adopt: []report.ImportedInterface{
			{ENIID: "eni-2", NodeENI: "multus", Node: "node-b1", Ordinal: 1, Slot: "card 0 device 3"},
			{ENIID: "eni-1", NodeENI: "sig", Node: "node-a1", Slot: "card 1 device 2"},
		},
		Passed:  []report.SkippedInterface{{ENIID: "eni-3", Why: "it is not attached"}},
		Objects: []string{"multus", "sig"},
	}
}

// What the import changes is a table; what it does not change has a reason.
func TestImportPlanPrintsWhatItChangesFirst(t *testing.T) {
	only := func(change func(all report.ImportPlan, some *report.ImportPlan)) report.ImportPlan {
		var some report.ImportPlan
		change(imported(), &some)
		return some
	}
	for name, tc := range map[string]struct {
		of    report.ImportPlan
		width int
		want  string
	}{
		"nothing to import": {want: "0 interfaces to adopt, 0 left as they are, 0 NodeENIs to tidy.\n"},
		"all": {of: imported(), want: `ENI     BECOMES ONE OF   ON        STAYS AT
eni-2   multus           node-b1   card 0 device 3
eni-1   sig              node-a1   card 1 device 2

· eni-3 is left as it is: it is not attached
· NodeENI multus loses the other controller's finalizer and annotation
· NodeENI sig loses the other controller's finalizer and annotation
2 interfaces to adopt, 1 left as they are, 2 NodeENIs to tidy.
`},
		"a narrow page has no room for the slot": {
			of: only(func(all report.ImportPlan, some *report.ImportPlan) { some.Adopt = all.Adopt[:1] }), width: 40,
			want: "ENI     BECOMES ONE OF   ON\neni-2   multus           node-b1\n\n" +
				"1 interface to adopt, 0 left as they\nare, 0 NodeENIs to tidy.\n",
		},
		"interfaces that stay as they are": {
			of: only(func(all report.ImportPlan, some *report.ImportPlan) { some.Passed = all.Passed }),
			want: "· eni-3 is left as it is: it is not attached\n" +
				"0 interfaces to adopt, 1 left as they are, 0 NodeENIs to tidy.\n",
		},
		"a NodeENI with interfaces on other nodes": {
			of: report.ImportPlan{Waiting: []string{"multus"}},
			want: "· NodeENI multus keeps the other controller's finalizer, until its interfaces on the nodes that the selector " +
				"does not match are imported\n0 interfaces to adopt, 0 left as they are, 0 NodeENIs to tidy.\n",
		},
		"a NodeENI to tidy": {
			of: only(func(all report.ImportPlan, some *report.ImportPlan) { some.Objects = all.Objects[:1] }),
			want: "· NodeENI multus loses the other controller's finalizer and annotation\n" +
				"0 interfaces to adopt, 0 left as they are, 1 NodeENI to tidy.\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.of.Text(report.Page{Width: tc.width})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Programs read the fields by these names; an ordinal is printed even if it is zero.
func TestImportPlanHasTheseFieldsInJSON(t *testing.T) {
	const want = `{
  "adopt": [
    {
      "eniID": "eni-2",
      "nodeENI": "multus",
      "node": "node-b1",
      "ordinal": 1,
      "slot": "card 0 device 3"
    },
    {
      "eniID": "eni-1",
      "nodeENI": "sig",
      "node": "node-a1",
      "ordinal": 0,
      "slot": "card 1 device 2"
    }
  ],
  "passed": [
    {
      "eniID": "eni-3",
      "why": "it is not attached"
    }
  ],
  "objects": [
    "multus",
    "sig"
  ]
}`
	if diff := cmp.Diff(want, indented(t, imported())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The undo prints what it changes first, too.
func TestImportUndoPrints(t *testing.T) {
	all := imported()
	undo := report.ImportUndo{Release: all.Adopt[:1], Passed: all.Passed, Objects: []string{"multus"}}
	const want = `ENI     NO LONGER OF   ON        STAYS AT
eni-2   multus         node-b1   card 0 device 3

· eni-3 is left as it is: it is not attached
· NodeENI multus loses multieni's finalizer: its deletion deletes no interface
1 interface to give back, 1 left as they are.
`
	if diff := cmp.Diff(want, undo.Text(report.Page{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
