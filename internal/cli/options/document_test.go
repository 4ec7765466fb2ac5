// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package options_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/multieni/multieni/internal/cli/options"
)

// docs/node-agent.md lists every flag of the agent, and every variable in it sets the flag in the same row.
func TestAgentSettingsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../../docs/node-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "## Settings")
	section, _, _ = strings.Cut(section, "\n## ")
	bound := func() *pflag.FlagSet {
		flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
		new(options.Agent).Bind(flags)
		return flags
	}
	bound().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(section, "`--"+f.Name+"`") {
			t.Errorf("docs/node-agent.md does not list --%s", f.Name)
		}
	})
	values := map[string]string{"bool": "true", "duration": "45s", "int": "1500", "string": "x", "stringSlice": "x"}
	rows := regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `([A-Z_]+)` \\|").FindAllStringSubmatch(section, -1)
	if len(rows) < 5 {
		t.Fatalf("docs/node-agent.md lists %d variables", len(rows))
	}
	for _, row := range rows {
		flags := bound()
		t.Setenv(row[2], values[flags.Lookup(row[1]).Value.Type()])
		if err := options.FromEnvironment(flags); err != nil || !flags.Changed(row[1]) {
			t.Errorf("%s does not set --%s: %v", row[2], row[1], err)
		}
	}
}
