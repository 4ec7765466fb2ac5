// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetypes_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// shape is the part of a type that a planner of slots needs.
type shape struct{ Interfaces, Cards, PerCard, IPv4 int }

// TestDocumentedLimits checks EC2's documented figures for the types that multieni's users name.
func TestDocumentedLimits(t *testing.T) {
	for name, want := range map[string]shape{
		"t3.medium":        {3, 1, 3, 6},
		"m5.large":         {3, 1, 3, 10},
		"m6a.large":        {3, 1, 3, 10},
		"c5.large":         {3, 1, 3, 10},
		"m8g.large":        {3, 1, 3, 10},
		"m5.xlarge":        {4, 1, 4, 15},
		"m5.24xlarge":      {15, 1, 15, 50},
		"m6i.32xlarge":     {15, 1, 15, 50},
		"m7i.48xlarge":     {15, 1, 15, 50},
		"c5n.18xlarge":     {15, 1, 15, 50},
		"m8i.96xlarge":     {24, 1, 24, 64},
		"c6in.32xlarge":    {16, 2, 8, 50},
		"p4d.24xlarge":     {60, 4, 15, 50},
		"p5.48xlarge":      {64, 32, 2, 50},
		"p5e.48xlarge":     {64, 32, 2, 50},
		"p5en.48xlarge":    {64, 16, 4, 50},
		"p6-b200.48xlarge": {32, 8, 4, 50},
		"trn1.32xlarge":    {40, 8, 5, 50},
		"trn1n.32xlarge":   {80, 16, 5, 50},
		"trn2.48xlarge":    {32, 16, 2, 50},
		"hpc6id.32xlarge":  {2, 2, 1, 50},
		"hpc7a.96xlarge":   {4, 2, 2, 50},
	} {
		t.Run(name, func(t *testing.T) {
			found := lookup(t, name)
			got := shape{found.MaxInterfaces, len(found.Cards), found.Cards[0].MaxInterfaces, found.IPv4PerInterface}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("limits of %s (-want +got):\n%s", name, diff)
			}
			if found.VCPUs == 0 || found.MemoryMiB == 0 {
				t.Errorf("%s has %d vCPUs and %d MiB, want both known", name, found.VCPUs, found.MemoryMiB)
			}
		})
	}
}

