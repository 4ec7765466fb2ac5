// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

type (
	assignInput   = ec2.AssignPrivateIpAddressesInput
	unassignInput = ec2.UnassignPrivateIpAddressesInput
)

func assign(in *assignInput) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.AssignPrivateIpAddresses(ctx, in)
		return err
	}
}

func unassign(in *unassignInput) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.UnassignPrivateIpAddresses(ctx, in)
		return err
	}
}

// awaitAddresses waits until the interface holds exactly these addresses, the primary first.
func (ec *endpoint) awaitAddresses(t *testing.T, eni string, want ...string) {
	t.Helper()
	want = append(want[:1:1], slices.Sorted(slices.Values(want[1:]))...)
	ec.awaitENI(t, eni, "given its addresses", func(e types.NetworkInterface) bool {
		got := addresses(e)
		slices.Sort(got[1:])
		return slices.Equal(want, got)
	})
}

func TestAssignPrivateIpAddresses(t *testing.T) {
	ec := open(t)
	interfaceOne, interfaceTwo := ec.eni(t), ec.eni(t)
	one, two := *interfaceOne.NetworkInterfaceId, *interfaceTwo.NetworkInterfaceId
	primary := *interfaceOne.PrivateIpAddress
	verify(t, ec, []check{
		{name: "a number: answers with the new ones alone", run: func(t *testing.T, ec *endpoint) {
			var secondaries []string
			for range 2 {
				out, err := ec.AssignPrivateIpAddresses(t.Context(), &assignInput{
					NetworkInterfaceId: &one, SecondaryPrivateIpAddressCount: aws.Int32(1),
				})
				ok(t, err)
				if *out.NetworkInterfaceId != one || len(out.AssignedPrivateIpAddresses) != 1 {
					t.Fatalf("%s was assigned %d addresses, want %s and one", *out.NetworkInterfaceId, len(out.AssignedPrivateIpAddresses), one)
				}
				secondaries = append(secondaries, *out.AssignedPrivateIpAddresses[0].PrivateIpAddress)
			}
			ec.awaitAddresses(t, one, primary, secondaries[0], secondaries[1])
			ok(t, unassign(&unassignInput{NetworkInterfaceId: &one, PrivateIpAddresses: secondaries})(t.Context(), ec))
			ec.awaitAddresses(t, one, primary)
		}},
		{name: "a list, and its return to the subnet", run: func(t *testing.T, ec *endpoint) {
			free := ec.freeAddresses(t, 2)
			ok(t, assign(&assignInput{NetworkInterfaceId: &one, PrivateIpAddresses: free})(t.Context(), ec))
			ec.awaitAddresses(t, one, primary, free[0], free[1])
			ok(t, unassign(&unassignInput{NetworkInterfaceId: &one, PrivateIpAddresses: free[:1]})(t.Context(), ec))
			ec.awaitAddresses(t, one, primary, free[1])
			ok(t, assign(&assignInput{NetworkInterfaceId: &two, PrivateIpAddresses: free[:1]})(t.Context(), ec))
			ec.awaitAddresses(t, two, *interfaceTwo.PrivateIpAddress, free[0])

			// The other interface has it: EC2 refuses, unless the caller allows reassignment.
			expectRefusal(t, "InvalidParameterValue", assign(&assignInput{
				NetworkInterfaceId: &two, PrivateIpAddresses: free[1:],
			})(t.Context(), ec))
			ok(t, assign(&assignInput{
				NetworkInterfaceId: &two, PrivateIpAddresses: free[1:], AllowReassignment: aws.Bool(true),
			})(t.Context(), ec))
			ec.awaitAddresses(t, two, *interfaceTwo.PrivateIpAddress, free[0], free[1])
			ec.awaitAddresses(t, one, primary)
		}},
		{name: "a number of prefixes, and back", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.AssignPrivateIpAddresses(t.Context(), &assignInput{NetworkInterfaceId: &one, Ipv4PrefixCount: aws.Int32(2)})
			ok(t, err)
			var got []string
			for _, prefix := range out.AssignedIpv4Prefixes {
				got = append(got, *prefix.Ipv4Prefix)
				if p := netip.MustParsePrefix(*prefix.Ipv4Prefix); p.Bits() != 28 || p != p.Masked() {
					t.Errorf("prefix %s, want a /28", p)
				}
			}
			if slices.Sort(got); len(slices.Compact(got)) != 2 {
				t.Fatalf("prefixes %v, want 2", got)
			}
			ok(t, unassign(&unassignInput{NetworkInterfaceId: &one, Ipv4Prefixes: got})(t.Context(), ec))
			ec.awaitENI(t, one, "without prefixes", func(e types.NetworkInterface) bool { return len(e.Ipv4Prefixes) == 0 })
		}},
		{name: "a chosen prefix", run: func(t *testing.T, ec *endpoint) {
			prefix := ec.freeAddresses(t, 16)[0] + "/28"
			ok(t, assign(&assignInput{NetworkInterfaceId: &one, Ipv4Prefixes: []string{prefix}})(t.Context(), ec))
			ec.awaitENI(t, one, "with "+prefix, func(e types.NetworkInterface) bool {
				return len(e.Ipv4Prefixes) == 1 && *e.Ipv4Prefixes[0].Ipv4Prefix == prefix
			})
		}},
	})
}

