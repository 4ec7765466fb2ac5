// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
)

// find lists interfaces by filters, as IDs.
func (s *scene) find(page ec2.Page) (ids []string, next string) {
	s.Helper()
	out, err := s.DescribeNetworkInterfaces(s.call, &ec2.DescribeNetworkInterfacesInput{Page: page})
	s.must(err)
	for _, eni := range out.NetworkInterfaces {
		ids = append(ids, eni.NetworkInterfaceID)
	}
	return ids, out.NextToken
}

func by(filters ...ec2.Filter) ec2.Page { return ec2.Page{Filters: filters} }

func filter(name string, values ...string) ec2.Filter { return ec2.Filter{Name: name, Values: values} }

func (s *scene) createTagged(subnet string, tags ...ec2.Tag) string {
	s.Helper()
	in := create(subnet)
	in.TagSpecifications = []ec2.TagSpecification{{ResourceType: "network-interface", Tags: tags}}
	out, err := s.CreateNetworkInterface(s.call, in)
	s.must(err)
	return out.NetworkInterface.NetworkInterfaceID
}

func TestInterfaceFilters(t *testing.T) {
	s := play(t, ec2.Behavior{})
	one := s.createTagged(subnetA2, tag("team", "red"), tag("empty", ""))
	two := s.createTagged(subnetA2, tag("team", "reddish"), tag("tricky", "a*b"))
	s.attach(two, instanceA, 0, 2)
	eni := s.eni(one)
	both := []string{one, two}
	slices.Sort(both)
	here := filter("subnet-id", subnetA2)
	for name, row := range map[string]struct {
		want    []string
		filters []ec2.Filter
	}{
		"tag":                      {[]string{one}, []ec2.Filter{filter("tag:team", "red")}},
		"tag, any of two":          {both, []ec2.Filter{filter("tag:team", "red", "reddish")}},
		"tag pattern":              {both, []ec2.Filter{filter("tag:team", "r?d*")}},
		"escaped pattern":          {[]string{two}, []ec2.Filter{filter("tag:tricky", `a\*b`)}},
		"escape does not match":    {nil, []ec2.Filter{filter("tag:team", `re\*`)}},
		"empty tag":                {[]string{one}, []ec2.Filter{filter("tag:empty", "")}},
		"tag key":                  {[]string{two}, []ec2.Filter{filter("tag-key", "tricky")}},
		"case matters":             {nil, []ec2.Filter{filter("tag:team", "Red")}},
		"all filters":              {nil, []ec2.Filter{filter("tag:team", "red"), filter("status", "in-use")}},
		"status":                   {[]string{one}, []ec2.Filter{here, filter("status", "available")}},
		"attachment status":        {[]string{two}, []ec2.Filter{here, filter("attachment.status", "attached")}},
		"instance":                 {[]string{two}, []ec2.Filter{here, filter("attachment.instance-id", instanceA, instanceB)}},
		"device index":             {[]string{two}, []ec2.Filter{here, filter("attachment.device-index", "2")}},
		"delete on termination":    {[]string{two}, []ec2.Filter{here, filter("attachment.delete-on-termination", "false")}},
		"address":                  {[]string{one}, []ec2.Filter{filter("private-ip-address", eni.PrivateIPAddress.String())}},
		"MAC":                      {[]string{one}, []ec2.Filter{filter("mac-address", eni.MACAddress)}},
		"ID":                       {[]string{one}, []ec2.Filter{filter("network-interface-id", one, "eni-0")}},
		"requester-managed":        {[]string{balancerENI}, []ec2.Filter{filter("requester-managed", "true")}},
		"description":              {[]string{balancerENI}, []ec2.Filter{filter("description", "ELB *")}},
		"zone and VPC, none":       {nil, []ec2.Filter{filter("availability-zone", "us-east-1b"), filter("vpc-id", "vpc-00000000000000b16")}},
		"group, with source check": {nil, []ec2.Filter{filter("group-id", groupA), filter("source-dest-check", "true")}},
		"owner and interface type": {both, []ec2.Filter{here, filter("owner-id", "123456789012"), filter("interface-type", "interface")}},
		"an Elastic IP, none":      {nil, []ec2.Filter{here, filter("association.allocation-id", "*")}},
		"operated by nobody":       {both, []ec2.Filter{here, filter("operator.managed", "false")}},
		"operated by a service":    {nil, []ec2.Filter{filter("operator.principal", "*")}},
		"values without any match": {nil, []ec2.Filter{filter("tag:nobody", "x")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := s.find(by(row.filters...))
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPages(t *testing.T) {
	s := play(t, ec2.Behavior{})
	var want []string
	for range 12 {
		want = append(want, s.createTagged(subnetA, tag("page", "yes")))
	}
	slices.Sort(want)
	page := by(filter("tag:page", "yes"))
	page.MaxResults = new(5)
	var got []string
	var sizes []int
	for {
		ids, next := s.find(page)
		got, sizes = append(got, ids...), append(sizes, len(ids))
		if page.NextToken = next; next == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(sizes, []int{5, 5, 2}) {
		t.Errorf("pages of %v (-want +got):\n%s", sizes, diff)
	}
}

func TestDescribeRefusals(t *testing.T) {
	try := func(s *scene, page ec2.Page, ids ...string) error {
		_, err := s.DescribeNetworkInterfaces(s.call, &ec2.DescribeNetworkInterfacesInput{Page: page, NetworkInterfaceIDs: ids})
		return err
	}
	refusals(t, map[string]refusal{
		"one unknown ID": {"InvalidNetworkInterfaceID.NotFound", func(s *scene) error {
			return try(s, ec2.Page{}, s.create(subnetA), "eni-0000000000000dead")
		}},
		"malformed ID":   {"InvalidNetworkInterfaceId.Malformed", func(s *scene) error { return try(s, ec2.Page{}, "x") }},
		"IDs and pages":  {"InvalidParameterCombination", func(s *scene) error { return try(s, ec2.Page{MaxResults: new(5)}, s.create(subnetA)) }},
		"small pages":    {"InvalidParameterValue", func(s *scene) error { return try(s, ec2.Page{MaxResults: new(4)}) }},
		"large pages":    {"InvalidParameterValue", func(s *scene) error { return try(s, ec2.Page{MaxResults: new(1001)}) }},
		"bad token":      {"InvalidPaginationToken", func(s *scene) error { return try(s, ec2.Page{MaxResults: new(5), NextToken: "x"}) }},
		"unknown filter": {"InvalidParameterValue", func(s *scene) error { return try(s, by(filter("colour", "red"))) }},
		"no value":       {"InvalidParameterValue", func(s *scene) error { return try(s, by(filter("status"))) }},
		"201 values": {"FilterLimitExceeded", func(s *scene) error {
			return try(s, by(filter("status", slices.Repeat([]string{"x"}, 100)...), filter("subnet-id", slices.Repeat([]string{"x"}, 101)...)))
		}},
		"long value": {"FilterLimitExceeded", func(s *scene) error { return try(s, by(filter("status", string(make([]byte, 256))))) }},
		"dry run":    {"DryRunOperation", func(s *scene) error { return try(s, ec2.Page{DryRun: true}) }},
	})
}

func TestUnpagedLimit(t *testing.T) {
	s := play(t, ec2.Behavior{UnpagedLimit: 5})
	s.create(subnetA)
	try := func(page ec2.Page) string {
		_, err := s.DescribeNetworkInterfaces(s.call, &ec2.DescribeNetworkInterfacesInput{Page: page})
		return codeOf(err)
	}
	if got := try(by(filter("status", "available"))); got != "OperationNotPermitted" {
		t.Errorf("unpaged: %q", got)
	}
	if got := try(by(filter("subnet-id", subnetA))); got != "" {
		t.Errorf("by subnet: %q", got)
	}
	if got := try(ec2.Page{MaxResults: new(1000)}); got != "" {
		t.Errorf("paged: %q", got)
	}
}

func TestVisibilityLag(t *testing.T) {
	s := play(t, ec2.Behavior{Visibility: exactly(2 * time.Second)})
	id := s.createTagged(subnetA, tag("team", "red"))
	red := by(filter("tag:team", "red"))
	if _, err := s.seen(id); codeOf(err) != "InvalidNetworkInterfaceID.NotFound" {
		t.Errorf("by ID at once: %v", err)
	}
	if got, _ := s.find(red); len(got) > 0 {
		t.Errorf("by tag at once: %v", got)
	}
	s.attach(id, instanceA, 0, 1) // an interface that is not visible can be used
	s.wait(2 * time.Second)
	if got, _ := s.find(red); len(got) != 1 {
		t.Errorf("by tag after the lag: %v", got)
	}
	_, err := s.DeleteTags(s.call, &ec2.TagsInput{ResourceIDs: []string{id}, Tags: []ec2.Tag{{Key: "team"}}})
	s.must(err)
	if got, _ := s.find(red); len(got) != 1 {
		t.Error("the removed tag is not shown any more, without any lag")
	}
	s.wait(2 * time.Second)
	if got, _ := s.find(red); len(got) != 0 {
		t.Error("the removed tag is shown after the lag")
	}
	if _, waits := s.NextDue(); waits {
		t.Error("something is still due")
	}
}

// By default a new interface is visible at once, except one in a hundred: the VPC resource controller of AWS treats an
// interface that is not visible yet as lost.
func TestUsualVisibility(t *testing.T) {
	s := play(t, ec2.DefaultBehavior())
	const made = 500
	hidden := 0
	for range made {
		if _, err := s.seen(s.create(subnetA)); err != nil {
			hidden++
		}
	}
	if hidden == 0 || hidden > made/25 {
		t.Errorf("%d of %d interfaces are not shown at once", hidden, made)
	}
}

// Our own suites use a behavior that hides almost every new interface at first.
func TestLaggingVisibility(t *testing.T) {
	s := play(t, ec2.LaggingBehavior())
	const made = 100
	shown := 0
	for range made {
		if _, err := s.seen(s.create(subnetA)); err == nil {
			shown++
		}
	}
	if shown > made/20 {
		t.Errorf("%d of %d interfaces are shown at once", shown, made)
	}
}

func TestDeletedIsSeenForAWhile(t *testing.T) {
	s := play(t, ec2.Behavior{Visibility: exactly(2 * time.Second)})
	id := s.create(subnetA)
	s.wait(2 * time.Second)
	_, err := s.DeleteNetworkInterface(s.call, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: id})
	s.must(err)
	if eni, err := s.seen(id); err != nil || eni.Status != "available" {
		t.Errorf("at once: %v", err)
	}
	s.wait(2 * time.Second)
	if _, err := s.seen(id); codeOf(err) != "InvalidNetworkInterfaceID.NotFound" {
		t.Errorf("after the lag: %v", err)
	}
}

func TestAnswersDoNotChange(t *testing.T) {
	s := play(t, ec2.Behavior{})
	id := s.createTagged(subnetA, tag("team", "red"))
	before, err := s.seen(id)
	s.must(err)
	attachment := s.attach(id, instanceA, 0, 1)
	attached, err := s.seen(id)
	s.must(err)
	_, err = s.CreateTags(s.call, &ec2.TagsInput{ResourceIDs: []string{id}, Tags: []ec2.Tag{tag("team", "blue")}})
	s.must(err)
	s.detach(attachment, false)
	if before.Attachment != nil || before.Tags["team"] != "red" || attached.Attachment.Status != ec2.Attached {
		t.Errorf("earlier answers changed: %+v, %+v", before, attached)
	}
}

func TestStaleReads(t *testing.T) {
	t.Run("of everything", func(t *testing.T) {
		s := play(t, ec2.Behavior{})
		id := s.createTagged(subnetA, tag("team", "red"))
		s.wait(time.Minute)
		_, err := s.CreateTags(s.call, &ec2.TagsInput{ResourceIDs: []string{id}, Tags: []ec2.Tag{tag("team", "blue")}})
		s.must(err)
		s.wait(20 * time.Second)
		red, _ := s.find(by(filter("tag:team", "red")))
		if len(red) != 0 {
			t.Fatal("seen without a fault")
		}
		stale := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.StaleRead, Action: "DescribeNetworkInterfaces", Age: 30 * time.Second})
		id = stale.createTagged(subnetA, tag("team", "red"))
		stale.wait(time.Minute)
		_, err = stale.CreateTags(stale.call, &ec2.TagsInput{ResourceIDs: []string{id}, Tags: []ec2.Tag{tag("team", "blue")}})
		stale.must(err)
		stale.wait(20 * time.Second)
		if red, _ := stale.find(by(filter("tag:team", "red"))); len(red) != 1 {
			t.Error("the old tag is not seen")
		}
		stale.wait(10 * time.Second)
		if red, _ := stale.find(by(filter("tag:team", "red"))); len(red) != 0 {
			t.Error("the old tag is seen for too long")
		}
	})
	t.Run("back and forth", func(t *testing.T) {
		s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.StaleRead, Age: time.Minute, Jitter: true})
		id := s.create(subnetA)
		s.wait(30 * time.Second)
		var changes int
		last := false
		for range 50 {
			_, err := s.seen(id)
			if now := err == nil; now != last {
				last = now
				changes++
			}
		}
		if changes < 5 {
			t.Errorf("seen and unseen changed %d times", changes)
		}
	})
	t.Run("of one resource", func(t *testing.T) {
		s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.StaleRead, Age: time.Minute, Resource: instanceA})
		s.wait(2 * time.Minute)
		s.must(s.terminate(instanceA))
		s.must(s.terminate(instanceB))
		out, err := s.DescribeInstances(s.call, &ec2.DescribeInstancesInput{InstanceIDs: []string{instanceA, instanceB}})
		s.must(err)
		if a, b := out.Reservations[0].Instances[0], out.Reservations[1].Instances[0]; a.State.Name != ec2.Running || b.State.Name != ec2.Terminated {
			t.Errorf("%s and %s", a.State.Name, b.State.Name)
		}
	})
}

