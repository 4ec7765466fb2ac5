// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// problemsOf renders the interfaces in a Wavelength Zone for a type with one EFA, and returns the problems.
func problemsOf(t *testing.T, interfaces ...launchtemplate.Interface) []string {
	t.Helper()
	n := declaring(interfaces...)
	n.Network.Subnets = []eni.Subnet{subnet("subnet-w", wavelength)}
	return textOf(launchtemplate.Render(n, of(t, "m5n.24xlarge"), nil).Problems)
}

// A user can correct a field of one interface with the message alone: it has the path of the field, the interface, the
// cause and the next step.
func TestProblemsOfAValueNameFieldCauseAndNextStep(t *testing.T) {
	describe := func(text string) setting { return func(i *launchtemplate.Interface) { i.Description = text } }
	grouped := func(count int) setting {
		return func(i *launchtemplate.Interface) { i.Groups = slices.Repeat([]string{"sg"}, count) }
	}
	for name, tc := range map[string]struct {
		second launchtemplate.Interface
		want   string
	}{
		"a negative card": {
			interfaceIn(-1, 1), "InvalidInterface spec.networkInterfaces[1].networkCardIndex: the interface at " +
				"card -1 device 1 has a negative index; count from 0",
		},
		"a negative device": {
			interfaceIn(0, -1), "InvalidInterface spec.networkInterfaces[1].deviceIndex: the interface at " +
				"card 0 device -1 has a negative index; count from 0",
		},
		"a negative number of IPv4 prefixes": {
			interfaceIn(0, 1, prefixed(-1, 0)), "InvalidInterface spec.networkInterfaces[1].ipv4PrefixCount: " +
				"the interface at card 0 device 1 has a negative number of prefixes; leave it out for none",
		},
		"a negative number of IPv6 prefixes": {
			interfaceIn(0, 1, prefixed(0, -1)), "InvalidInterface spec.networkInterfaces[1].ipv6PrefixCount: " +
				"the interface at card 0 device 1 has a negative number of prefixes; leave it out for none",
		},
		"a type that EC2 chooses itself": {
			interfaceIn(0, 1, ofType("trunk"), named("n3")), "InvalidInterface spec.networkInterfaces[1].interfaceType: " +
				`interface "n3" (card 0 device 1) is of type "trunk"; use interface, efa or efa-only`,
		},
		"a description of one character too many": {
			interfaceIn(0, 1, describe(strings.Repeat("ü", 256))), "InvalidInterface " +
				"spec.networkInterfaces[1].description: the interface at card 0 device 1 has a description of 256 " +
				"characters; shorten it to 255",
		},
		"one security group too many": {
			interfaceIn(0, 1, grouped(17)), "TooManySecurityGroups spec.networkInterfaces[1].securityGroupSelector: " +
				"the interface at card 0 device 1 has 17 security groups, and EC2 takes 16 at most; choose fewer, or " +
				"unite their rules in one",
		},
		"IPv4 prefixes on efa-only": {
			interfaceIn(0, 1, ofType(eni.EFAOnly), prefixed(1, 0)), "EFAOnlyHasNoAddresses " +
				"spec.networkInterfaces[1].interfaceType: the interface at card 0 device 1 is efa-only, which has no " +
				"IP addresses; remove its prefix counts, or use interfaceType: efa",
		},
		"IPv6 prefixes on efa-only": {
			interfaceIn(0, 1, ofType(eni.EFAOnly), prefixed(0, 2)), "EFAOnlyHasNoAddresses " +
				"spec.networkInterfaces[1].interfaceType: the interface at card 0 device 1 is efa-only, which has no " +
				"IP addresses; remove its prefix counts, or use interfaceType: efa",
		},
		"a carrier address off the primary interface": {
			interfaceIn(0, 1, carrier(true)), "CarrierIPOnPrimaryOnly " +
				"spec.networkInterfaces[1].associateCarrierIPAddress: the interface at card 0 device 1 is not the " +
				"primary one, and EC2 associates a carrier IP address only with that; say it there, or associate one " +
				"after launch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, "problems", []string{tc.want}, problemsOf(t, at(0), tc.second))
		})
	}
}

// Problems of several values, or of several interfaces, are all reported at once, in the order of their paths.
func TestProblemsOfSeveralValuesAreReportedTogether(t *testing.T) {
	const (
		onlyOne = " is to have a public IP address, which EC2 gives only to an instance with one interface, and 2 are " +
			"declared; remove associatePublicIPAddress, or the other interfaces, or associate an elastic IP address " +
			"after launch"
		noAddress = " is efa-only, which has no IP addresses; remove its public or carrier address, or use " +
			"interfaceType: efa"
	)
	for name, tc := range map[string]struct {
		interfaces []launchtemplate.Interface
		want       []string
	}{
		"a public address on the second of two interfaces": {
			list(at(0), interfaceIn(0, 1, public(true))), []string{
				"PublicIPRequiresSingleInterface spec.networkInterfaces[1].associatePublicIPAddress: the interface at " +
					"card 0 device 1" + onlyOne,
			},
		},
		"a public address on efa-only": {
			list(at(0), interfaceIn(0, 1, ofType(eni.EFAOnly), public(true))), []string{
				"PublicIPRequiresSingleInterface spec.networkInterfaces[1].associatePublicIPAddress: the interface at " +
					"card 0 device 1" + onlyOne,
				"EFAOnlyHasNoAddresses spec.networkInterfaces[1].interfaceType: the interface at card 0 device 1" + noAddress,
			},
		},
		"a carrier address on an efa-only primary interface": {
			list(interfaceIn(0, 0, ofType(eni.EFAOnly), carrier(true))), []string{
				"EFAOnlyHasNoAddresses spec.networkInterfaces[0].interfaceType: the interface at card 0 device 0" + noAddress,
				"PrimaryNotPlain spec.networkInterfaces[0].interfaceType: the interface at card 0 device 0 is the " +
					"primary one and needs an IP address, which efa-only has not; use interface or efa there, and " +
					"efa-only at another slot",
			},
		},
		"public and carrier addresses": {
			list(interfaceIn(0, 0, public(true), carrier(true))), []string{
				"PublicAndCarrierIP spec.networkInterfaces[0].associateCarrierIPAddress: the interface at card 0 " +
					"device 0 cannot have both a public and a carrier IP address; keep the carrier address in a " +
					"Wavelength Zone, and the public one in any other",
			},
		},
		"no primary interface": {
			list(at(1)), []string{
				"NoPrimaryInterface spec.networkInterfaces: no interface is declared at card 0 device 0, which every " +
					"instance must have; add one with networkCardIndex: 0 and deviceIndex: 0",
			},
		},
		"one slot three times": {
			list(at(0), at(1), at(1), at(1)), []string{
				"DuplicateSlot spec.networkInterfaces[2]: card 0 device 1 is declared twice; give each interface a " +
					"networkCardIndex and deviceIndex of its own",
				"DuplicateSlot spec.networkInterfaces[3]: card 0 device 1 is declared twice; give each interface a " +
					"networkCardIndex and deviceIndex of its own",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, "problems", tc.want, problemsOf(t, tc.interfaces...))
		})
	}
}

