// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/selector"
)

var netipValues = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// paged returns a fake that returns count interfaces page by page. The last one of a page is also the first one of the
// next page, as after a create call between the reads of two pages.
func paged(t *testing.T, count int) *fake {
	return &fake{answer: func(r request) reply {
		size, err := strconv.Atoi(r.form.Get("MaxResults"))
		if err != nil || size < 5 || size > 1000 {
			t.Errorf("MaxResults %q", r.form.Get("MaxResults"))
		}
		begin, _ := strconv.Atoi(r.form.Get("NextToken"))
		end := min(begin+size, count)
		var list []string
		for n := begin; n < end; n++ {
			list = append(list, interfaceItem(fmt.Sprintf("eni-%05d", n), "", nil))
		}
		next := ""
		if end < count {
			next = fmt.Sprintf("<nextToken>%d</nextToken>", end-1)
		}
		return reply{body: "<networkInterfaceSet>" + items(list) + "</networkInterfaceSet>" + next}
	}}
}

func TestListOwnedReadsAllPages(t *testing.T) {
	server := paged(t, 2500)
	begun := time.Now()
	all, at, err := server.client(t, awsec2.Options{}).ListOwned(t.Context())
	if err != nil || len(all) != 2500 || server.count() != 3 {
		t.Fatalf("%d interfaces by %d calls: %v", len(all), server.count(), err)
	}
	if !slices.IsSortedFunc(all, eni.CompareInterfaces) {
		t.Error("not sorted")
	}
	if at.Before(begun) || at.After(time.Now()) {
		t.Errorf("begun at %s", at)
	}
	for _, r := range server.requests {
		if diff := cmp.Diff([]string{"c1"}, r.filter("tag:"+identity.TagCluster)); diff != "" {
			t.Errorf("cluster filter (-want +got):\n%s", diff)
		}
	}
}

func TestHalfAListIsNoList(t *testing.T) {
	server := paged(t, 2500)
	answer := server.answer
	server.answer = func(r request) reply {
		if r.form.Has("NextToken") {
			return reply{code: "InvalidPaginationToken"}
		}
		return answer(r)
	}
	all, _, err := server.client(t, awsec2.Options{}).ListOwned(t.Context())
	if eni.ErrorClass(err) != eni.Transient || all != nil {
		t.Errorf("%d interfaces, %v", len(all), err)
	}
}

func TestReadsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := paged(t, 1)
		answer := server.answer
		server.answer = func(r request) reply {
			if server.count() < 3 {
				return reply{code: "Unavailable", status: 503}
			}
			return answer(r)
		}
		all, err := server.client(t, awsec2.Options{}).ListByUIDs(t.Context(), []identity.UID{"uid-1"})
		if err != nil || len(all) != 1 {
			t.Errorf("%d interfaces, %v", len(all), err)
		}
		if diff := cmp.Diff([]string{"uid-1"}, server.requests[0].filter("tag:"+identity.TagUID)); diff != "" {
			t.Errorf("UID filter (-want +got):\n%s", diff)
		}
	})
}

func TestInterfacesByID(t *testing.T) {
	server := &fake{answer: func(r request) reply {
		var list []string
		for _, id := range r.filter("network-interface-id") {
			if id != "eni-007" {
				list = append(list, interfaceItem(id, "", nil))
			}
		}
		return reply{body: "<networkInterfaceSet>" + items(list) + "</networkInterfaceSet>"}
	}}
	var ids []string
	for n := range 450 {
		ids = append(ids, fmt.Sprintf("eni-%03d", n))
	}
	client := server.client(t, awsec2.Options{})
	found, err := client.Interfaces(t.Context(), ids)
	if err != nil || len(found) != 449 || server.count() != 3 {
		t.Errorf("%d interfaces by %d calls: %v", len(found), server.count(), err)
	}
	for _, r := range server.requests {
		if r.filterValues() > 200 {
			t.Errorf("%d filter values", r.filterValues())
		}
	}
	if none, err := client.Interfaces(t.Context(), nil); err != nil || none != nil || server.count() != 3 {
		t.Errorf("nothing asked: %v, %v", none, err)
	}
}

