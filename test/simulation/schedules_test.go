// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/model"
	"github.com/multieni/multieni/test/simulation"
	"github.com/multieni/multieni/test/size"
)

// TestSchedules replays the model's counterexamples on the product, each under the text of its rule.
func TestSchedules(t *testing.T) {
	for _, s := range simulation.Schedules() {
		t.Run(text(s), func(t *testing.T) {
			result := s.Run(simulation.Options{Seed: 1, Verbose: func(line string) { t.Log(line) }})
			if result.Violation != nil {
				t.Errorf("%v\n%s", result.Violation, strings.Join(result.Tail, "\n"))
			}
		})
	}
}

// text returns what docs/model.md calls the rule of a schedule, and the variant.
func text(s simulation.Schedule) string {
	return strings.TrimSpace(model.Requirements()[s.Rule-1].Text + " " + s.Variant)
}

// TestEachRuleOfAddressesHasASchedule compares the schedules with the rules of the machine address.
func TestEachRuleOfAddressesHasASchedule(t *testing.T) {
	have := map[model.Rule]bool{}
	for _, s := range simulation.Schedules() {
		have[s.Rule] = true
	}
	for rule := model.HolderNamesVersion; rule <= model.AddressFinishSettled; rule++ {
		if !have[rule] {
			t.Errorf("no schedule replays the counterexample without the rule: %s", model.Requirements()[rule-1].Text)
		}
	}
}

// withoutRule returns the sources without the rule of a schedule.
func withoutRule(s simulation.Schedule) simulation.Mutant {
	return simulation.Mutant{Name: text(s), Edits: s.Without}
}

// TestScheduleEditsApply fails when the edits that remove a rule no longer fit the source.
func TestScheduleEditsApply(t *testing.T) {
	for _, s := range simulation.Schedules() {
		if _, err := mutated(withoutRule(s)); err != nil {
			t.Errorf("%s: %v", text(s), err)
		}
	}
}

// TestEachScheduleNeedsItsRule removes one rule after the other from the sources. The schedule of the rule must fail then.
func TestEachScheduleNeedsItsRule(t *testing.T) {
	size.NeedsLong(t, "each rule is a build of the product")
	for _, s := range simulation.Schedules() {
		t.Run(text(s), func(t *testing.T) {
			binary, err := build(t.TempDir(), withoutRule(s))
			if err != nil {
				t.Fatal(err)
			}
			name := "TestSchedules/" + strings.ReplaceAll(text(s), " ", "_")
			only := "^TestSchedules$/^" + regexp.QuoteMeta(strings.TrimPrefix(name, "TestSchedules/")) + "$"
			out, _ := exec.CommandContext(t.Context(), binary, "-test.run="+only).CombinedOutput()
			if !strings.Contains(string(out), "--- FAIL: "+name+" ") {
				t.Errorf("the schedule does not fail without its rule:\n%s", out)
			}
			for line := range strings.Lines(string(out)) {
				if violated.MatchString(line) {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// violated is the line of a failed schedule with its violation.
var violated = regexp.MustCompile(`schedules_test\.go:\d+: (schedule|I\d+): `)