// A network card takes one EFA of either type: each further EFA is reported with the one before it, by slot. EFAs on
// different cards are no problem.
func TestSecondEFAOfACardIsReportedWithTheFirst(t *testing.T) {
	kind := sized("p9.48xlarge", 4, 4)
	kind.Limits.EFAs = 4
	n := declaring(interfaceIn(1, 2, ofType(eni.EFA), named("third")), interfaceIn(1, 0, ofType(eni.EFAOnly)),
		interfaceIn(1, 1), interfaceIn(0, 0, ofType(eni.EFA)))
	same(t, "problems", []string{
		`SeveralEFAsOnCard spec.networkInterfaces[0].interfaceType: the interface at card 1 device 0 and interface ` +
			`"third" (card 1 device 2) are both EFA interfaces on network card 1, which takes one; move one to another card`,
	}, textOf(launchtemplate.Render(n, []launchtemplate.InstanceType{kind}, nil).Problems))
}

// Values at a limit, and values that EC2 sets by default, are accepted.
func TestInterfacesAtTheLimitsAreAccepted(t *testing.T) {
	for name, interfaces := range map[string][]launchtemplate.Interface{
		"a description of 255 characters in 510 bytes": {interfaceIn(0, 0, func(i *launchtemplate.Interface) {
			i.Description = strings.Repeat("ü", 255)
		})},
		"sixteen security groups": {interfaceIn(0, 0, func(i *launchtemplate.Interface) {
			i.Groups = slices.Repeat([]string{"sg"}, 16)
		})},
		"each type": {
			interfaceIn(0, 0, ofType("")), interfaceIn(0, 1, ofType(eni.Standard)), interfaceIn(0, 2, ofType(eni.EFA)),
		},
		"an EFA as primary interface":          {interfaceIn(0, 0, ofType(eni.EFA))},
		"a public address of one interface":    {interfaceIn(0, 0, public(true))},
		"no public address of two interfaces":  {interfaceIn(0, 0, public(false)), interfaceIn(0, 1, public(false))},
		"a carrier address, no public address": {interfaceIn(0, 0, carrier(true), public(false))},
		"a public address, no carrier address": {interfaceIn(0, 0, carrier(false), public(true))},
		"no carrier address off the primary":   {at(0), interfaceIn(0, 1, carrier(false))},
		"efa-only without addresses": {
			at(0), interfaceIn(0, 1, ofType(eni.EFAOnly), public(false), carrier(false)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, "problems", []string{}, problemsOf(t, interfaces...))
		})
	}
}

// The path of a problem leads to the place where the user declared the interface, regardless of the order of slots.
func TestPathOfAProblemNamesTheLayerOfItsInterface(t *testing.T) {
	odd := launchtemplate.Document{"NetworkInterfaces": []any{map[string]any{"DeviceIndex": 2, "InterfaceType": "odd"}}}
	source := func() *launchtemplate.Source {
		return &launchtemplate.Source{ID: "lt-1", Autofill: true, Data: odd.Clone()}
	}
	for name, tc := range map[string]struct {
		change func(*launchtemplate.NodeTemplate)
		want   string
	}{
		"declared before the primary interface": {func(n *launchtemplate.NodeTemplate) {
			n.Interfaces = list(interfaceIn(0, 2, ofType("odd")), at(0))
		}, "spec.networkInterfaces[0].interfaceType"},
		"of a referenced template": {func(n *launchtemplate.NodeTemplate) { n.Source = source() }, "spec.launchTemplateRef"},
		"of an override": {
			func(n *launchtemplate.NodeTemplate) { n.Override = odd }, "spec.launchTemplateOverride",
		},
		"of a referenced template, with an override": {func(n *launchtemplate.NodeTemplate) {
			n.Source, n.Override = source(), launchtemplate.Document{"EbsOptimized": true}
		}, "spec.launchTemplateRef"},
		"declared, its type from a template": {func(n *launchtemplate.NodeTemplate) {
			n.Interfaces, n.Source = list(at(0), at(2)), source()
		}, "spec.networkInterfaces[1].interfaceType"},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			tc.change(&n)
			var paths []string
			for _, p := range launchtemplate.Render(n, of(t, "m5.xlarge"), nil).Problems {
				paths = append(paths, p.Path)
			}
			same(t, "paths", []string{tc.want}, paths)
		})
	}
}
