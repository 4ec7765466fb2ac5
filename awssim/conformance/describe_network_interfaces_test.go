// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func describe(in *ec2.DescribeNetworkInterfacesInput) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.DescribeNetworkInterfaces(ctx, in)
		return err
	}
}

func filtered(filters ...types.Filter) *ec2.DescribeNetworkInterfacesInput {
	return &ec2.DescribeNetworkInterfacesInput{Filters: filters, MaxResults: aws.Int32(1000)}
}

// TestNetworkInterfaceFilters creates two interfaces with one mark and different attributes, and filters by each
// attribute: a matching value finds exactly one of them, another value none, and both values both.
func TestNetworkInterfaceFilters(t *testing.T) {
	ec := open(t)
	marked := mark()
	host := *ec.instance(t).InstanceId
	one := *ec.eni(t, tagged(marked, tag("Owner", "TeamA")), func(in *createInput) { in.Description = aws.String("first of two") }).NetworkInterfaceId
	attachment := ec.attach(t, one, host, 0, 2)
	two := *ec.eni(t, in(ec.otherZone), tagged(marked, tag("Stage", "test*1")), func(in *createInput) {
		in.Description, in.InterfaceType = aws.String("second"), types.NetworkInterfaceCreationTypeEfa
		in.SecondaryPrivateIpAddressCount = aws.Int32(1)
	}).NetworkInterfaceId
	_, err := ec.ModifyNetworkInterfaceAttribute(t.Context(), &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: &two, SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)},
	})
	ok(t, err)
	first := ec.awaitENI(t, one, "attached", isAttached)
	second := ec.awaitENI(t, two, "without source/dest check", func(e types.NetworkInterface) bool { return !*e.SourceDestCheck })

	both := []string{min(one, two), max(one, two)}
	// A row is a filter with a value that only the first has, one that only the second has ("" = none has it), and
	// one that neither has.
	var rows []check
	for _, f := range []struct{ name, first, second, neither string }{
		{"network-interface-id", one, two, noENI},
		{"description", "first of two", "second", "First of two"},
		{"description", "first*", "seco??", "first"},
		{"status", "in-use", "available", "pending"},
		{"subnet-id", *first.SubnetId, *second.SubnetId, noSubnet},
		{"availability-zone", *first.AvailabilityZone, *second.AvailabilityZone, "xx-nowhere-1a"},
		{"availability-zone-id", *ec.subnet.AvailabilityZoneId, *ec.otherZone.AvailabilityZoneId, "xxn1-az1"},
		{"mac-address", *first.MacAddress, *second.MacAddress, "00:00:00:00:00:00"},
		{"private-ip-address", *first.PrivateIpAddress, *second.PrivateIpAddress, "203.0.113.1"},
		{"addresses.private-ip-address", *first.PrivateIpAddress, addresses(second)[1], "203.0.113.1"},
		{"private-dns-name", aws.ToString(first.PrivateDnsName), aws.ToString(second.PrivateDnsName), "ip-0-0-0-0.nowhere"},
		{"interface-type", "interface", "efa", "trunk"},
		{"source-dest-check", "true", "false", "maybe"},
		{"group-id", ec.group, ec.defaultGroup, noGroup},
		{"tag:Owner", "TeamA", "", "teama"},
		{"tag:Stage", "", `test\*1`, `test\?1`},
		{"tag-key", "Owner", "Stage", "owner"},
		{"attachment.attachment-id", attachment, "", noAttachment},
		{"attachment.instance-id", host, "", noInstance},
		{"attachment.status", "attached", "", "attaching"},
		{"attachment.device-index", "2", "", "1"},
		{"attachment.delete-on-termination", "false", "", "true"},
	} {
		rows = append(rows, check{name: f.name, run: func(t *testing.T, ec *endpoint) {
			if f.first != "" {
				ec.awaitFound(t, []string{one}, hasTag(marked), filter(f.name, f.first))
			}
			if f.second != "" {
				ec.awaitFound(t, []string{two}, hasTag(marked), filter(f.name, f.second))
			}
			if f.first != "" && f.second != "" {
				ec.awaitFound(t, both, hasTag(marked), filter(f.name, f.first, f.second, f.neither))
			}
			ec.awaitFound(t, []string{}, hasTag(marked), filter(f.name, f.neither))
		}})
	}
	verify(t, ec, rows)
}