func TestInvalidateNextToken(t *testing.T) {
	s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.InvalidateNextToken, Count: 1})
	for range 6 {
		s.createTagged(subnetA, tag("page", "yes"))
	}
	page := by(filter("tag:page", "yes"))
	page.MaxResults = new(5)
	_, page.NextToken = s.find(page)
	_, err := s.DescribeNetworkInterfaces(s.call, &ec2.DescribeNetworkInterfacesInput{Page: page})
	if codeOf(err) != "InvalidPaginationToken" {
		t.Errorf("got %v", err)
	}
}

func TestDescribeNetwork(t *testing.T) {
	s := play(t, ec2.Behavior{})
	subnets, err := s.DescribeSubnets(s.call, &ec2.DescribeSubnetsInput{Page: by(filter("tag:Name", "second"), filter("availability-zone", "us-east-1a"))})
	s.must(err)
	groups, err := s.DescribeSecurityGroups(s.call, &ec2.DescribeSecurityGroupsInput{Page: by(filter("tag:network", "multus"))})
	s.must(err)
	vpcs, err := s.DescribeVPCs(s.call, &ec2.DescribeVPCsInput{})
	s.must(err)
	zones, err := s.DescribeAvailabilityZones(s.call, &ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"us-east-1b"}})
	s.must(err)
	types, err := s.DescribeInstanceTypes(s.call, &ec2.DescribeInstanceTypesInput{InstanceTypes: []string{"p4d.24xlarge"}})
	s.must(err)
	switch {
	case len(subnets.Subnets) != 1, subnets.Subnets[0].SubnetID != subnetA2, subnets.Subnets[0].AvailableIPAddressCount != 251:
		t.Errorf("subnets %+v", subnets.Subnets)
	case len(groups.SecurityGroups) != 1, groups.SecurityGroups[0].GroupID != groupA:
		t.Errorf("groups %+v", groups.SecurityGroups)
	case len(vpcs.VPCs) != 2, len(zones.AvailabilityZones) != 1:
		t.Errorf("VPCs %+v, zones %+v", vpcs.VPCs, zones.AvailabilityZones)
	case types.InstanceTypes[0].NetworkInfo.MaximumNetworkInterfaces != 60, len(types.InstanceTypes[0].NetworkInfo.NetworkCards) != 4:
		t.Errorf("type %+v", types.InstanceTypes[0])
	}
	for name, err := range map[string]error{
		"InvalidSubnetID.NotFound": func() error {
			_, err := s.DescribeSubnets(s.call, &ec2.DescribeSubnetsInput{SubnetIDs: []string{"subnet-0000000000000dead"}})
			return err
		}(),
		"InvalidGroup.NotFound": func() error {
			_, err := s.DescribeSecurityGroups(s.call, &ec2.DescribeSecurityGroupsInput{GroupIDs: []string{"sg-0000000000000dead"}})
			return err
		}(),
		"InvalidInstanceType": func() error {
			_, err := s.DescribeInstanceTypes(s.call, &ec2.DescribeInstanceTypesInput{InstanceTypes: []string{"z9.nano"}})
			return err
		}(),
	} {
		if codeOf(err) != name {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}

func TestAllInstanceTypesByPage(t *testing.T) {
	s := play(t, ec2.Behavior{})
	seen := map[string]bool{}
	in := &ec2.DescribeInstanceTypesInput{}
	for {
		out, err := s.DescribeInstanceTypes(s.call, in)
		s.must(err)
		for _, known := range out.InstanceTypes {
			seen[known.InstanceType] = true
		}
		if in.NextToken = out.NextToken; in.NextToken == "" {
			break
		}
	}
	if len(seen) < 1000 || !seen["p5.48xlarge"] || !seen["t3.medium"] {
		t.Errorf("%d types", len(seen))
	}
}

func TestInstanceFilters(t *testing.T) {
	s := play(t, ec2.Behavior{})
	id := s.create(subnetA2)
	s.attach(id, smallA, 0, 1)
	in := run(1)
	in.KeyName, in.ClientToken = "key", "token"
	in.IAMInstanceProfile = &ec2.InstanceProfileSpecification{Name: "role"}
	out, err := s.RunInstances(s.call, in)
	s.must(err)
	launched := out.Instances[0]
	for name, row := range map[string]struct {
		want   string
		filter ec2.Filter
	}{
		"tag":                    {instanceA, filter("tag:Name", "a")},
		"tag key":                {instanceA, filter("tag-key", "Name")},
		"type":                   {cardsA, filter("instance-type", "p4d*")},
		"zone":                   {instanceB, filter("availability-zone", "us-east-1b")},
		"zone ID":                {instanceB, filter("availability-zone-id", "use1-az2")},
		"subnet":                 {instanceB, filter("subnet-id", subnetB)},
		"ID":                     {smallA, filter("instance-id", smallA)},
		"address":                {instanceA, filter("private-ip-address", s.instance(instanceA).PrivateIPAddress.String())},
		"DNS name":               {instanceA, filter("private-dns-name", s.instance(instanceA).PrivateDNSName)},
		"an interface":           {smallA, filter("network-interface.network-interface-id", id)},
		"an interface's subnet":  {smallA, filter("network-interface.subnet-id", subnetA2)},
		"an attachment's device": {smallA, filter("network-interface.attachment.device-index", "1")},
		"key":                    {launched.InstanceID, filter("key-name", "key")},
		"profile":                {launched.InstanceID, filter("iam-instance-profile.arn", "*/role")},
		"token":                  {launched.InstanceID, filter("client-token", "token")},
		"image":                  {launched.InstanceID, filter("image-id", "ami-1")},
		"reservation":            {launched.InstanceID, filter("reservation-id", out.ReservationID)},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := s.DescribeInstances(s.call, &ec2.DescribeInstancesInput{Page: by(row.filter)})
			s.must(err)
			if len(out.Reservations) != 1 || out.Reservations[0].Instances[0].InstanceID != row.want {
				t.Errorf("found %d reservations, want that of %s", len(out.Reservations), row.want)
			}
		})
	}
	for _, all := range []ec2.Filter{
		filter("instance-state-name", "running"), filter("instance-state-code", "16"), filter("architecture", "x86_64"), filter("hypervisor", "xen"),
		filter("tenancy", "default"), filter("source-dest-check", "true"), filter("vpc-id", "vpc-0000000000000000a"), filter("launch-index", "0"),
		filter("instance.group-name", "default"), filter("launch-time", "2026-01-01T*"), filter("instance.group-id", "sg-*"),
	} {
		out, err := s.DescribeInstances(s.call, &ec2.DescribeInstancesInput{Page: by(all)})
		s.must(err)
		if len(out.Reservations) != 5 {
			t.Errorf("filter %s finds %d of 5 reservations", all.Name, len(out.Reservations))
		}
	}
}

