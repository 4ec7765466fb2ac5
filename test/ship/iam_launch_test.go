// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/identity"
)

// With the policy for node templates the controller can create, change, try and delete launch templates of the cluster,
// but not those of others, and can launch only from the former.
func TestNodeTemplatesMayAndMayNot(t *testing.T) {
	a := newAccount(t)
	who := string(awsec2.NodeTemplates)
	tag := func(cluster string) []string {
		return []string{"TagSpecification.1.ResourceType=launch-template", "TagSpecification.1.Tag.1.Key=" + identity.TagCluster, "TagSpecification.1.Tag.1.Value=" + cluster}
	}
	data := []string{
		"LaunchTemplateData.ImageId=ami-0123456789abcdef0", "LaunchTemplateData.TagSpecification.1.ResourceType=instance",
		"LaunchTemplateData.TagSpecification.1.Tag.1.Key=" + identity.TagCluster, "LaunchTemplateData.TagSpecification.1.Tag.1.Value=ours",
	}
	made := func(by, name string, more ...string) (id, code string) {
		code, body := a.call(by, "CreateLaunchTemplate", slices.Concat([]string{"LaunchTemplateName=" + name}, data, more)...)
		_, rest, _ := strings.Cut(body, "<launchTemplateId>")
		id, _, _ = strings.Cut(rest, "<")
		return id, code
	}
	ours, code := made(who, "ours", tag("ours")...)
	if code != "" {
		t.Fatalf("a launch template of the cluster is not made: %s", code)
	}
	theirs, _ := made("root", "theirs", tag("theirs")...)
	nobodys, _ := made("root", "nobodys")
	launch := []string{"DryRun=true", "InstanceType=m5.large", "MinCount=1", "MaxCount=1", "NetworkInterface.1.DeviceIndex=0", "NetworkInterface.1.SubnetId=" + a.subnet()}
	for _, c := range []struct {
		may, action string
		parameters  []string
	}{
		{"DryRunOperation", "RunInstances", append(launch, "LaunchTemplate.LaunchTemplateId="+ours)},
		{"", "CreateLaunchTemplateVersion", append(data, "LaunchTemplateId="+ours)},
		{"", "CreateTags", []string{"ResourceId.1=" + ours, "Tag.1.Key=Name", "Tag.1.Value=x"}},
		{"", "DescribeLaunchTemplates", nil},
		{"", "DescribeFleets", nil},
		{"", "DescribeSpotFleetRequests", nil},
		{"", "DeleteLaunchTemplate", []string{"LaunchTemplateId=" + ours}},
	} {
		if code, body := a.call(who, c.action, c.parameters...); code != c.may {
			t.Errorf("%s of the cluster's: %q, want %q\n%s", c.action, code, c.may, body)
		}
	}
	refuse := func(name, action string, parameters ...string) {
		t.Helper()
		if code, body := a.call(who, action, parameters...); code != "UnauthorizedOperation" {
			t.Errorf("%s: %s says %q, want a refusal\n%s", name, action, code, body)
		}
	}
	for name, id := range map[string]string{"another cluster's": theirs, "nobody's": nobodys} {
		refuse(name, "RunInstances", append(launch, "LaunchTemplate.LaunchTemplateId="+id)...)
		refuse(name, "CreateLaunchTemplateVersion", append(data, "LaunchTemplateId="+id)...)
		refuse(name, "DeleteLaunchTemplateVersions", "LaunchTemplateId="+id, "LaunchTemplateVersion.1=1")
		refuse(name, "DeleteLaunchTemplate", "LaunchTemplateId="+id)
		refuse(name, "CreateTags", "ResourceId.1="+id, "Tag.1.Key="+identity.TagCluster, "Tag.1.Value=ours")
	}
	refuse("a launch from no template", "RunInstances", append(launch, "ImageId=ami-0123456789abcdef0")...)
	refuse("a fleet", "CreateFleet", "TargetCapacitySpecification.TotalTargetCapacity=0", "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateId="+ours, "LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1")
	refuse("the end of a fleet", "DeleteFleets", "FleetId.1=fleet-00000000000000000", "TerminateInstances=true")
	refuse("an instance's tag", "CreateTags", "ResourceId.1="+a.instance(), "Tag.1.Key=Name", "Tag.1.Value=mine")
	for name, tags := range map[string][]string{"none": nil, "theirs": tag("theirs")} {
		if _, code := made(who, "more-"+name, tags...); code != "UnauthorizedOperation" {
			t.Errorf("a launch template with tags of %s: %q, want a refusal", name, code)
		}
	}
}