// TestNetworkInterfaceFilterRules is about all filters.
func TestNetworkInterfaceFilterRules(t *testing.T) {
	ec := open(t)
	marked := mark()
	one := *ec.eni(t, tagged(marked, tag("Owner", "TeamA"))).NetworkInterfaceId
	ec.attach(t, one, *ec.instance(t).InstanceId, 0, 1)
	second := ec.eni(t, tagged(marked))
	two := *second.NetworkInterfaceId
	both := []string{min(one, two), max(one, two)}
	verify(t, ec, []check{
		{name: "what both share", run: func(t *testing.T, ec *endpoint) {
			ec.awaitFound(t, both, hasTag(marked))
			ec.awaitFound(t, both, hasTag(marked), filter("vpc-id", *ec.subnet.VpcId))
			ec.awaitFound(t, both, hasTag(marked), filter("owner-id", *second.OwnerId))
			ec.awaitFound(t, both, hasTag(marked), filter("requester-managed", "false"))
			ec.awaitFound(t, []string{}, hasTag(marked), filter("requester-managed", "true"))
		}},
		{name: "every filter must hold", run: func(t *testing.T, ec *endpoint) {
			ec.awaitFound(t, []string{one}, hasTag(marked), filter("status", "in-use", "available"), filter("tag-key", "Owner"))
			ec.awaitFound(t, []string{}, hasTag(marked), filter("status", "available"), filter("tag-key", "Owner"))
		}},
		{name: "a filter narrows a list of ids", strict: true, run: func(t *testing.T, ec *endpoint) {
			out, err := ec.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{
				NetworkInterfaceIds: both, Filters: []types.Filter{filter("status", "in-use")},
			})
			if err != nil || len(out.NetworkInterfaces) != 1 || *out.NetworkInterfaces[0].NetworkInterfaceId != one {
				t.Errorf("got %v and %v, want %s", out, err, one)
			}
		}},
		{name: "a filter that does not exist", run: refused("InvalidParameterValue",
			describe(filtered(filter("attachment.colour", "red"))))},
		{name: "no filter is ignored", run: func(t *testing.T, ec *endpoint) {
			for _, name := range []string{
				"association.public-ip", "addresses.association.public-ip", "attachment.attach-time", "attachment.instance-owner-id",
				"ipv6-addresses.ipv6-address", "operator.managed", "requester-id", "addresses.primary",
			} {
				found, err := ec.search(t.Context(), filter(name, "none has this"))
				if len(found) > 0 || err != nil && codeOf(err) != "InvalidParameterValue" {
					t.Errorf("%s: found %v (%v)", name, found, err)
				}
			}
		}},
		{name: "tags by part of their value", run: func(t *testing.T, ec *endpoint) {
			ec.awaitFound(t, []string{one}, hasTag(marked), filter("tag:Owner", "*eam?"))
			ec.awaitFound(t, both, hasTag(marked), filter("tag:"+*marked.Key, (*marked.Value)[:5]+"*"))
			ec.awaitFound(t, []string{one}, hasTag(marked), filter("tag-key", "Own*"))
		}},
		{name: "200 values, but not 201", strict: true, run: func(t *testing.T, ec *endpoint) {
			values := make([]string, 200)
			for i := range values {
				values[i] = "eni-0fffffffffffff" + strconv.Itoa(100+i)
			}
			values[7] = one
			ec.awaitFound(t, []string{one}, filter("network-interface-id", values...))
			refused("FilterLimitExceeded", describe(filtered(filter("network-interface-id", append(values, two)...))))(t, ec)
		}},
		{name: "a value of 255 characters, but not 256", strict: true, run: func(t *testing.T, ec *endpoint) {
			ec.awaitFound(t, []string{}, filter("description", strings.Repeat("x", 255)))
			refused("FilterLimitExceeded", describe(filtered(filter("description", strings.Repeat("x", 256)))))(t, ec)
		}},
	})
}

