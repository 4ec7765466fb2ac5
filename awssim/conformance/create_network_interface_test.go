// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// create sends the request unchanged, with only the subnet preset.
func create(changes ...func(*createInput)) call {
	return func(ctx context.Context, ec *endpoint) error {
		in := &createInput{SubnetId: ec.subnet.SubnetId}
		for _, change := range changes {
			change(in)
		}
		_, err := ec.CreateNetworkInterface(ctx, in)
		return err
	}
}

func TestCreateNetworkInterface(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a subnet is all it needs", run: createsWithDefaults},
		{name: "description, groups and tags are set at creation", run: func(t *testing.T, ec *endpoint) {
			eni := ec.eni(t, tagged(tag("team", "red"), tag("empty", "")), func(in *createInput) {
				in.Description = aws.String("one of ours")
				in.Groups = []string{ec.group, ec.defaultGroup}
			})
			if aws.ToString(eni.Description) != "one of ours" {
				t.Errorf("description %q", aws.ToString(eni.Description))
			}
			if diff := cmp.Diff(map[string]string{"team": "red", "empty": ""}, tagsOf(eni.TagSet)); diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
			if got := groupsOf(eni); !slices.Contains(got, ec.group) || len(got) != 2 {
				t.Errorf("groups %v, want %s and %s", got, ec.group, ec.defaultGroup)
			}
		}},
		{name: "a chosen primary address", run: func(t *testing.T, ec *endpoint) {
			want := ec.freeAddresses(t, 1)
			eni := ec.eni(t, func(in *createInput) { in.PrivateIpAddress = &want[0] })
			if diff := cmp.Diff(want, addresses(eni)); diff != "" || aws.ToString(eni.PrivateIpAddress) != want[0] {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		}},
		{name: "chosen primary and secondary addresses", run: func(t *testing.T, ec *endpoint) {
			want := ec.freeAddresses(t, 3)
			eni := ec.eni(t, func(in *createInput) { in.PrivateIpAddresses = specified(want) })
			if diff := cmp.Diff(want, addresses(eni)); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		}},
		{name: "a number of secondary addresses", run: func(t *testing.T, ec *endpoint) {
			got := addresses(ec.eni(t, withSecondaries(2)))
			if slices.Sort(got); len(slices.Compact(got)) != 3 {
				t.Errorf("addresses %v, want 3 different ones", got)
			}
		}},
	})
}