func TestInterfaceFacts(t *testing.T) {
	server := always(reply{body: `<networkInterfaceSet><item>
		<networkInterfaceId>eni-1</networkInterfaceId><interfaceType>interface</interfaceType><status>in-use</status>
		<description>data</description><macAddress>02:00:00:00:00:01</macAddress>
		<subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><availabilityZone>us-west-2a</availabilityZone>
		<groupSet><item><groupId>sg-1</groupId></item><item><groupId>sg-2</groupId></item></groupSet>
		<sourceDestCheck>true</sourceDestCheck><requesterManaged>true</requesterManaged>
		<privateIpAddress>10.0.0.4</privateIpAddress>
		<privateIpAddressesSet>
			<item><privateIpAddress>10.0.0.4</privateIpAddress><primary>true</primary></item>
			<item><privateIpAddress>10.0.0.9</privateIpAddress><primary>false</primary></item>
			<item><privateIpAddress>10.0.0.5</privateIpAddress><primary>false</primary></item>
		</privateIpAddressesSet>
		<ipv4PrefixSet><item><ipv4Prefix>10.0.0.16/28</ipv4Prefix></item></ipv4PrefixSet>
		<ipv6AddressesSet><item><ipv6Address>2001:db8::1</ipv6Address></item></ipv6AddressesSet>
		<ipv6PrefixSet><item><ipv6Prefix>2001:db8:0:0:1::/80</ipv6Prefix></item></ipv6PrefixSet>
		<tagSet><item><key>Name</key><value>n</value></item></tagSet>
		<attachment><attachmentId>eni-attach-1</attachmentId><instanceId>i-1</instanceId><networkCardIndex>1</networkCardIndex>
			<deviceIndex>2</deviceIndex><status>attached</status><deleteOnTermination>true</deleteOnTermination></attachment>
	</item></networkInterfaceSet>`})
	found, err := server.client(t, awsec2.Options{}).Interfaces(t.Context(), []string{"eni-1"})
	if err != nil {
		t.Fatal(err)
	}
	want := []eni.Interface{{
		ID: "eni-1", Type: eni.Standard, Status: eni.InUse, Description: "data", MAC: "02:00:00:00:00:01",
		SubnetID: "subnet-1", VPCID: "vpc-1", Zone: "us-west-2a",
		Groups: []string{"sg-1", "sg-2"}, SourceDestCheck: true, RequesterManaged: true,
		Addresses: eni.Addresses{
			PrimaryIPv4:   netip.MustParseAddr("10.0.0.4"),
			SecondaryIPv4: []netip.Addr{netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.5")},
			IPv4Prefixes:  []netip.Prefix{netip.MustParsePrefix("10.0.0.16/28")},
			IPv6:          []netip.Addr{netip.MustParseAddr("2001:db8::1")},
			IPv6Prefixes:  []netip.Prefix{netip.MustParsePrefix("2001:db8:0:0:1::/80")},
		},
		Tags: map[string]string{"Name": "n"},
		Attachment: &eni.Attachment{
			ID: "eni-attach-1", InstanceID: "i-1", Slot: eni.Slot{Card: 1, Device: 2},
			Status: eni.AttachmentAttached, DeleteOnTermination: true,
		},
	}}
	if diff := cmp.Diff(want, found, netipValues); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInstanceFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fake{answer: func(r request) reply {
			if r.action != "DescribeInstances" {
				return reply{}
			}
			return reply{body: `<reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceType>m5.large</instanceType>
				<instanceState><name>stopped</name></instanceState><placement><availabilityZone>us-west-2a</availabilityZone></placement>
				<vpcId>vpc-1</vpcId><launchTime>2026-01-02T03:04:05Z</launchTime><privateDnsName>ip-10-0-0-4.ec2.internal</privateDnsName>
				<tagSet><item><key>role</key><value>upf</value></item></tagSet></item></instancesSet></item></reservationSet>`}
		}}
		look, err := server.client(t, awsec2.Options{}).DescribeInstance(t.Context(), "i-1")
		want := eni.Instance{
			ID: "i-1", Type: "m5.large", Zone: "us-west-2a", VPCID: "vpc-1", State: eni.InstanceStopped,
			LaunchedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), PrivateDNSName: "ip-10-0-0-4.ec2.internal", Tags: map[string]string{"role": "upf"},
		}
		if diff := cmp.Diff(want, look.Instance); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestSubnets(t *testing.T) {
	server := always(reply{body: `<subnetSet><item><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><availabilityZone>us-west-2a</availabilityZone>
		<cidrBlock>10.0.0.0/24</cidrBlock><availableIpAddressCount>251</availableIpAddressCount><mapPublicIpOnLaunch>true</mapPublicIpOnLaunch>
		<ipv6CidrBlockAssociationSet><item><ipv6CidrBlock>2001:db8::/64</ipv6CidrBlock><ipv6CidrBlockState><state>associated</state></ipv6CidrBlockState></item></ipv6CidrBlockAssociationSet>
		<tagSet><item><key>Name</key><value>data</value></item></tagSet></item></subnetSet>`})
	want := []eni.Subnet{{
		ID: "subnet-1", Name: "data", VPCID: "vpc-1", Zone: "us-west-2a", CIDR: netip.MustParsePrefix("10.0.0.0/24"),
		FreeIPv4: 251, HasIPv6: true, IPv6CIDR: netip.MustParsePrefix("2001:db8::/64"), Tags: map[string]string{"Name": "data"},
		MapPublicIP: true,
	}}
	cases := map[string]struct {
		terms   selector.SubnetTerms
		filters map[string][]string
	}{
		"by ID":   {selector.SubnetTerms{IDs: []string{"subnet-1", "subnet-2"}}, map[string][]string{"subnet-id": {"subnet-1", "subnet-2"}}},
		"by name": {selector.SubnetTerms{Names: []string{"data"}}, map[string][]string{"tag:Name": {"data"}}},
		"by tags": {
			selector.SubnetTerms{Tags: map[string]string{"tier": "data", "team": "net"}},
			map[string][]string{"tag:tier": {"data"}, "tag:team": {"net"}},
		},
		"wildcards stand for themselves": {selector.SubnetTerms{Names: []string{`a*b?c\`}}, map[string][]string{"tag:Name": {`a\*b\?c\\`}}},
		"a name longer than a filter value": {
			selector.SubnetTerms{Names: []string{strings.Repeat("n", 256)}}, map[string][]string{"tag:Name": {strings.Repeat("n", 254) + "*"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server.requests = nil
			found, err := server.client(t, awsec2.Options{}).Subnets(t.Context(), tc.terms)
			if err != nil || len(server.requests) != 1 {
				t.Fatalf("%d requests, %v", len(server.requests), err)
			}
			if diff := cmp.Diff(want, found, netipValues); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for filter, values := range tc.filters {
				if diff := cmp.Diff(values, server.requests[0].filter(filter)); diff != "" {
					t.Errorf("filter %s (-want +got):\n%s", filter, diff)
				}
			}
		})
	}
}

func TestSecurityGroups(t *testing.T) {
	server := always(reply{body: `<securityGroupInfo><item><groupId>sg-1</groupId><groupName>web</groupName><vpcId>vpc-1</vpcId>
		<ipPermissions><item><ipProtocol>tcp</ipProtocol><groups><item><groupId>sg-8</groupId></item></groups></item>
		<item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-1</groupId></item><item><groupId>sg-9</groupId></item></groups></item></ipPermissions>
		<ipPermissionsEgress><item><ipProtocol>-1</ipProtocol><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges></item>
		<item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-1</groupId></item></groups></item></ipPermissionsEgress>
		<tagSet><item><key>Name</key><value>front</value></item></tagSet></item></securityGroupInfo>`})
	cases := map[string]struct {
		terms   selector.GroupTerms
		filters []string
	}{
		"by ID":                         {selector.GroupTerms{IDs: []string{"sg-1"}}, []string{"group-id"}},
		"by group name and by Name tag": {selector.GroupTerms{Names: []string{"web"}}, []string{"group-name", "tag:Name"}},
		"by tags":                       {selector.GroupTerms{Tags: map[string]string{"Name": "front"}}, []string{"tag:Name"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server.requests = nil
			found, err := server.client(t, awsec2.Options{}).SecurityGroups(t.Context(), tc.terms)
			if err != nil || len(server.requests) != len(tc.filters) {
				t.Fatalf("%d requests, %v", len(server.requests), err)
			}
			for n, filter := range tc.filters {
				if server.requests[n].filter(filter) == nil {
					t.Errorf("request %d has no filter %s", n, filter)
				}
			}
			want := eni.SecurityGroup{ID: "sg-1", Name: "web", VPCID: "vpc-1", Tags: map[string]string{"Name": "front"}, AllFrom: []string{"sg-1", "sg-9"}, AllTo: []string{"sg-1"}}
			if diff := cmp.Diff(want, found[0]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The answer is one of DescribeSecurityGroups, whose rule for everything has no ports.
func TestSecurityGroupRules(t *testing.T) {
	server := always(reply{body: `<securityGroupInfo><item><groupId>sg-1</groupId><groupName>web</groupName>
		<ipPermissions>
		<item><ipProtocol>tcp</ipProtocol><fromPort>80</fromPort><toPort>90</toPort>
			<groups><item><userId>111122223333</userId><groupId>sg-2</groupId></item></groups>
			<ipRanges><item><cidrIp>10.0.0.0/16</cidrIp></item></ipRanges>
			<ipv6Ranges><item><cidrIpv6>2001:db8::/32</cidrIpv6></item></ipv6Ranges>
			<prefixListIds><item><prefixListId>pl-1</prefixListId></item></prefixListIds></item>
		<item><ipProtocol>icmp</ipProtocol><fromPort>8</fromPort><toPort>-1</toPort><groups/><ipRanges/></item>
		</ipPermissions>
		<ipPermissionsEgress><item><ipProtocol>-1</ipProtocol><groups/><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges></item>
		</ipPermissionsEgress></item></securityGroupInfo>`})
	got, err := server.client(t, awsec2.Options{}).SecurityGroupRules(t.Context(), []string{"sg-1", "sg-gone"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sg-1", "sg-gone"}, server.requests[0].filter("group-id")); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}
	want := map[string]eni.GroupRules{"sg-1": {
		ID: "sg-1",
		Ingress: []eni.GroupRule{
			{
				Protocol: "tcp", FromPort: 80, ToPort: 90, Groups: []string{"sg-2"}, PrefixLists: []string{"pl-1"},
				CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("2001:db8::/32")},
			},
			{Protocol: "icmp", FromPort: 8, ToPort: eni.AnyPort},
		},
		Egress: []eni.GroupRule{{
			Protocol: eni.AnyProtocol, FromPort: eni.AnyPort, ToPort: eni.AnyPort, CIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
		}},
	}}
	if diff := cmp.Diff(want, got, netipValues); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
