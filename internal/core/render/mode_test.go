// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/multieni/multieni/internal/core/render"
)

func TestModeFor(t *testing.T) {
	cases := map[string]struct {
		in   render.SelectionFacts
		want render.Mode
	}{
		"selected":                 {render.SelectionFacts{NodeENIKnown: true, NodePresent: true, Selected: true}, render.Ensure},
		"label gone":               {render.SelectionFacts{NodeENIKnown: true, NodePresent: true}, render.Release},
		"NodeENI deleted":          {render.SelectionFacts{NodeENIKnown: true, NodeENIDeleting: true, NodePresent: true, Selected: true}, render.Release},
		"NodeENI deleted, no node": {render.SelectionFacts{NodeENIKnown: true, NodeENIDeleting: true}, render.Release},
		"no node":                  {render.SelectionFacts{NodeENIKnown: true, Selected: true}, render.Retain},
		"NodeENI paused":           {render.SelectionFacts{NodeENIKnown: true, NodeENIPaused: true, NodePresent: true, Selected: true}, render.Paused},
		"node paused, label gone":  {render.SelectionFacts{NodeENIKnown: true, NodePaused: true, NodePresent: true}, render.Paused},
		"pause lifted":             {render.SelectionFacts{NodeENIKnown: true, NodeENIPaused: true, NodePaused: true, NodePresent: true}.Unpaused(), render.Release},
		"no NodeENI":               {render.SelectionFacts{NodePresent: true, Selected: true}, render.Retain},
		"label gone from one Node": {render.SelectionFacts{NodeENIKnown: true, NodePresent: true, DuplicateSelected: true}, render.Retain},
		"deleted, on two Nodes":    {render.SelectionFacts{NodeENIKnown: true, NodeENIDeleting: true, NodePresent: true, DuplicateSelected: true}, render.Release},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, _ := render.ModeFor(tc.in); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
