// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

func describeTypes(in *ec2.DescribeInstanceTypesInput) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.DescribeInstanceTypes(ctx, in)
		return err
	}
}

// typesFound returns the names that the filters find, sorted, page by page.
func (ec *endpoint) typesFound(t *testing.T, filters ...types.Filter) []string {
	t.Helper()
	names := []string{}
	pages := ec2.NewDescribeInstanceTypesPaginator(ec, &ec2.DescribeInstanceTypesInput{Filters: filters, MaxResults: aws.Int32(5)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		ok(t, err)
		if len(page.InstanceTypes) > 5 {
			t.Errorf("a page of %d, want at most 5", len(page.InstanceTypes))
		}
		for _, found := range page.InstanceTypes {
			names = append(names, string(found.InstanceType))
		}
	}
	slices.Sort(names)
	return names
}

func TestDescribeInstanceTypes(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "one type whole", run: describesWholeType},
		{name: "network cards", run: describesCards},
		{name: "Elastic Fabric Adapters", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{
				InstanceTypes: []types.InstanceType{"c5n.18xlarge"},
			})
			ok(t, err)
			n := out.InstanceTypes[0].NetworkInfo
			if !*n.EfaSupported || n.EfaInfo == nil || *n.EfaInfo.MaximumEfaInterfaces != 1 {
				t.Errorf("EFA %t, %+v", *n.EfaSupported, n.EfaInfo)
			}
		}},
		{name: "timeouts of connection tracking", run: describesTracking},
		{name: "filters", run: filtersTypes},
		{name: "an unknown type", run: refused("InvalidInstanceType",
			describeTypes(&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.large", "m5.gigantic"}}))},
		{name: "101 types", strict: true, run: refusedSomehow(
			describeTypes(&ec2.DescribeInstanceTypesInput{InstanceTypes: slices.Repeat([]types.InstanceType{"m5.large"}, 101)}))},
		{name: "pages of 101", strict: true, run: refused("InvalidParameterValue",
			describeTypes(&ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(101)}))},
		{name: "a filter that does not exist", run: refused("InvalidParameterValue",
			describeTypes(&ec2.DescribeInstanceTypesInput{Filters: []types.Filter{filter("colour", "red")}}))},
	})
}

func describesWholeType(t *testing.T, ec *endpoint) {
	out, err := ec.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{
		InstanceTypes: []types.InstanceType{"m5.xlarge"},
	})
	ok(t, err)
	if len(out.InstanceTypes) != 1 {
		t.Fatalf("%d types, want one", len(out.InstanceTypes))
	}
	got := out.InstanceTypes[0]
	switch n := got.NetworkInfo; {
	case *got.VCpuInfo.DefaultVCpus != 4, *got.MemoryInfo.SizeInMiB != 16384, *got.BareMetal, *got.CurrentGeneration, got.Hypervisor != "nitro":
		t.Errorf("facts %+v", got)
	case *n.MaximumNetworkInterfaces != 4, *n.MaximumNetworkCards != 1, *n.DefaultNetworkCardIndex != 0, *n.Ipv4AddressesPerInterface != 15:
		t.Errorf("network %+v", n)
	case *n.Ipv6AddressesPerInterface != 15, !*n.Ipv6Supported, *n.EfaSupported, *n.EnaSrdSupported, n.EnaSupport != "required":
		t.Errorf("network %+v", n)
	case len(n.NetworkCards) != 1, *n.NetworkCards[0].NetworkCardIndex != 0, *n.NetworkCards[0].MaximumNetworkInterfaces != 4:
		t.Errorf("cards %+v", n.NetworkCards)
	case !slices.Contains(got.ProcessorInfo.SupportedArchitectures, "x86_64"):
		t.Errorf("processor %+v", got.ProcessorInfo)
	}
}

// describesTracking: types of Nitro v6 forget idle TCP connections soon, and types without Nitro take no timeouts.
func describesTracking(t *testing.T, ec *endpoint) {
	want := map[string]int32{"m5.large": 432000, "m8g.large": 432000, "m8i.large": 350, "m4.large": 0}
	in := &ec2.DescribeInstanceTypesInput{}
	for name := range want {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
	}
	out, err := ec.DescribeInstanceTypes(t.Context(), in)
	if codeOf(err) == "InvalidInstanceType" && !ec.simulated {
		t.Skip("the region lacks one of the types")
	}
	ok(t, err)
	for _, found := range out.InstanceTypes {
		var tcp int32
		if c := found.NetworkInfo.ConnectionTrackingConfiguration; c != nil {
			tcp = aws.ToInt32(c.DefaultTcpEstablishedTimeout)
		}
		if tcp != want[string(found.InstanceType)] {
			t.Errorf("%s has the TCP timeout %d, want %d", found.InstanceType, tcp, want[string(found.InstanceType)])
		}
	}
}

func describesCards(t *testing.T, ec *endpoint) {
	type limits struct{ interfaces, cards, perCard, addresses int32 }
	want := map[string]limits{
		"t3.medium": {3, 1, 3, 6}, "c5n.18xlarge": {15, 1, 15, 50}, "c6in.32xlarge": {16, 2, 8, 50},
		"p4d.24xlarge": {60, 4, 15, 50}, "p5.48xlarge": {64, 32, 2, 50},
	}
	in := &ec2.DescribeInstanceTypesInput{}
	for name := range want {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
	}
	out, err := ec.DescribeInstanceTypes(t.Context(), in)
	if codeOf(err) == "InvalidInstanceType" && !ec.simulated {
		t.Skip("the region lacks one of the types")
	}
	ok(t, err)
	got := map[string]limits{}
	for _, found := range out.InstanceTypes {
		n := found.NetworkInfo
		got[string(found.InstanceType)] = limits{
			*n.MaximumNetworkInterfaces, *n.MaximumNetworkCards, *n.NetworkCards[0].MaximumNetworkInterfaces, *n.Ipv4AddressesPerInterface,
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(limits{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// filtersTypes narrows one family with one filter after the other.
func filtersTypes(t *testing.T, ec *endpoint) {
	const family = "m5.*"
	all := ec.typesFound(t, filter("instance-type", family))
	if len(all) != 9 || slices.ContainsFunc(all, func(name string) bool { return !strings.HasPrefix(name, "m5.") }) {
		t.Fatalf("%s finds %v", family, all)
	}
	for _, row := range []struct {
		name, value string
		want        []string
	}{
		{"bare-metal", "true", []string{"m5.metal"}},
		{"current-generation", "true", []string{}},
		{"hypervisor", "xen", []string{}},
		{"network-info.maximum-network-interfaces", "3", []string{"m5.large"}},
		{"network-info.ipv4-addresses-per-interface", "15", []string{"m5.2xlarge", "m5.xlarge"}},
		{"network-info.maximum-network-cards", "2", []string{}},
		{"network-info.efa-supported", "false", all},
		{"network-info.ipv6-supported", "true", all},
		{"network-info.ena-support", "required", all},
		{"network-info.network-performance", "25 Gigabit", []string{"m5.24xlarge", "m5.metal"}},
		{"vcpu-info.default-vcpus", "2", []string{"m5.large"}},
		{"memory-info.size-in-mib", "8192", []string{"m5.large"}},
		{"processor-info.supported-architecture", "arm64", []string{}},
	} {
		if diff := cmp.Diff(row.want, ec.typesFound(t, filter("instance-type", family), filter(row.name, row.value))); diff != "" {
			t.Errorf("%s=%s (-want +got):\n%s", row.name, row.value, diff)
		}
	}
}
