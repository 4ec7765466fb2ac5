// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetype_test

import (
	"testing"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"

	"github.com/multieni/multieni/internal/core/instancetype"
)

// Figures that AWS documents, from the EC2 user guide and from DescribeInstanceTypes.
func TestDocumentedFigures(t *testing.T) {
	cases := map[string]struct{ interfaces, cards, perCard, ipv4, ipv6 int }{
		"t3.medium":        {3, 1, 3, 6, 6},
		"m5.large":         {3, 1, 3, 10, 10},
		"m6a.large":        {3, 1, 3, 10, 10},
		"c5.large":         {3, 1, 3, 10, 10},
		"m5.xlarge":        {4, 1, 4, 15, 15},
		"m5.24xlarge":      {15, 1, 15, 50, 50},
		"m6i.32xlarge":     {15, 1, 15, 50, 50},
		"m7i.48xlarge":     {15, 1, 15, 50, 50},
		"c5n.18xlarge":     {15, 1, 15, 50, 50},
		"m8i.96xlarge":     {24, 1, 24, 64, 64},
		"c6in.32xlarge":    {16, 2, 8, 50, 50},
		"p4d.24xlarge":     {60, 4, 15, 50, 50},
		"p5.48xlarge":      {64, 32, 2, 50, 50},
		"p5e.48xlarge":     {64, 32, 2, 50, 50},
		"p5en.48xlarge":    {64, 16, 4, 50, 50},
		"p6-b200.48xlarge": {32, 8, 4, 50, 50},
		"trn1.32xlarge":    {40, 8, 5, 50, 50},
		"trn2.48xlarge":    {32, 16, 2, 50, 50},
		"hpc6id.32xlarge":  {2, 2, 1, 50, 50},
		"m3.large":         {3, 1, 3, 10, 0},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := instancetype.Offline(name)
			if !ok || got.Interfaces != want.interfaces || len(got.Cards) != want.cards || got.IPv4 != want.ipv4 || got.IPv6 != want.ipv6 {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			for card := range got.Cards {
				if got.MaxOnCard(card) != want.perCard {
					t.Errorf("card %d takes %d, want %d", card, got.MaxOnCard(card), want.perCard)
				}
			}
		})
	}
}

func TestUnknownType(t *testing.T) {
	if got, ok := instancetype.Offline("m99.large"); ok || got.Known() {
		t.Errorf("got %+v, %t", got, ok)
	}
}

func TestEveryTypeIsCoherent(t *testing.T) {
	for name := range vpc.Limits {
		limits, ok := instancetype.Offline(name)
		if !ok || !limits.Known() {
			t.Errorf("%s: unknown", name)
			continue
		}
		sum := 0
		for card, interfaces := range limits.Cards {
			if interfaces < 1 {
				t.Errorf("%s: card %d takes %d interfaces", name, card, interfaces)
			}
			sum += interfaces
		}
		if limits.Interfaces < 1 || limits.Interfaces > sum {
			t.Errorf("%s: %d interfaces, %d over all cards", name, limits.Interfaces, sum)
		}
		if limits.IPv4 < 1 || (limits.IPv6 != limits.IPv4 && limits.IPv6 != 0) {
			t.Errorf("%s: %d IPv4 and %d IPv6 addresses", name, limits.IPv4, limits.IPv6)
		}
	}
}

// Remove a row of our own once AWS publishes the type.
func TestNoRowOfOursIsPublished(t *testing.T) {
	for _, name := range []string{"hpc6a.48xlarge", "hpc6id.32xlarge", "hpc7a.12xlarge", "hpc7a.24xlarge", "hpc7a.48xlarge", "hpc7a.96xlarge", "hpc8a.96xlarge", "trn2.48xlarge"} {
		if _, published := vpc.Limits[name]; published {
			t.Errorf("%s is published now: drop it from lacking", name)
		}
	}
}

func TestElasticFabricAdapters(t *testing.T) {
	for name, want := range map[string]int{"m5.large": 0, "m5n.24xlarge": 1, "p4d.24xlarge": 4, "p5.48xlarge": 32, "trn2.48xlarge": 16, "g6e.12xlarge": 1,
		"m6id.32xlarge": 1, "c7a.48xlarge": 1, "c6i.metal": 1, "hpc8a.96xlarge": 2, "p6-b300.48xlarge": 16} {
		if got, _ := instancetype.Offline(name); got.EFAs != want || got.EFAsUnknown {
			t.Errorf("%s takes %d (unknown: %t), want %d", name, got.EFAs, got.EFAsUnknown, want)
		}
	}
}

// EC2's published answers lack the newest types: the number of their adapters is unknown, which differs from 0.
func TestAdaptersOfTheNewestTypesAreNotKnown(t *testing.T) {
	if got, ok := instancetype.Offline("m9g.48xlarge"); !ok || got.EFAs != 0 || !got.EFAsUnknown {
		t.Errorf("got %+v, %t; want a known type with EFAsUnknown", got, ok)
	}
}

func TestArchitectureByName(t *testing.T) {
	for name, want := range map[string]string{
		"m5.large": "amd64", "m7g.large": "arm64", "g4dn.xlarge": "amd64", "g5g.xlarge": "arm64", "gr6.4xlarge": "amd64",
		"im4gn.large": "arm64", "a1.large": "arm64", "mac1.metal": "amd64", "mac2.metal": "arm64", "p6-b200.48xlarge": "amd64",
	} {
		if got := instancetype.Architecture(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
