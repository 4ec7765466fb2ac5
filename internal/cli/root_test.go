// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"slices"
	"testing"

	"github.com/multieni/multieni/internal/cli"
)

// The component that a container's environment names stands for a command, unless one is given.
func TestArguments(t *testing.T) {
	cases := map[string]struct {
		component   string
		given, want []string
		fails       bool
	}{
		"neither":                     {},
		"a command":                   {given: []string{"agent", "--v=4"}, want: []string{"agent", "--v=4"}},
		"the controller":              {component: "eni-controller", want: []string{"controller"}},
		"the agent, with flags":       {component: "eni-manager", given: []string{"--v=4"}, want: []string{"agent", "--v=4"}},
		"a command beats a component": {component: "eni-manager", given: []string{"version"}, want: []string{"version"}},
		"a component nobody knows":    {component: "eni-janitor", fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("COMPONENT", c.component)
			got, err := cli.Arguments(c.given)
			if !slices.Equal(got, c.want) || (err != nil) != c.fails {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}