func TestAssignPrivateIpAddressesRefusals(t *testing.T) {
	ec := open(t)
	interfaceOne, interfaceTwo := ec.eni(t), ec.eni(t)
	one, two := *interfaceOne.NetworkInterfaceId, *interfaceTwo.NetworkInterfaceId
	primary := *interfaceOne.PrivateIpAddress
	verify(t, ec, []check{
		{name: "an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound",
			assign(&assignInput{NetworkInterfaceId: aws.String(noENI), SecondaryPrivateIpAddressCount: aws.Int32(1)}))},
		{name: "a number and a list", strict: true, run: refused("InvalidParameterCombination", assign(&assignInput{
			NetworkInterfaceId: &one, SecondaryPrivateIpAddressCount: aws.Int32(1), PrivateIpAddresses: []string{"10.0.0.99"},
		}))},
		{name: "addresses and prefixes", strict: true, run: refused("InvalidParameterCombination", assign(&assignInput{
			NetworkInterfaceId: &one, SecondaryPrivateIpAddressCount: aws.Int32(1), Ipv4PrefixCount: aws.Int32(1),
		}))},
		{name: "nothing", strict: true, run: refused("MissingParameter|InvalidParameterCombination|InvalidParameterValue",
			assign(&assignInput{NetworkInterfaceId: &one}))},
		{name: "an address outside the subnet", run: refused("InvalidParameterValue",
			assign(&assignInput{NetworkInterfaceId: &one, PrivateIpAddresses: []string{"203.0.113.7"}}))},
		{name: "the primary address of another, even by force", strict: true, run: refused("InvalidParameterValue|InvalidIPAddress.InUse",
			assign(&assignInput{
				NetworkInterfaceId: &one, PrivateIpAddresses: []string{*interfaceTwo.PrivateIpAddress}, AllowReassignment: aws.Bool(true),
			}))},
		{name: "an address inside a prefix that another holds", strict: true, run: func(t *testing.T, ec *endpoint) {
			out, err := ec.AssignPrivateIpAddresses(t.Context(), &assignInput{NetworkInterfaceId: &two, Ipv4PrefixCount: aws.Int32(1)})
			ok(t, err)
			inside := netip.MustParsePrefix(*out.AssignedIpv4Prefixes[0].Ipv4Prefix).Addr().Next().String()
			refusedSomehow(assign(&assignInput{NetworkInterfaceId: &one, PrivateIpAddresses: []string{inside}}))(t, ec)
			refusedSomehow(assign(&assignInput{NetworkInterfaceId: &one, Ipv4Prefixes: []string{*out.AssignedIpv4Prefixes[0].Ipv4Prefix}}))(t, ec)
		}},
		{name: "an EFA-only interface", strict: true, run: func(t *testing.T, ec *endpoint) {
			efa := ec.eni(t, func(in *createInput) { in.InterfaceType = types.NetworkInterfaceCreationTypeEfaOnly })
			refusedSomehow(assign(&assignInput{NetworkInterfaceId: efa.NetworkInterfaceId, SecondaryPrivateIpAddressCount: aws.Int32(1)}))(t, ec)
		}},
		{name: "one taken address assigns none", strict: true, run: func(t *testing.T, ec *endpoint) {
			free := ec.freeAddresses(t, 1)[0]
			refused("InvalidParameterValue|InvalidIPAddress.InUse", assign(&assignInput{
				NetworkInterfaceId: &two, PrivateIpAddresses: []string{free, primary},
			}))(t, ec)
			ec.awaitENI(t, two, "unchanged", func(e types.NetworkInterface) bool { return !slices.Contains(addresses(e), free) })
		}},
		{name: "a prefix across two blocks", strict: true, run: func(t *testing.T, ec *endpoint) {
			crooked := ec.freeAddresses(t, 9)[8] + "/28"
			refused("InvalidParameterValue", assign(&assignInput{NetworkInterfaceId: &one, Ipv4Prefixes: []string{crooked}}))(t, ec)
		}},
	})
}

