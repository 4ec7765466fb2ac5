// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Features are the optional parts of the controller. All are off by default.
type Features struct {
	// LaunchTemplateOverride lets AWSNodeTemplates override any field of the rendered launch template data.
	LaunchTemplateOverride bool
}

// gates returns the features by the names of their feature gates.
func (f *Features) gates() map[string]*bool {
	return map[string]*bool{"LaunchTemplateOverride": &f.LaunchTemplateOverride}
}

// Bind adds the flag to a flag set.
func (f *Features) Bind(flags *pflag.FlagSet) {
	names := strings.Join(slices.Sorted(maps.Keys(f.gates())), ", ")
	flags.Var((*features)(f), "feature-gates", "feature gates, as NAME=true|false,...; all are off by default: "+names)
}

// features is Features as the value of a flag.
type features Features

// Set implements [pflag.Value].
func (f *features) Set(list string) error {
	gates := (*Features)(f).gates()
	for gate := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(gate), "=")
		at, known := gates[name]
		switch {
		case !known:
			return fmt.Errorf("unknown feature gate %q; known are: %s", name,
				strings.Join(slices.Sorted(maps.Keys(gates)), ", "))
		case value != "true" && value != "false":
			return fmt.Errorf("%s must be true or false, as in %s=true", name, name)
		}
		*at = value == "true"
	}
	return nil
}

// String implements [pflag.Value].
func (f *features) String() string {
	var on []string
	for name, at := range (*Features)(f).gates() {
		if *at {
			on = append(on, name+"=true")
		}
	}
	slices.Sort(on)
	return strings.Join(on, ",")
}

// Type implements [pflag.Value].
func (f *features) Type() string { return "gates" }
