// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each alert has a section in the runbook.
func TestAlertsHaveARunbook(t *testing.T) {
	runbook := read(t, "docs/runbook.md")
	alerts := regexp.MustCompile(`(?m)alert: (\w+)[\s\S]*?runbook.md#(\w+)$`).FindAllStringSubmatch(read(t, chart+"/files/alerts.yaml"), -1)
	if len(alerts) == 0 {
		t.Fatal("there are no alerts")
	}
	for _, alert := range alerts {
		if !strings.Contains(runbook, "\n## "+alert[1]+"\n") || strings.ToLower(alert[1]) != alert[2] {
			t.Errorf("%s leads to #%s, and the runbook has no such section", alert[1], alert[2])
		}
	}
}

// TestReasonsAreTold checks that the page on troubleshooting describes each reason that an object or a command can
// report.
func TestReasonsAreTold(t *testing.T) {
	page := read(t, "docs/troubleshooting.md")
	reason := regexp.MustCompile(`(?m)^\t\w+ +(?:Type)?Reason = "(\w+)"`)
	for _, file := range []string{"internal/core/plan/reasons.go", "internal/core/launchtemplate/template.go", "internal/core/launchtemplate/eligibility.go"} {
		reasons := reason.FindAllStringSubmatch(read(t, file), -1)
		if len(reasons) == 0 {
			t.Errorf("%s has no reasons", file)
		}
		for _, match := range reasons {
			if !strings.Contains(page, "`"+match[1]+"`") {
				t.Errorf("%s gives the reason %s, and docs/troubleshooting.md does not tell of it", file, match[1])
			}
		}
	}
}

// Readers find a page only if the README links to it.
func TestReadmeLeadsToEveryPage(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := read(t, "README.md")
	for _, page := range pages {
		if name := "docs/" + filepath.Base(page); !strings.Contains(readme, "("+name+")") {
			t.Errorf("the README does not lead to %s", name)
		}
	}
}

// The script applies all objects that multieni needs, with the published image and the region.
func TestDeployScript(t *testing.T) {
	recordInputs(t)
	command := exec.CommandContext(t.Context(), "hack/deploy.sh")
	command.Dir = root
	command.Env = append(os.Environ(), "USE_GHCR=true", "AWS_REGION=eu-west-1", "KUBECTL="+shared.Kubectl, "KUBECONFIG="+shared.Kubeconfig)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := kubectl(t, "get", "deployment", "-n", "eni-controller-system", "eni-controller", "-o",
		`jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[?(@.name=="AWS_REGION")].value}`)
	if want := "ghcr.io/multieni/multieni:v0.1.0 eu-west-1"; got != want {
		t.Errorf("the controller is %s, want %s", got, want)
	}
	kubectl(t, "get", "daemonset", "-n", "eni-manager-system", "eni-manager")
}