// TestWholeType has complete answers: a type with several cards, one of Graviton, one of bare metal, an old one, and
// one that is not in EC2's published answers.
func TestWholeType(t *testing.T) {
	for _, want := range []instancetypes.Type{
		{
			Name: "c6in.32xlarge", VCPUs: 128, Cores: 64, MemoryMiB: 262144, MaxInterfaces: 16, IPv4PerInterface: 50, IPv6PerInterface: 50,
			IPv6Supported: true, EFASupported: true, MaxEFAInterfaces: 2, ENASRDSupported: true, Hypervisor: "nitro",
			CurrentGeneration: true, Architectures: []string{"x86_64"}, Performance: "200 Gigabit",
			Cards: []instancetypes.Card{
				{MaxInterfaces: 8, Performance: "Up to 170 Gigabit"}, {Index: 1, MaxInterfaces: 8, Performance: "Up to 170 Gigabit"},
			},
		},
		{
			Name: "r6i.metal", VCPUs: 128, Cores: 64, MemoryMiB: 1048576, MaxInterfaces: 15, IPv4PerInterface: 50, IPv6PerInterface: 50,
			IPv6Supported: true, EFASupported: true, MaxEFAInterfaces: 1, ENASRDSupported: true, BareMetal: true,
			Architectures: []string{"x86_64"}, Performance: "50 Gigabit",
			Cards: []instancetypes.Card{{MaxInterfaces: 15, Performance: "50 Gigabit"}},
		},
		{
			Name: "m7gd.4xlarge", InstanceStorage: true, VCPUs: 16, Cores: 16, MemoryMiB: 65536, MaxInterfaces: 8, IPv4PerInterface: 30,
			IPv6PerInterface: 30, IPv6Supported: true, Hypervisor: "nitro", CurrentGeneration: true,
			Architectures: []string{"arm64"}, Performance: "Up to 15 Gigabit",
			Cards: []instancetypes.Card{{MaxInterfaces: 8, Performance: "Up to 15 Gigabit"}},
		},
		{
			Name: "m1.large", ENASupport: "unsupported", NVMe: "unsupported", EBSOptimized: "supported", InstanceStorage: true,
			RootDeviceTypes: []string{"ebs", "instance-store"}, PlacementStrategies: []string{"partition", "spread"}, VCPUs: 2, Cores: 2, MemoryMiB: 7680, MaxInterfaces: 3, IPv4PerInterface: 10, Hypervisor: "xen",
			Architectures: []string{"x86_64"}, Performance: "Moderate",
			Cards: []instancetypes.Card{{MaxInterfaces: 3, Performance: "Moderate"}},
		},
		{
			Name: "m9g.large", VCPUs: 2, Cores: 2, MemoryMiB: 8192, MaxInterfaces: 3, IPv4PerInterface: 20, IPv6PerInterface: 20, IPv6Supported: true,
			Hypervisor: "nitro", CurrentGeneration: true, Architectures: []string{"arm64"},
			Cards: []instancetypes.Card{{MaxInterfaces: 3}},
		},
	} {
		t.Run(want.Name, func(t *testing.T) {
			if diff := gocmp.Diff(likeMost(want), lookup(t, want.Name)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// likeMost completes a type with what most types have.
func likeMost(t instancetypes.Type) instancetypes.Type {
	t.ENASupport, t.NVMe, t.EBSOptimized = cmp.Or(t.ENASupport, "required"), cmp.Or(t.NVMe, "required"), cmp.Or(t.EBSOptimized, "default")
	if t.RootDeviceTypes == nil {
		t.RootDeviceTypes = []string{"ebs"}
	}
	t.UsageClasses = []string{"on-demand", "spot"}
	if t.PlacementStrategies == nil {
		t.PlacementStrategies = []string{"cluster", "partition", "spread"}
	}
	return t
}

// Types that moto does not have get their size from their name, or are unknown.
func TestSizeByName(t *testing.T) {
	for name, want := range map[string][2]int{ // vCPUs and GiB
		"c9g.medium": {1, 2}, "m9g.large": {2, 8}, "c8g-flex.12xlarge": {48, 96}, "r8idn.metal-96xl": {384, 3072},
		"p3.16xlarge": {64, 488}, "i3.metal": {72, 512},
	} {
		if got := lookup(t, name); got.VCPUs != want[0] || got.MemoryMiB != want[1]<<10 || got.Cores == 0 {
			t.Errorf("%s has %d vCPUs of %d cores and %d MiB, want %d and %d GiB", name, got.VCPUs, got.Cores, got.MemoryMiB, want[0], want[1])
		}
	}
	if found, ok := instancetypes.Lookup("g7.2xlarge"); ok {
		t.Errorf("Lookup(g7.2xlarge) = %+v, want nothing: its memory is not known", found)
	}
}

func TestEFAAndENAExpress(t *testing.T) {
	for name, efas := range map[string]int{
		"m5.large": 0, "c5n.18xlarge": 1, "c6in.32xlarge": 2, "p4d.24xlarge": 4, "p5.48xlarge": 32,
		"p5en.48xlarge": 16, "trn1.32xlarge": 8, "trn1n.32xlarge": 16, "hpc7a.96xlarge": 2,
		"g6e.12xlarge": 1, "m6id.32xlarge": 1, "c7a.48xlarge": 1, "c6i.metal": 1,
	} {
		if got := lookup(t, name).MaxEFAInterfaces; got != efas {
			t.Errorf("%s takes %d EFAs, want %d", name, got, efas)
		}
	}
	for name, want := range map[string]bool{"c6gn.16xlarge": true, "m6i.32xlarge": true, "r8i.48xlarge": true, "m5.large": false} {
		if got := lookup(t, name).ENASRDSupported; got != want {
			t.Errorf("ENA Express on %s = %t, want %t", name, got, want)
		}
	}
}

// The counts are those of AWS's own answers of 2026. A handwritten table was wrong for 199, 387 and 59 types.
func TestTypesOfEachKind(t *testing.T) {
	var efa, express, previous int
	for _, name := range instancetypes.Names() {
		found := lookup(t, name)
		if found.EFASupported {
			efa++
		}
		if found.ENASRDSupported {
			express++
		}
		if !found.CurrentGeneration {
			previous++
		}
	}
	if efa < 263 || express < 406 || previous < 110 {
		t.Errorf("%d types with EFA, %d with ENA Express, %d of a previous generation; want at least 263, 406, 110", efa, express, previous)
	}
}

func TestArchitecture(t *testing.T) {
	for name, want := range map[string]string{
		"a1.large": "arm64", "t4g.micro": "arm64", "is4gen.large": "arm64", "g5g.xlarge": "arm64",
		"g6e.xlarge": "x86_64", "p6-b200.48xlarge": "x86_64", "mac1.metal": "x86_64_mac", "mac2-m2.metal": "arm64_mac",
	} {
		if got := lookup(t, name).Architectures; !slices.Equal(got, []string{want}) {
			t.Errorf("architectures of %s = %v, want %s", name, got, want)
		}
	}
}

func TestUnknownType(t *testing.T) {
	for _, name := range []string{"", "m5", "m5.gigantic", "M5.LARGE"} {
		if found, ok := instancetypes.Lookup(name); ok {
			t.Errorf("Lookup(%q) = %+v, want nothing", name, found)
		}
	}
}

// TestInvariants checks every type of the table.
func TestInvariants(t *testing.T) {
	names := instancetypes.Names()
	if len(names) < 1400 || !slices.IsSorted(names) {
		t.Fatalf("%d names, sorted: %t; want at least 1,400, sorted", len(names), slices.IsSorted(names))
	}
	for _, name := range names {
		found := lookup(t, name)
		slots := 0
		for i, card := range found.Cards {
			slots += card.MaxInterfaces
			if card.Index != i || card.MaxInterfaces < 1 {
				t.Errorf("%s: card %d is %+v, want index %d and at least one interface", name, i, card, i)
			}
		}
		switch {
		case found.Name != name:
			t.Errorf("%s is called %q", name, found.Name)
		case slots < found.MaxInterfaces || found.MaxInterfaces < 2 || found.IPv4PerInterface < 2:
			t.Errorf("%s: %d interfaces of %d addresses on cards for %d", name, found.MaxInterfaces, found.IPv4PerInterface, slots)
		case found.EFASupported != (found.MaxEFAInterfaces > 0) || found.MaxEFAInterfaces > found.MaxInterfaces:
			t.Errorf("%s: EFA %t with %d adapters", name, found.EFASupported, found.MaxEFAInterfaces)
		case found.IPv6Supported != (found.IPv6PerInterface > 0):
			t.Errorf("%s: IPv6 %t with %d addresses", name, found.IPv6Supported, found.IPv6PerInterface)
		case found.VCPUs == 0 || found.MemoryMiB == 0 || found.Cores == 0:
			t.Errorf("%s: %d vCPUs and %d MiB, want both known", name, found.VCPUs, found.MemoryMiB)
		case found.BareMetal != (found.Hypervisor == ""):
			t.Errorf("%s: bare metal %t under hypervisor %q", name, found.BareMetal, found.Hypervisor)
		}
	}
}

// TestLookupCopies makes sure that a caller cannot change the table.
func TestLookupCopies(t *testing.T) {
	before := lookup(t, "m5.large")
	before.Cards[0].MaxInterfaces = 99
	before.Architectures[0] = "changed"
	after := lookup(t, "m5.large")
	if after.Cards[0].MaxInterfaces != 3 || after.Architectures[0] != "x86_64" {
		t.Errorf("a change to one answer reached the next: %+v", after)
	}
}

func lookup(t *testing.T, name string) instancetypes.Type {
	t.Helper()
	found, ok := instancetypes.Lookup(name)
	if !ok {
		t.Fatalf("no instance type %s", name)
	}
	return found
}