func TestCreateWithPrefixesAndIPv6(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a number of IPv4 prefixes", run: func(t *testing.T, ec *endpoint) {
			eni := ec.eni(t, func(in *createInput) { in.Ipv4PrefixCount = aws.Int32(1) })
			if len(eni.Ipv4Prefixes) != 1 {
				t.Fatalf("prefixes %v, want one", eni.Ipv4Prefixes)
			}
			prefix := netip.MustParsePrefix(*eni.Ipv4Prefixes[0].Ipv4Prefix)
			if prefix.Bits() != 28 || prefix != prefix.Masked() || !cidrOf(ec.subnet).Overlaps(prefix) {
				t.Errorf("prefix %s, want a /28 of %s", prefix, *ec.subnet.CidrBlock)
			}
			if primary := netip.MustParseAddr(*eni.PrivateIpAddress); prefix.Contains(primary) {
				t.Errorf("primary address %s comes from prefix %s", primary, prefix)
			}
		}},
		{name: "a chosen IPv4 prefix", run: func(t *testing.T, ec *endpoint) {
			want := ec.freeAddresses(t, 16)[0] + "/28"
			eni := ec.eni(t, func(in *createInput) {
				in.Ipv4Prefixes = []types.Ipv4PrefixSpecificationRequest{{Ipv4Prefix: &want}}
			})
			if len(eni.Ipv4Prefixes) != 1 || *eni.Ipv4Prefixes[0].Ipv4Prefix != want {
				t.Errorf("prefixes %v, want %s", eni.Ipv4Prefixes, want)
			}
		}},
		{name: "a number of IPv6 addresses", run: func(t *testing.T, ec *endpoint) {
			dual := need(t, ec, ec.dualStack, "subnet with IPv6")
			eni := ec.eni(t, in(dual), func(in *createInput) { in.Ipv6AddressCount = aws.Int32(2) })
			within := ipv6Of(dual)
			for _, address := range eni.Ipv6Addresses {
				if !within.Contains(netip.MustParseAddr(*address.Ipv6Address)) {
					t.Errorf("%s is not in %s", *address.Ipv6Address, within)
				}
			}
			if len(eni.Ipv6Addresses) != 2 {
				t.Errorf("%d IPv6 addresses, want 2", len(eni.Ipv6Addresses))
			}
		}},
		{name: "chosen IPv6 addresses", run: func(t *testing.T, ec *endpoint) {
			dual := need(t, ec, ec.dualStack, "subnet with IPv6")
			want := after(ipv6Of(dual).Addr(), 0xace).String()
			eni := ec.eni(t, in(dual), func(in *createInput) {
				in.Ipv6Addresses = []types.InstanceIpv6Address{{Ipv6Address: &want}}
			})
			if len(eni.Ipv6Addresses) != 1 || *eni.Ipv6Addresses[0].Ipv6Address != want {
				t.Errorf("IPv6 addresses %v, want %s", eni.Ipv6Addresses, want)
			}
		}},
		{name: "a chosen IPv6 prefix", run: func(t *testing.T, ec *endpoint) {
			dual := need(t, ec, ec.dualStack, "subnet with IPv6")
			want := ipv6Block(dual, 0xabc)
			choice := func(in *createInput) { in.Ipv6Prefixes = []types.Ipv6PrefixSpecificationRequest{{Ipv6Prefix: &want}} }
			eni := ec.eni(t, in(dual), choice)
			if len(eni.Ipv6Prefixes) != 1 || *eni.Ipv6Prefixes[0].Ipv6Prefix != want {
				t.Errorf("IPv6 prefixes %v, want %s", eni.Ipv6Prefixes, want)
			}
			refusedSomehow(create(in(dual), choice))(t, ec)
		}},
		{name: "a number of IPv6 prefixes", run: func(t *testing.T, ec *endpoint) {
			dual := need(t, ec, ec.dualStack, "subnet with IPv6")
			eni := ec.eni(t, in(dual), func(in *createInput) { in.Ipv6PrefixCount = aws.Int32(1) })
			if len(eni.Ipv6Prefixes) != 1 || netip.MustParsePrefix(*eni.Ipv6Prefixes[0].Ipv6Prefix).Bits() != 80 {
				t.Errorf("IPv6 prefixes %v, want one /80", eni.Ipv6Prefixes)
			}
		}},
	})
}

func TestCreateByInterfaceType(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "the type of an Elastic Fabric Adapter", run: func(t *testing.T, ec *endpoint) {
			eni := ec.eni(t, func(in *createInput) { in.InterfaceType = types.NetworkInterfaceCreationTypeEfa })
			if eni.InterfaceType != types.NetworkInterfaceTypeEfa {
				t.Errorf("interface type %s", eni.InterfaceType)
			}
		}},
		{name: "an EFA-only interface has no addresses", strict: true, run: func(t *testing.T, ec *endpoint) {
			eni := ec.eni(t, func(in *createInput) { in.InterfaceType = types.NetworkInterfaceCreationTypeEfaOnly })
			if len(eni.PrivateIpAddresses) != 0 || eni.PrivateIpAddress != nil {
				t.Errorf("addresses %v", addresses(eni))
			}
		}},
	})
}