func TestDescribeNetworkInterfaces(t *testing.T) {
	ec := open(t)
	marked := mark()
	made := ec.enis(t, 12, marked)
	verify(t, ec, []check{
		{name: "by id", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.DescribeNetworkInterfaces(t.Context(), byID(made[3], made[5]))
			ok(t, err)
			if len(out.NetworkInterfaces) != 2 || out.NextToken != nil {
				t.Errorf("got %d interfaces, want 2 on one page", len(out.NetworkInterfaces))
			}
		}},
		{name: "by an id given twice", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.DescribeNetworkInterfaces(t.Context(), byID(made[3], made[3]))
			if err != nil || len(out.NetworkInterfaces) != 1 {
				t.Errorf("got %v (%v), want one interface", out, err)
			}
		}},
		{name: "what is deleted between two pages is not listed, the rest is, once", strict: true, run: pagesWhileDeleting},
		{name: "in pages of 5", run: func(t *testing.T, ec *endpoint) {
			ec.awaitFound(t, made, hasTag(marked))
			seen := map[string]int{}
			pages := ec2.NewDescribeNetworkInterfacesPaginator(ec, &ec2.DescribeNetworkInterfacesInput{
				Filters: []types.Filter{hasTag(marked)}, MaxResults: aws.Int32(5),
			})
			for pages.HasMorePages() {
				page, err := pages.NextPage(t.Context())
				ok(t, err)
				if len(page.NetworkInterfaces) > 5 {
					t.Errorf("a page of %d", len(page.NetworkInterfaces))
				}
				for _, eni := range page.NetworkInterfaces {
					seen[*eni.NetworkInterfaceId]++
				}
			}
			for _, id := range made {
				if seen[id] != 1 || len(seen) != 12 {
					t.Errorf("saw %d interfaces and %s %d times, want 12, each once", len(seen), id, seen[id])
				}
			}
		}},
		{name: "an unknown id", run: refused("InvalidNetworkInterfaceID.NotFound", describe(byID(noENI)))},
		{name: "one unknown id fails them all", strict: true,
			run: refused("InvalidNetworkInterfaceID.NotFound", describe(byID(made[0], noENI, made[1])))},
		{name: "something that is no id", strict: true,
			run: refused("InvalidNetworkInterfaceID.Malformed|InvalidNetworkInterfaceId.Malformed|InvalidNetworkInterfaceID.NotFound", describe(byID("eni-x")))},
		{name: "ids and pages exclude each other", strict: true, run: refused("InvalidParameterCombination",
			describe(&ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: made[:1], MaxResults: aws.Int32(5)}))},
		{name: "pages of 4", strict: true, run: refused("InvalidParameterValue",
			describe(&ec2.DescribeNetworkInterfacesInput{MaxResults: aws.Int32(4)}))},
		{name: "pages of 1001", strict: true, run: refused("InvalidParameterValue",
			describe(&ec2.DescribeNetworkInterfacesInput{MaxResults: aws.Int32(1001)}))},
		{name: "a token that EC2 never gave", strict: true, run: refused("InvalidPaginationToken|InvalidParameterValue|InvalidNextToken",
			describe(&ec2.DescribeNetworkInterfacesInput{MaxResults: aws.Int32(5), NextToken: aws.String("page two, please")}))},
	})
}

// pagesWhileDeleting reads page by page and deletes, after the first page, an interface that was on it.
func pagesWhileDeleting(t *testing.T, ec *endpoint) {
	tag := mark()
	ids := ec.enis(t, 11, tag)
	ec.awaitFound(t, ids, hasTag(tag))
	seen := map[string]int{}
	pages := ec2.NewDescribeNetworkInterfacesPaginator(ec, &ec2.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{hasTag(tag)}, MaxResults: aws.Int32(5),
	})
	for first := true; pages.HasMorePages(); first = false {
		page, err := pages.NextPage(t.Context())
		ok(t, err)
		for _, eni := range page.NetworkInterfaces {
			seen[*eni.NetworkInterfaceId]++
		}
		if first {
			gone := *page.NetworkInterfaces[0].NetworkInterfaceId
			ok(t, remove(gone)(t.Context(), ec))
			ec.awaitGone(t, gone)
		}
	}
	for _, id := range ids {
		if seen[id] != 1 {
			t.Errorf("saw %s %d times", id, seen[id])
		}
	}
}