func TestUnassignPrivateIpAddresses(t *testing.T) {
	ec := open(t)
	interfaceOne, interfaceTwo := ec.eni(t), ec.eni(t)
	one, primary := *interfaceOne.NetworkInterfaceId, *interfaceOne.PrivateIpAddress
	verify(t, ec, []check{
		{name: "the primary address", run: refused("InvalidParameterValue",
			unassign(&unassignInput{NetworkInterfaceId: &one, PrivateIpAddresses: []string{primary}}))},
		{name: "what another holds", run: refused("InvalidParameterValue",
			unassign(&unassignInput{NetworkInterfaceId: &one, PrivateIpAddresses: []string{*interfaceTwo.PrivateIpAddress}}))},
		{name: "an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound",
			unassign(&unassignInput{NetworkInterfaceId: aws.String(noENI), PrivateIpAddresses: []string{primary}}))},
		{name: "a prefix that it does not hold", strict: true, run: refused("InvalidParameterValue",
			unassign(&unassignInput{NetworkInterfaceId: &one, Ipv4Prefixes: []string{"10.0.0.16/28"}}))},
		{name: "nothing", strict: true, run: refused("MissingParameter|InvalidParameterCombination|InvalidParameterValue",
			unassign(&unassignInput{NetworkInterfaceId: &one}))},
		{name: "one wrong address fails them all", strict: true, run: func(t *testing.T, ec *endpoint) {
			free := ec.freeAddresses(t, 1)[0]
			ok(t, assign(&assignInput{NetworkInterfaceId: &one, PrivateIpAddresses: []string{free}})(t.Context(), ec))
			ec.awaitAddresses(t, one, primary, free)
			expectRefusal(t, "InvalidParameterValue", unassign(&unassignInput{
				NetworkInterfaceId: &one, PrivateIpAddresses: []string{free, primary},
			})(t.Context(), ec))
			ec.awaitAddresses(t, one, primary, free)
		}},
	})
}

type (
	assign6Input   = ec2.AssignIpv6AddressesInput
	unassign6Input = ec2.UnassignIpv6AddressesInput
)

func assign6(in *assign6Input) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.AssignIpv6Addresses(ctx, in)
		return err
	}
}

func unassign6(in *unassign6Input) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.UnassignIpv6Addresses(ctx, in)
		return err
	}
}

func (ec *endpoint) awaitIPv6(t *testing.T, eni string, want ...string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	ec.awaitENI(t, eni, "given its IPv6 addresses", func(e types.NetworkInterface) bool {
		var got []string
		for _, address := range e.Ipv6Addresses {
			got = append(got, *address.Ipv6Address)
		}
		slices.Sort(got)
		return slices.Equal(want, got)
	})
}