func TestCreateClientToken(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "the same client token makes one interface", run: func(t *testing.T, ec *endpoint) {
			token := mark().Value
			first := ec.eni(t, func(in *createInput) { in.ClientToken = token })
			again := ec.eni(t, func(in *createInput) { in.ClientToken = token })
			if *first.NetworkInterfaceId != *again.NetworkInterfaceId {
				t.Errorf("two interfaces, %s and %s", *first.NetworkInterfaceId, *again.NetworkInterfaceId)
			}
		}},
		{name: "a client token does not fit other parameters", strict: true, run: func(t *testing.T, ec *endpoint) {
			token := mark().Value
			ec.eni(t, func(in *createInput) { in.ClientToken = token })
			expectRefusal(t, "IdempotentParameterMismatch", create(func(in *createInput) {
				in.ClientToken, in.Description = token, aws.String("another")
			})(t.Context(), ec))
		}},

		{name: "callers with one client token get one interface", strict: true, run: func(t *testing.T, ec *endpoint) {
			token := mark().Value
			ids := make(chan string, 4)
			for range cap(ids) {
				go func() {
					out, err := ec.CreateNetworkInterface(t.Context(), &createInput{SubnetId: ec.subnet.SubnetId, ClientToken: token})
					if err != nil {
						ids <- err.Error()
						return
					}
					ids <- *out.NetworkInterface.NetworkInterfaceId
				}()
			}
			distinct := map[string]bool{}
			for range cap(ids) {
				distinct[<-ids] = true
			}
			if len(distinct) != 1 {
				t.Errorf("got %v, want one interface", distinct)
			}
		}},
		{name: "a token answers with the state of now", strict: true, run: func(t *testing.T, ec *endpoint) {
			token := mark().Value
			eni := ec.eni(t, func(in *createInput) { in.ClientToken = token })
			ok(t, createTags([]string{*eni.NetworkInterfaceId}, tag("later", "yes"))(t.Context(), ec))
			again, err := ec.CreateNetworkInterface(t.Context(), &createInput{
				SubnetId: ec.subnet.SubnetId, Groups: []string{ec.group}, ClientToken: token,
			})
			ok(t, err)
			if got := again.NetworkInterface; got.Status != types.NetworkInterfaceStatusAvailable || tagsOf(got.TagSet)["later"] != "yes" {
				t.Errorf("status %s, tags %v", got.Status, got.TagSet)
			}
		}},
	})
}

func TestCreateRefusals(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a parameter takes effect or is refused", strict: true, run: func(t *testing.T, ec *endpoint) {
			out, err := ec.CreateNetworkInterface(t.Context(), &createInput{
				SubnetId: ec.subnet.SubnetId,
				ConnectionTrackingSpecification: &types.ConnectionTrackingSpecificationRequest{
					TcpEstablishedTimeout: aws.Int32(400),
				},
			})
			if err == nil && (out.NetworkInterface.ConnectionTrackingConfiguration == nil ||
				aws.ToInt32(out.NetworkInterface.ConnectionTrackingConfiguration.TcpEstablishedTimeout) != 400) {
				t.Errorf("connection tracking %+v, want a timeout of 400 s", out.NetworkInterface.ConnectionTrackingConfiguration)
			}
		}},

		{name: "an unknown subnet", run: refused("InvalidSubnetID.NotFound",
			create(func(in *createInput) { in.SubnetId = aws.String(noSubnet) }))},
		{name: "an unknown group", strict: true, run: refused("InvalidSecurityGroupID.NotFound|InvalidGroup.NotFound",
			create(func(in *createInput) { in.Groups = []string{noGroup} }))},
		{name: "one unknown group among known ones", strict: true, run: refused("InvalidSecurityGroupID.NotFound|InvalidGroup.NotFound",
			create(func(in *createInput) { in.Groups = []string{ec.group, noGroup} }))},
		{name: "a group of another VPC", strict: true, run: func(t *testing.T, ec *endpoint) {
			foreign := need(t, ec, ec.otherVPC, "second VPC")
			refusedSomehow(create(func(in *createInput) {
				in.SubnetId, in.Groups = foreign.SubnetId, []string{ec.group}
			}))(t, ec)
		}},
		{name: "six groups", strict: true, run: func(t *testing.T, ec *endpoint) {
			if len(ec.groups) < 6 {
				need[int](t, ec, nil, "VPC with six security groups")
			}
			refused("SecurityGroupsPerInterfaceLimitExceeded",
				create(func(in *createInput) { in.Groups = ec.groups[:6] }))(t, ec)
		}},
	})
}

