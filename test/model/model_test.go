// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/model"
	"github.com/multieni/multieni/test/size"
)

func TestTheProtocolHolds(t *testing.T) {
	for _, run := range model.Runs() {
		t.Run(run.Name, func(t *testing.T) {
			search := run.Small
			if size.Long() {
				search = run.Long
			}
			holds(t, search(model.Whole))
		})
	}
}

// holds fails a test unless a search visited all states and found no violation.
func holds(t *testing.T, o model.Outcome) {
	t.Helper()
	t.Log(o)
	if !o.Complete || o.Violated != 0 {
		t.Fail()
	}
}

func TestEachRuleIsNeeded(t *testing.T) {
	for n, r := range model.Requirements() {
		if r.Rule != model.Rule(n+1) {
			t.Fatalf("row %d has rule %d: the table must have the order of the rules", n, r.Rule)
		}
		t.Run(r.Text, func(t *testing.T) {
			holds(t, r.Search(model.Whole))
			o := r.Search(r.Rule)
			t.Logf("without it, %v", o)
			if o.Violated != r.Breaks {
				t.Errorf("it violates %q, want %q", o.Violated, r.Breaks)
			}
		})
	}
}

// The protocol does not cover everything. A limit that no longer is one must go from the document.
func TestLimits(t *testing.T) {
	for _, l := range model.Limits() {
		t.Run(l.Text, func(t *testing.T) {
			o := l.Search(model.Whole)
			t.Log(o)
			if o.Violated != l.Breaks {
				t.Errorf("it violates %q, want %q", o.Violated, l.Breaks)
			}
		})
	}
}

const document = "../../docs/model.md"

func TestDocument(t *testing.T) {
	var table strings.Builder
	for _, r := range model.Requirements() {
		fmt.Fprintf(&table, "| %s | %s | %s | %d |\n", r.Text, r.Source, r.Breaks, len(r.Search(r.Rule).Trace))
	}
	page, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/model.md does not have this table of rules:\n%s", table.String())
	}
	for _, l := range model.Limits() {
		if !strings.Contains(string(page), l.Text) {
			t.Errorf("docs/model.md does not have the limit %q", l.Text)
		}
	}
	token := model.Requirements()[model.Token-1]
	if example := token.Search(token.Rule).String(); !strings.Contains(string(page), example) {
		t.Errorf("docs/model.md does not have this counterexample:\n%s", example)
	}
}
