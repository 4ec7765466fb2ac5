// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/ipam"
)

// With subnets in its policy the controller reserves nothing elsewhere, and it deletes no reservation of others.
func TestReservationsKeepToTheirSubnets(t *testing.T) {
	world := awssim.ExampleWorld()
	own := world.Subnets[0]
	a := accountWith(t, func(component awsec2.Component) []byte {
		document, err := awsec2.Policy(component, awsec2.PolicyOptions{Cluster: "ours", SubnetIDs: []string{own.SubnetID}})
		if err != nil {
			t.Fatal(err)
		}
		return document
	})
	who := string(awsec2.SubnetReservations)
	reserve := func(who, subnet string, block netip.Prefix, cluster string) (code, body string) {
		tags := tagged(identity.TagCluster, cluster)
		tags[0] = "TagSpecification.1.ResourceType=subnet-cidr-reservation"
		return a.call(who, "CreateSubnetCidrReservation", append(tags, "SubnetId="+subnet, "Cidr="+block.String(), "ReservationType=explicit")...)
	}
	const unauthorized = "UnauthorizedOperation"
	blocks := ipam.Split(own.CIDRBlock, 28)
	other := world.Subnets[1]
	for _, c := range []struct {
		name, subnet string
		block        netip.Prefix
		cluster      string
		code         string
	}{
		{"its own subnet", own.SubnetID, blocks[len(blocks)-1], "ours", ""},
		{"another subnet", other.SubnetID, ipam.Split(other.CIDRBlock, 28)[2], "ours", unauthorized},
		{"for another cluster", own.SubnetID, blocks[len(blocks)-2], "theirs", unauthorized},
	} {
		if code, body := reserve(who, c.subnet, c.block, c.cluster); code != c.code {
			t.Errorf("%s: %q, want %q\n%s", c.name, code, c.code, body)
		}
	}
	_, body := reserve("root", own.SubnetID, blocks[len(blocks)-3], "theirs")
	_, rest, _ := strings.Cut(body, "<subnetCidrReservationId>")
	id, _, _ := strings.Cut(rest, "<")
	if code, body := a.call(who, "DeleteSubnetCidrReservation", "SubnetCidrReservationId="+id); code != unauthorized {
		t.Errorf("it deletes the reservation of another cluster: %q\n%s", code, body)
	}
}

// The controller tries a launch from a launch template without the cluster's tag only if the policy names it.
func TestTrialsOfOwnLaunchTemplates(t *testing.T) {
	create := func(a account, name string) string {
		code, body := a.call("root", "CreateLaunchTemplate", "LaunchTemplateName="+name, "LaunchTemplateData.ImageId="+"ami-0123456789abcdef0",
			"LaunchTemplateData.TagSpecification.1.ResourceType=instance", "LaunchTemplateData.TagSpecification.1.Tag.1.Key=team",
			"LaunchTemplateData.TagSpecification.1.Tag.1.Value=core")
		_, rest, found := strings.Cut(body, "<launchTemplateId>")
		if code != "" || !found {
			t.Fatal(body)
		}
		id, _, _ := strings.Cut(rest, "<")
		return id
	}
	try := func(a account, id string) string {
		code, _ := a.call(string(awsec2.NodeTemplates), "RunInstances", "DryRun=true", "MinCount=1", "MaxCount=1", "InstanceType=m5.xlarge",
			"LaunchTemplate.LaunchTemplateId="+id, "SubnetId="+a.subnet())
		return code
	}
	first := create(newAccount(t), "first") // each account gives the same IDs
	with := accountWith(t, func(component awsec2.Component) []byte {
		document, err := awsec2.Policy(component, awsec2.PolicyOptions{Cluster: "ours", LaunchTemplateIDs: []string{first}})
		if err != nil {
			t.Fatal(err)
		}
		return document
	})
	without := newAccount(t)
	for name, c := range map[string]struct {
		account account
		id      string
		code    string
	}{
		"named":                {with, create(with, "first"), "DryRunOperation"},
		"another one":          {with, create(with, "second"), "UnauthorizedOperation"},
		"a policy without IDs": {without, create(without, "first"), "UnauthorizedOperation"},
	} {
		if code := try(c.account, c.id); code != c.code {
			t.Errorf("%s: %q, want %q", name, code, c.code)
		}
	}
	if code, _ := with.call(string(awsec2.NodeTemplates), "CreateTags", "ResourceId.1="+with.instance(), "Tag.1.Key=team", "Tag.1.Value=core"); code != "UnauthorizedOperation" {
		t.Errorf("it may tag an instance that exists: %q", code)
	}
}