func TestCreateAddressRefusals(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "an address that another holds", strict: true, run: func(t *testing.T, ec *endpoint) {
			holder := ec.eni(t)
			expectRefusal(t, "InvalidIPAddress.InUse", create(func(in *createInput) {
				in.PrivateIpAddress = holder.PrivateIpAddress
			})(t.Context(), ec))
		}},
		{name: "an address inside a prefix that another holds", strict: true, run: func(t *testing.T, ec *endpoint) {
			holder := ec.eni(t, func(in *createInput) { in.Ipv4PrefixCount = aws.Int32(1) })
			inside := netip.MustParsePrefix(*holder.Ipv4Prefixes[0].Ipv4Prefix).Addr().Next().String()
			expectRefusal(t, "InvalidIPAddress.InUse", create(func(in *createInput) {
				in.PrivateIpAddress = &inside
			})(t.Context(), ec))
		}},
		{name: "an address outside the subnet", run: refused("InvalidParameterValue",
			create(func(in *createInput) { in.PrivateIpAddress = aws.String("203.0.113.7") }))},
		{name: "the address of the subnet's router", strict: true, run: refused("InvalidParameterValue|InvalidIPAddress.InUse",
			create(func(in *createInput) { in.PrivateIpAddress = aws.String(after(cidrOf(ec.subnet).Addr(), 1).String()) }))},
		{name: "something that is no address", strict: true, run: refused("InvalidParameterValue",
			create(func(in *createInput) { in.PrivateIpAddress = aws.String("10.0.0") }))},
		{name: "two primary addresses", strict: true, run: func(t *testing.T, ec *endpoint) {
			both := specified(ec.freeAddresses(t, 2))
			both[1].Primary = aws.Bool(true)
			expectRefusal(t, "InvalidParameterCombination|InvalidParameterValue", create(func(in *createInput) {
				in.PrivateIpAddresses = both
			})(t.Context(), ec))
		}},
		{name: "secondary addresses and prefixes at once", strict: true, run: refused("InvalidParameterCombination",
			create(withSecondaries(1), func(in *createInput) { in.Ipv4PrefixCount = aws.Int32(1) }))},
		{name: "IPv6 addresses and prefixes at once", strict: true, run: func(t *testing.T, ec *endpoint) {
			dual := need(t, ec, ec.dualStack, "subnet with IPv6")
			refused("InvalidParameterCombination", create(in(dual), func(in *createInput) {
				in.Ipv6AddressCount, in.Ipv6PrefixCount = aws.Int32(1), aws.Int32(1)
			}))(t, ec)
		}},
		{name: "IPv6 in a subnet without", strict: true, run: func(t *testing.T, ec *endpoint) {
			if len(ec.otherZone.Ipv6CidrBlockAssociationSet) > 0 {
				need[int](t, ec, nil, "subnet of another zone without IPv6")
			}
			refused("InvalidParameterValue|InvalidParameterCombination", create(in(ec.otherZone), func(in *createInput) {
				in.Ipv6AddressCount = aws.Int32(1)
			}))(t, ec)
		}},
		{name: "a negative number of addresses", strict: true, run: refused("InvalidParameterValue", create(withSecondaries(-1)))},
	})
}

func TestCreateRefusalsByTypeAndTags(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "an interface type that does not exist", strict: true, run: refused("InvalidParameterValue",
			create(func(in *createInput) { in.InterfaceType = "quantum" }))},
		{name: "addresses for an EFA-only interface", strict: true, run: refused("InvalidParameterCombination|InvalidParameterValue",
			create(withSecondaries(1), func(in *createInput) { in.InterfaceType = types.NetworkInterfaceCreationTypeEfaOnly }))},
		{name: "tags for a resource of another type", strict: true, run: refused("InvalidParameterValue",
			create(tagged(tag("k", "v")), func(in *createInput) {
				in.TagSpecifications[0].ResourceType = types.ResourceTypeInstance
			}))},
		{name: "51 tags", strict: true, run: refused("TagLimitExceeded|InvalidParameterValue", create(tagged(manyTags(51)...)))},
	})
}

