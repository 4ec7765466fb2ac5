// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alerts tests the chart's alerts and its dashboard with Prometheus' own code. `make verify` runs it.
package alerts

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const (
	rules     = "../../charts/multieni/files/alerts.yaml"
	cases     = "testdata/alerts.yaml"
	dashboard = "../../charts/multieni/files/dashboard.json"
)

// promtool returns the path of the program, built without its service discoveries.
func promtool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "promtool")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "remove_all_sd", "-o", path, "github.com/prometheus/prometheus/cmd/promtool")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	return path
}

func TestAlerts(t *testing.T) {
	program := promtool(t)
	for name, arguments := range map[string][]string{
		"rules are well formed":          {"check", "rules", "--lint-fatal", rules},
		"alerts fire when they shall":    {"test", "rules", cases},
		"promtool notices a wrong value": {"test", "rules", "testdata/wrong.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
			if wrong := arguments[2] == "testdata/wrong.yaml"; (err != nil) != wrong {
				t.Errorf("promtool %v: %v\n%s", arguments, err, out)
			}
		})
	}
}

// Every alert has a case in which it fires, and one in which it does not fire.
func TestEveryAlertHasCases(t *testing.T) {
	var declared struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	read(t, rules, yaml.Unmarshal, &declared)
	var tested struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	read(t, cases, yaml.Unmarshal, &tested)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tested.Tests {
		for _, c := range test.AlertRuleTest {
			if len(c.ExpAlerts) > 0 {
				fires[c.Alertname] = true
			} else {
				silent[c.Alertname] = true
			}
		}
	}
	n := 0
	for _, group := range declared.Groups {
		for _, rule := range group.Rules {
			n++
			if !fires[rule.Alert] || !silent[rule.Alert] {
				t.Errorf("%s: cases in which it fires: %t, in which it does not: %t", rule.Alert, fires[rule.Alert], silent[rule.Alert])
			}
		}
	}
	if n == 0 {
		t.Error("there are no alerts")
	}
}

// Every panel of the dashboard has a unique title and a valid query of Prometheus. test/ship tests that the metrics
// exist.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	read(t, dashboard, json.Unmarshal, &board)
	if len(board.Panels) == 0 {
		t.Error("the dashboard has no panels")
	}
	titles := map[string]bool{}
	for _, panel := range board.Panels {
		if panel.Title == "" || titles[panel.Title] {
			t.Errorf("the title %q is empty or there twice", panel.Title)
		}
		titles[panel.Title] = true
		if len(panel.Targets) == 0 {
			t.Errorf("%s asks nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(target.Expr); err != nil {
				t.Errorf("%s: %s: %v", panel.Title, target.Expr, err)
			}
		}
	}
}

func read(t *testing.T, path string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