func TestAssignIpv6Addresses(t *testing.T) {
	ec := open(t)
	dual := need(t, ec, ec.dualStack, "subnet with IPv6")
	one, two := *ec.eni(t, in(dual)).NetworkInterfaceId, *ec.eni(t, in(dual)).NetworkInterfaceId
	within := ipv6Of(dual)
	chosen := after(within.Addr(), 0xbee).String()
	verify(t, ec, []check{
		{name: "a number is added to what is there", run: func(t *testing.T, ec *endpoint) {
			var all []string
			for range 2 {
				out, err := ec.AssignIpv6Addresses(t.Context(), &assign6Input{NetworkInterfaceId: &one, Ipv6AddressCount: aws.Int32(1)})
				ok(t, err)
				if len(out.AssignedIpv6Addresses) != 1 || !within.Contains(netip.MustParseAddr(out.AssignedIpv6Addresses[0])) {
					t.Fatalf("assigned %v, want one of %s", out.AssignedIpv6Addresses, within)
				}
				all = append(all, out.AssignedIpv6Addresses...)
			}
			ec.awaitIPv6(t, one, all...)
			out, err := ec.UnassignIpv6Addresses(t.Context(), &unassign6Input{NetworkInterfaceId: &one, Ipv6Addresses: all})
			ok(t, err)
			slices.Sort(all)
			slices.Sort(out.UnassignedIpv6Addresses)
			if diff := cmp.Diff(all, out.UnassignedIpv6Addresses); diff != "" {
				t.Errorf("unassigned (-want +got):\n%s", diff)
			}
			ec.awaitIPv6(t, one)
		}},
		{name: "a list", run: func(t *testing.T, ec *endpoint) {
			ok(t, assign6(&assign6Input{NetworkInterfaceId: &one, Ipv6Addresses: []string{chosen}})(t.Context(), ec))
			ec.awaitIPv6(t, one, chosen)
			ec.awaitFound(t, []string{one}, filter("ipv6-addresses.ipv6-address", chosen))
		}},
		{name: "a number of prefixes, and back", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.AssignIpv6Addresses(t.Context(), &assign6Input{NetworkInterfaceId: &two, Ipv6PrefixCount: aws.Int32(1)})
			ok(t, err)
			if len(out.AssignedIpv6Prefixes) != 1 || netip.MustParsePrefix(out.AssignedIpv6Prefixes[0]).Bits() != 80 {
				t.Fatalf("prefixes %v, want one /80", out.AssignedIpv6Prefixes)
			}
			ok(t, unassign6(&unassign6Input{NetworkInterfaceId: &two, Ipv6Prefixes: out.AssignedIpv6Prefixes})(t.Context(), ec))
			ec.awaitENI(t, two, "without prefixes", func(e types.NetworkInterface) bool { return len(e.Ipv6Prefixes) == 0 })
		}},
		{name: "a chosen prefix, which unassigning an address does not touch", run: func(t *testing.T, ec *endpoint) {
			want := ipv6Block(dual, 0xdef)
			ok(t, assign6(&assign6Input{NetworkInterfaceId: &one, Ipv6Prefixes: []string{want}})(t.Context(), ec))
			ec.awaitENI(t, one, "with "+want, func(e types.NetworkInterface) bool {
				return len(e.Ipv6Prefixes) == 1 && *e.Ipv6Prefixes[0].Ipv6Prefix == want && len(e.Ipv6Addresses) == 1
			})
			refusedSomehow(assign6(&assign6Input{NetworkInterfaceId: &two, Ipv6Prefixes: []string{want}}))(t, ec)
			refusedSomehow(unassign6(&unassign6Input{NetworkInterfaceId: &two, Ipv6Prefixes: []string{want}}))(t, ec)
		}},
		{name: "an address that another holds", strict: true, run: func(t *testing.T, ec *endpoint) {
			refusedSomehow(assign6(&assign6Input{NetworkInterfaceId: &two, Ipv6Addresses: []string{chosen}}))(t, ec)
		}},
		{name: "an address outside the subnet", strict: true, run: refused("InvalidParameterValue",
			assign6(&assign6Input{NetworkInterfaceId: &two, Ipv6Addresses: []string{"2001:db8:ffff::1"}}))},
		{name: "a number and a list", strict: true, run: refused("InvalidParameterCombination|InvalidParameterValue",
			assign6(&assign6Input{NetworkInterfaceId: &two, Ipv6AddressCount: aws.Int32(1), Ipv6Addresses: []string{chosen}}))},
		{name: "nothing", strict: true, run: refused("MissingParameter|InvalidParameterCombination|InvalidParameterValue",
			assign6(&assign6Input{NetworkInterfaceId: &two}))},
		{name: "a subnet without IPv6", strict: true, run: func(t *testing.T, ec *endpoint) {
			if len(ec.otherZone.Ipv6CidrBlockAssociationSet) > 0 {
				need[int](t, ec, nil, "subnet of another zone without IPv6")
			}
			plain := *ec.eni(t, in(ec.otherZone)).NetworkInterfaceId
			refused("InvalidParameterValue|InvalidParameterCombination",
				assign6(&assign6Input{NetworkInterfaceId: &plain, Ipv6AddressCount: aws.Int32(1)}))(t, ec)
		}},
		{name: "an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound",
			assign6(&assign6Input{NetworkInterfaceId: aws.String(noENI), Ipv6AddressCount: aws.Int32(1)}))},
		{name: "unassigning what another holds", strict: true, run: func(t *testing.T, ec *endpoint) {
			refusedSomehow(unassign6(&unassign6Input{NetworkInterfaceId: &two, Ipv6Addresses: []string{chosen}}))(t, ec)
		}},
		{name: "unassigning from an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound",
			unassign6(&unassign6Input{NetworkInterfaceId: aws.String(noENI), Ipv6Addresses: []string{chosen}}))},
	})
}