var (
	eniID       = regexp.MustCompile(`^eni-[0-9a-f]{17}$`)
	macAddress  = regexp.MustCompile(`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`)
	accountName = regexp.MustCompile(`^[0-9]{12}$`)
)

// createsWithDefaults compares a whole answer, and the later describe call.
func createsWithDefaults(t *testing.T, ec *endpoint) {
	out, err := ec.CreateNetworkInterface(t.Context(), &createInput{SubnetId: ec.subnet.SubnetId})
	ok(t, err)
	answered := *out.NetworkInterface
	seen := ec.awaitENI(t, *answered.NetworkInterfaceId, "available", isAvailable)
	if answered.Status != "pending" && answered.Status != "available" {
		t.Errorf("status %s in the answer, want pending or available", answered.Status)
	}
	for _, eni := range []types.NetworkInterface{answered, seen} {
		address := netip.MustParseAddr(*eni.PrivateIpAddress)
		switch {
		case !eniID.MatchString(*eni.NetworkInterfaceId), !macAddress.MatchString(*eni.MacAddress), !accountName.MatchString(*eni.OwnerId):
			t.Errorf("id %s, MAC %s, owner %s", *eni.NetworkInterfaceId, *eni.MacAddress, *eni.OwnerId)
		case *eni.SubnetId != *ec.subnet.SubnetId, *eni.VpcId != *ec.subnet.VpcId, *eni.AvailabilityZone != *ec.subnet.AvailabilityZone:
			t.Errorf("is in %s, %s, %s", *eni.SubnetId, *eni.VpcId, *eni.AvailabilityZone)
		case !cidrOf(ec.subnet).Contains(address), !aws.ToBool(eni.PrivateIpAddresses[0].Primary), len(eni.PrivateIpAddresses) != 1:
			t.Errorf("addresses %v of %s", addresses(eni), *ec.subnet.CidrBlock)
		case !slices.Equal(groupsOf(eni), []string{ec.defaultGroup}):
			t.Errorf("groups %v, want the default group of the VPC, %s", groupsOf(eni), ec.defaultGroup)
		case !aws.ToBool(eni.SourceDestCheck), aws.ToBool(eni.RequesterManaged), eni.InterfaceType != types.NetworkInterfaceTypeInterface:
			t.Errorf("source/dest check %v, requester managed %v, type %s", *eni.SourceDestCheck, *eni.RequesterManaged, eni.InterfaceType)
		case eni.Attachment != nil, len(eni.TagSet) != 0, aws.ToString(eni.Description) != "":
			t.Errorf("attachment %v, tags %v, description %v", eni.Attachment, eni.TagSet, eni.Description)
		}
	}
	if address := netip.MustParseAddr(*seen.PrivateIpAddress); !after(cidrOf(ec.subnet).Addr(), 3).Less(address) {
		t.Errorf("%s is one of the four addresses that EC2 keeps at the start of a subnet", address)
	}
}

