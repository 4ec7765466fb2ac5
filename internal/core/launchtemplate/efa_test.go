// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestLayouts has a golden file with the whole request to EC2 for each layout that the class must be able to express.
func TestLayouts(t *testing.T) {
	multus := at(1)
	multus.Name, multus.Subnets = "n3", []eni.Subnet{subnet("subnet-n3a", "us-east-1a")}
	efa := at(1)
	efa.Type = eni.EFAOnly
	cases := map[string]struct {
		kind       string
		layout     launchtemplate.Layout
		interfaces []launchtemplate.Interface
	}{
		"two-subnet-multus":      {"m5.xlarge", launchtemplate.NoLayout, []launchtemplate.Interface{at(0), multus}},
		"one-efa":                {"m5n.24xlarge", launchtemplate.NoLayout, []launchtemplate.Interface{at(0), efa}},
		"one-efa-by-layout":      {"m5n.24xlarge", launchtemplate.IPOptimized, nil},
		"p5-save-addresses":      {"p5.48xlarge", launchtemplate.IPOptimized, nil},
		"p5-bandwidth":           {"p5.48xlarge", launchtemplate.BandwidthOptimized, nil},
		"p4d-save-addresses":     {"p4d.24xlarge", launchtemplate.IPOptimized, nil},
		"p4d-bandwidth":          {"p4d.24xlarge", launchtemplate.BandwidthOptimized, nil},
		"trn1-bandwidth":         {"trn1.32xlarge", launchtemplate.BandwidthOptimized, nil},
		"g6e-bandwidth":          {"g6e.48xlarge", launchtemplate.BandwidthOptimized, nil},
		"p6-b300-save-addresses": {"p6-b300.48xlarge", launchtemplate.IPOptimized, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Layout, n.Interfaces = tc.layout, tc.interfaces
			r := launchtemplate.Render(n, of(t, tc.kind), nil)
			if len(r.Problems) > 0 || len(r.Templates) != 1 {
				t.Fatalf("%d templates, problems %v", len(r.Templates), r.Problems)
			}
			golden(t, filepath.Join("testdata", "layouts", name+".json"), r.Templates[0].Data.JSON())
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), run with -update to take it over:\n%s", file, diff)
	}
}

func TestTheFiguresOfTheLayouts(t *testing.T) {
	cases := map[string]struct {
		kind                    string
		layout                  launchtemplate.Layout
		interfaces, efas, plain int
	}{
		"p5, saving addresses":  {"p5.48xlarge", launchtemplate.IPOptimized, 33, 32, 1},
		"p5, for bandwidth":     {"p5.48xlarge", launchtemplate.BandwidthOptimized, 40, 32, 8},
		"p4d, saving addresses": {"p4d.24xlarge", launchtemplate.IPOptimized, 5, 4, 1},
		"p4d, for bandwidth":    {"p4d.24xlarge", launchtemplate.BandwidthOptimized, 4, 4, 0},
		"one card":              {"m5n.24xlarge", launchtemplate.BandwidthOptimized, 2, 1, 1},
		"card 0 without EFA":    {"p6-b300.48xlarge", launchtemplate.IPOptimized, 17, 16, 1},
		"no layout":             {"p5.48xlarge", launchtemplate.NoLayout, 1, 0, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			limits := of(t, tc.kind)[0].Limits
			efas, plain := 0, 0
			all := tc.layout.Interfaces(tc.kind, limits, nil)
			for _, i := range all {
				if i.IsEFA() {
					efas++
				}
				if i.Type == eni.Standard {
					plain++
				}
			}
			if len(all) != tc.interfaces || efas != tc.efas || plain != tc.plain {
				t.Errorf("%d interfaces, %d EFA, %d plain: %v", len(all), efas, plain, all)
			}
		})
	}
}

// TestEveryTypeCarriesItsLayout goes over the whole table.
func TestEveryTypeCarriesItsLayout(t *testing.T) {
	for _, layout := range []launchtemplate.Layout{launchtemplate.IPOptimized, launchtemplate.BandwidthOptimized} {
		n := plain()
		n.Layout = layout
		r := launchtemplate.Render(n, launchtemplate.Offline(), nil)
		if len(r.Problems) > 0 {
			t.Fatal(r.Problems)
		}
		eligible := 0
		for _, v := range r.Types {
			if v.Eligible() {
				eligible++
			} else if v.Reason != launchtemplate.NoEFA && v.Reason != launchtemplate.UnknownEFAs {
				t.Errorf("%s: %s is refused: %s", layout, v.Name, v.Message)
			}
		}
		if eligible < 260 {
			t.Errorf("%s: only %d types", layout, eligible)
		}
		names := map[string]bool{}
		for _, template := range r.Templates {
			names[n.TemplateName(template)] = true
		}
		if len(names) != len(r.Templates) {
			t.Errorf("%d templates share %d names", len(r.Templates), len(names))
		}
	}
}

func TestADeclaredInterfaceWinsOverTheLayout(t *testing.T) {
	mine := at(1)
	mine.Type, mine.Description = eni.EFA, "mine"
	all := launchtemplate.IPOptimized.Interfaces("p5.48xlarge", of(t, "p5.48xlarge")[0].Limits, []launchtemplate.Interface{mine})
	if len(all) != 33 || all[1].Description != "mine" || all[1].Type != eni.EFA {
		t.Errorf("%d interfaces, the second is %+v", len(all), all[1])
	}
}