func TestNetworkFilters(t *testing.T) {
	s := play(t, ec2.Behavior{})
	for _, f := range []ec2.Filter{
		filter("subnet-id", subnetB), filter("availabilityZone", "us-east-1b"), filter("availability-zone-id", "use1-az2"), filter("availabilityZoneId", "use1-az2"),
		filter("cidr-block", "10.0.32.0/20"), filter("cidr", "10.0.32.0/20"), filter("cidrBlock", "10.0.32.*"), filter("subnet-arn", "*/"+subnetB),
		filter("available-ip-address-count", "4090"),
	} {
		out, err := s.DescribeSubnets(s.call, &ec2.DescribeSubnetsInput{Page: by(f)})
		s.must(err)
		if len(out.Subnets) != 1 || out.Subnets[0].SubnetID != subnetB {
			t.Errorf("subnet filter %s finds %d", f.Name, len(out.Subnets))
		}
	}
	for _, f := range []ec2.Filter{filter("group-id", groupA), filter("group-name", "ours"), filter("tag-key", "network")} {
		out, err := s.DescribeSecurityGroups(s.call, &ec2.DescribeSecurityGroupsInput{Page: by(f)})
		s.must(err)
		if len(out.SecurityGroups) != 1 || out.SecurityGroups[0].GroupID != groupA {
			t.Errorf("group filter %s finds %d", f.Name, len(out.SecurityGroups))
		}
	}
	for _, f := range []ec2.Filter{filter("cidr", "10.1.0.0/16"), filter("cidr-block-association.cidr-block", "10.1.*"), filter("vpc-id", "vpc-00000000000000b16")} {
		out, err := s.DescribeVPCs(s.call, &ec2.DescribeVPCsInput{Page: by(f)})
		s.must(err)
		if len(out.VPCs) != 1 {
			t.Errorf("VPC filter %s finds %d", f.Name, len(out.VPCs))
		}
	}
	for _, f := range []ec2.Filter{filter("zone-id", "use1-az2"), filter("zone-name", "us-east-1b")} {
		out, err := s.DescribeAvailabilityZones(s.call, &ec2.DescribeAvailabilityZonesInput{Filters: []ec2.Filter{f}})
		s.must(err)
		if len(out.AvailabilityZones) != 1 {
			t.Errorf("zone filter %s finds %d", f.Name, len(out.AvailabilityZones))
		}
	}
	for _, f := range []ec2.Filter{
		filter("network-info.maximum-network-cards", "32"), filter("instance-type", "p5.48xlarge"), filter("network-info.maximum-network-interfaces", "64"),
		filter("network-info.efa-supported", "true"), filter("current-generation", "true"), filter("processor-info.supported-architecture", "x86_64"),
	} {
		out, err := s.DescribeInstanceTypes(s.call, &ec2.DescribeInstanceTypesInput{InstanceTypes: []string{"p5.48xlarge", "t2.micro"}, Page: by(f, filter("bare-metal", "false"))})
		s.must(err)
		if len(out.InstanceTypes) == 0 || out.InstanceTypes[0].InstanceType != "p5.48xlarge" {
			t.Errorf("type filter %s finds %d", f.Name, len(out.InstanceTypes))
		}
	}
}