// TestAddressSpace fills a /28 to the last address.
func TestAddressSpace(t *testing.T) {
	ec := open(t)
	if ec.tiny == nil {
		t.Skip("fills a whole subnet, and does that to nobody's but its own")
	}
	free := func(t *testing.T, want int32) {
		t.Helper()
		ec.await(t, "free addresses", func(ctx context.Context) (string, error) {
			out, err := ec.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{*ec.tiny.SubnetId}})
			if err != nil || *out.Subnets[0].AvailableIpAddressCount == want {
				return "", err
			}
			return strconv.Itoa(int(*out.Subnets[0].AvailableIpAddressCount)), nil
		})
	}
	var filled []types.NetworkInterface
	verify(t, ec, []check{
		{name: "5 of its 16 addresses are reserved", run: func(t *testing.T, _ *endpoint) { free(t, 11) }},
		{name: "there is no room for a prefix beside them", strict: true, run: refused("InsufficientCidrBlocks|InvalidParameterValue",
			create(in(ec.tiny), func(in *createInput) { in.Ipv4PrefixCount = aws.Int32(1) }))},
		{name: "too many secondary addresses take none", run: func(t *testing.T, ec *endpoint) {
			expectRefusal(t, "InsufficientFreeAddressesInSubnet|InvalidParameterValue", create(in(ec.tiny), withSecondaries(11))(t.Context(), ec))
			free(t, 11)
		}},
		{name: "11 interfaces fit", run: func(t *testing.T, ec *endpoint) {
			for range 9 {
				filled = append(filled, ec.eni(t, in(ec.tiny)))
			}
			filled = append(filled, ec.eni(t, in(ec.tiny), withSecondaries(1)))
			free(t, 0)
		}},
		{name: "one more does not", run: refused("InsufficientFreeAddressesInSubnet", create(in(ec.tiny)))},
		{name: "nor does a secondary address", run: func(t *testing.T, ec *endpoint) {
			_, err := ec.AssignPrivateIpAddresses(t.Context(), &ec2.AssignPrivateIpAddressesInput{
				NetworkInterfaceId: filled[0].NetworkInterfaceId, SecondaryPrivateIpAddressCount: aws.Int32(1),
			})
			expectRefusal(t, "InsufficientFreeAddressesInSubnet|InvalidParameterValue", err)
		}},
		{name: "nor an instance", run: func(t *testing.T, ec *endpoint) {
			_, err := ec.RunInstances(t.Context(), ec.request(inSubnet(ec.tiny)))
			expectRefusal(t, "InsufficientFreeAddressesInSubnet", err)
		}},
		{name: "a deleted interface gives its addresses back", run: func(t *testing.T, ec *endpoint) {
			ok(t, ec.deleteENI(t.Context(), *filled[9].NetworkInterfaceId))
			free(t, 2)
			eni := ec.eni(t, in(ec.tiny), func(in *createInput) { in.PrivateIpAddress = filled[9].PrivateIpAddress })
			if *eni.PrivateIpAddress != *filled[9].PrivateIpAddress {
				t.Errorf("got %s, want %s again", *eni.PrivateIpAddress, *filled[9].PrivateIpAddress)
			}
		}},
	})
}

// TestInterfaceQuota needs an account that is nearly full.
func TestInterfaceQuota(t *testing.T) {
	ec := openWith(t, simulator{speed: 300, quota: 4})
	if !ec.simulated {
		t.Skip("only on the simulator: it uses up the quota")
	}
	verify(t, ec, []check{
		{name: "an account has a limited number of interfaces", run: func(t *testing.T, ec *endpoint) {
			first := *ec.eni(t).NetworkInterfaceId
			ec.enis(t, 2, mark())
			refused("NetworkInterfaceLimitExceeded", create())(t, ec)
			ok(t, remove(first)(t.Context(), ec))
			ec.awaitGone(t, first)
			ec.eni(t)
		}},
		{name: "primary interfaces count", strict: true,
			run: refused("NetworkInterfaceLimitExceeded|InstanceLimitExceeded", launch())},
	})
}

func specified(list []string) []types.PrivateIpAddressSpecification {
	var specs []types.PrivateIpAddressSpecification
	for i := range list {
		specs = append(specs, types.PrivateIpAddressSpecification{PrivateIpAddress: &list[i], Primary: aws.Bool(i == 0)})
	}
	return specs
}

func manyTags(n int) []types.Tag {
	tags := make([]types.Tag, n)
	for i := range tags {
		tags[i] = tag("key-"+strconv.Itoa(i), "v")
	}
	return tags
}

func tagsOf(tags []types.Tag) map[string]string {
	byKey := map[string]string{}
	for _, t := range tags {
		byKey[*t.Key] = aws.ToString(t.Value)
	}
	return byKey
}

func groupsOf(eni types.NetworkInterface) []string {
	var ids []string
	for _, group := range eni.Groups {
		ids = append(ids, *group.GroupId)
	}
	return ids
}
