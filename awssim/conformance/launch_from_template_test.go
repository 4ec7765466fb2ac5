// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// fromTemplate takes everything from a template.
func fromTemplate(id, version string) func(*runInput) {
	return func(in *runInput) {
		*in = runInput{
			LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &id, Version: &version}, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		}
	}
}

func launchFromTemplate(id, version string, changes ...func(*runInput)) call {
	return launch(append([]func(*runInput){fromTemplate(id, version)}, changes...)...)
}

// twoInterfaces is a template whose second interface is in another subnet.
func (ec *endpoint) twoInterfaces(t *testing.T) *types.LaunchTemplate {
	t.Helper()
	second := ec.templateSpec(0, 1)
	second.SubnetId = need(t, ec, ec.sameZone, "second subnet in the zone").SubnetId
	second.Description = aws.String("the second")
	return ec.template(t, templateInterfaces(ec.templateSpec(0, 0), second), saying(func(d *templateData) {
		d.TagSpecifications = []types.LaunchTemplateTagSpecificationRequest{
			{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{tag("a", "template"), tag("b", "template")}},
			{ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{tag("no_manage", "true")}},
		}
	}))
}

// slotsOf returns the slots of an instance's interfaces, with their descriptions.
func slotsOf(instance types.Instance) map[int32]string {
	slots := map[int32]string{}
	for _, eni := range instance.NetworkInterfaces {
		slots[*eni.Attachment.DeviceIndex] = aws.ToString(eni.Description)
	}
	return slots
}

func TestRunInstancesFromTemplate(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "the instance is born with the interfaces", run: func(t *testing.T, ec *endpoint) {
			id := *ec.twoInterfaces(t).LaunchTemplateId
			host := ec.instance(t, fromTemplate(id, "1"))
			if diff := cmp.Diff(map[int32]string{0: "", 1: "the second"}, slotsOf(host)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			tags := tagsOf(host.Tags)
			if tags["aws:ec2launchtemplate:id"] != id || tags["aws:ec2launchtemplate:version"] != "1" || tags["a"] != "template" {
				t.Errorf("tags %v", tags)
			}
			for _, eni := range host.NetworkInterfaces {
				ec.awaitTags(t, *eni.NetworkInterfaceId, map[string]string{"no_manage": "true"})
			}
		}},
		{name: "what the request says takes the place of the template's", run: func(t *testing.T, ec *endpoint) {
			id := *ec.twoInterfaces(t).LaunchTemplateId
			second := ec.spec(0, 1)
			second.Description = aws.String("another")
			host := ec.instance(t, fromTemplate(id, "$Default"), withInterfaces(second), ofType("m5.large"), func(in *runInput) {
				in.SubnetId = nil
				in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{tag("b", "request")}}}
			})
			if diff := cmp.Diff(map[int32]string{0: "", 1: "another"}, slotsOf(host)); diff != "" || host.InstanceType != "m5.large" {
				t.Errorf("%s (-want +got):\n%s", host.InstanceType, diff)
			}
			if tags := tagsOf(host.Tags); tags["a"] != "template" || tags["b"] != "request" {
				t.Errorf("tags %v", tags)
			}
		}},
		{name: "a subnet for the instance and interfaces in the template", strict: true, run: func(t *testing.T, ec *endpoint) {
			refused("InvalidParameterCombination", launchFromTemplate(*ec.twoInterfaces(t).LaunchTemplateId, "1", inSubnet(&ec.subnet)))(t, ec)
		}},
		{name: "a template without an image", run: func(t *testing.T, ec *endpoint) {
			id := *ec.template(t, saying(func(d *templateData) { d.ImageId = nil })).LaunchTemplateId
			refused("MissingParameter", launchFromTemplate(id, "1"))(t, ec)
		}},
		{name: "a dry run finds what is wrong with the template", strict: true, run: func(t *testing.T, ec *endpoint) {
			dry := func(in *runInput) { in.DryRun = aws.Bool(true) }
			id := *ec.twoInterfaces(t).LaunchTemplateId
			refused("DryRunOperation", launchFromTemplate(id, "1", dry))(t, ec)
			refused("AttachmentLimitExceeded|InvalidParameterValue|InvalidParameterCombination|InvalidNetworkInterface.LimitExceeded",
				launchFromTemplate(id, "1", dry, func(in *runInput) {
					in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{ec.spec(0, 2), ec.spec(0, 3)}
				}))(t, ec)
		}},
		{name: "metadata options and monitoring", run: func(t *testing.T, ec *endpoint) {
			id := *ec.twoInterfaces(t).LaunchTemplateId
			host := ec.instance(t, fromTemplate(id, "1"), func(in *runInput) {
				in.MetadataOptions = &types.InstanceMetadataOptionsRequest{HttpTokens: types.HttpTokensStateRequired}
				in.Monitoring = &types.RunInstancesMonitoringEnabled{Enabled: aws.Bool(true)}
			})
			if host.MetadataOptions.HttpTokens != types.HttpTokensStateRequired || host.Monitoring.State != types.MonitoringStateEnabled {
				t.Errorf("metadata options %+v, monitoring %s", host.MetadataOptions, host.Monitoring.State)
			}
		}},
	})
}

func TestPublicAddresses(t *testing.T) {
	ec := open(t)
	public := func(in *runInput) {
		spec := ec.spec(0, 0)
		spec.AssociatePublicIpAddress = aws.Bool(true)
		in.SubnetId, in.NetworkInterfaces = nil, []types.InstanceNetworkInterfaceSpecification{spec}
	}
	verify(t, ec, []check{
		{name: "one interface with a public address, another after each start", run: func(t *testing.T, ec *endpoint) {
			host := ec.instance(t, public)
			first := aws.ToString(host.PublicIpAddress)
			eni := ec.awaitENI(t, *host.NetworkInterfaces[0].NetworkInterfaceId, "attached", isAttached)
			if first == "" || eni.Association == nil || *eni.Association.PublicIp != first {
				t.Fatalf("instance has %q, its interface %+v", first, eni.Association)
			}
			ec.stop(t, *host.InstanceId)
			if stopped := ec.awaitInstance(t, *host.InstanceId, types.InstanceStateNameStopped); aws.ToString(stopped.PublicIpAddress) != "" {
				t.Errorf("stopped it has %s", *stopped.PublicIpAddress)
			}
			ok(t, start(*host.InstanceId)(t.Context(), ec))
			if again := ec.awaitInstance(t, *host.InstanceId, types.InstanceStateNameRunning); aws.ToString(again.PublicIpAddress) == "" || *again.PublicIpAddress == first {
				t.Errorf("started it has %q, before %s", aws.ToString(again.PublicIpAddress), first)
			}
		}},
		{name: "a carrier address outside of a Wavelength Zone", strict: true, run: func(t *testing.T, ec *endpoint) {
			spec := ec.spec(0, 0)
			spec.AssociateCarrierIpAddress = aws.Bool(true)
			refusedSomehow(launch(withInterfaces(spec)))(t, ec)
		}},
	})
}

// fleet asks for an instant fleet of n.
func fleet(id string, n int32, overrides ...types.FleetLaunchTemplateOverridesRequest) *ec2.CreateFleetInput {
	return &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: &id, Version: aws.String("1")},
			Overrides:                   overrides,
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: &n, DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
	}
}

func TestCreateFleet(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "instances with the interfaces of the template", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.CreateFleet(t.Context(), fleet(*ec.twoInterfaces(t).LaunchTemplateId, 2))
			ok(t, err)
			if len(out.Errors) > 0 || len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 2 {
				t.Fatalf("got %+v, errors %+v", out.Instances, out.Errors)
			}
			host := ec.awaitInstance(t, out.Instances[0].InstanceIds[0], types.InstanceStateNameRunning)
			if len(host.NetworkInterfaces) != 2 || tagsOf(host.Tags)["aws:ec2:fleet-id"] != *out.FleetId {
				t.Errorf("%d interfaces, tags %v", len(host.NetworkInterfaces), tagsOf(host.Tags))
			}
		}},
		{name: "the subnet of an override goes to interfaces that name none", run: func(t *testing.T, ec *endpoint) {
			first, second := ec.templateSpec(0, 0), ec.templateSpec(0, 1)
			first.SubnetId, second.SubnetId = nil, nil
			id := *ec.template(t, templateInterfaces(first, second)).LaunchTemplateId
			out, err := ec.CreateFleet(t.Context(), fleet(id, 1, types.FleetLaunchTemplateOverridesRequest{SubnetId: ec.sameZoneID(t)}))
			ok(t, err)
			host := ec.awaitInstance(t, out.Instances[0].InstanceIds[0], types.InstanceStateNameRunning)
			for _, eni := range host.NetworkInterfaces {
				if *eni.SubnetId != *ec.sameZoneID(t) {
					t.Errorf("device %d is in %s", *eni.Attachment.DeviceIndex, *eni.SubnetId)
				}
			}
		}},
		{name: "an override that cannot launch is an error beside the next that can", strict: true, run: func(t *testing.T, ec *endpoint) {
			id := *ec.twoInterfaces(t).LaunchTemplateId
			out, err := ec.CreateFleet(t.Context(), fleet(id, 1,
				types.FleetLaunchTemplateOverridesRequest{SubnetId: ec.subnet.SubnetId}, types.FleetLaunchTemplateOverridesRequest{InstanceType: "m5.large"}))
			ok(t, err)
			if len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "InvalidParameterCombination" || len(out.Instances) != 1 || out.Instances[0].InstanceType != "m5.large" {
				t.Errorf("got %+v, errors %+v", out.Instances, out.Errors)
			}
		}},
		{name: "the same client token launches once", run: func(t *testing.T, ec *endpoint) {
			in := fleet(*ec.twoInterfaces(t).LaunchTemplateId, 1)
			in.ClientToken = mark().Value
			first, err := ec.CreateFleet(t.Context(), in)
			ok(t, err)
			again, err := ec.CreateFleet(t.Context(), in)
			ok(t, err)
			if *first.FleetId != *again.FleetId {
				t.Errorf("fleets %s and %s", *first.FleetId, *again.FleetId)
			}
		}},
		{name: "a dry run", run: func(t *testing.T, ec *endpoint) {
			in := fleet(*ec.twoInterfaces(t).LaunchTemplateId, 1)
			in.DryRun = aws.Bool(true)
			refused("DryRunOperation", func(ctx context.Context, ec *endpoint) error {
				_, err := ec.CreateFleet(ctx, in)
				return err
			})(t, ec)
		}},
	})
}

func (ec *endpoint) sameZoneID(t *testing.T) *string {
	t.Helper()
	return need(t, ec, ec.sameZone, "second subnet in the zone").SubnetId
}

func TestDescribeImages(t *testing.T) {
	ec := open(t)
	if !ec.simulated {
		t.Skip("the rows know the images of the simulated world")
	}
	find := func(in *ec2.DescribeImagesInput) []string {
		out, err := ec.DescribeImages(t.Context(), in)
		ok(t, err)
		var names []string
		for _, image := range out.Images {
			names = append(names, *image.Name)
		}
		return names
	}
	verify(t, ec, []check{
		{name: "by owner, name and tag", run: func(t *testing.T, _ *endpoint) {
			for _, row := range []struct {
				in   *ec2.DescribeImagesInput
				want []string
			}{
				{&ec2.DescribeImagesInput{Owners: []string{"self"}}, []string{"own"}},
				{&ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []types.Filter{filter("architecture", "arm64")}}, []string{"eks-arm64"}},
				{&ec2.DescribeImagesInput{Filters: []types.Filter{filter("name", "eks-*")}}, []string{"eks-x86_64", "eks-arm64"}},
				{&ec2.DescribeImagesInput{Filters: []types.Filter{filter("tag:team", "net")}}, []string{"own"}},
			} {
				if diff := cmp.Diff(row.want, find(row.in)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		}},
		{name: "an image for another architecture", strict: true, run: refused("InvalidParameterValue",
			launch(func(in *runInput) { in.ImageId = aws.String("ami-0eeeeeeeeeeeeeee2") }))},
		{name: "an unknown image", run: refused("InvalidAMIID.NotFound",
			launch(func(in *runInput) { in.ImageId = aws.String("ami-0ffffffffffffffff") }))},
		{name: "an image that is pending", strict: true, run: refused("InvalidAMIID.Unavailable",
			launch(func(in *runInput) { in.ImageId = aws.String("ami-0eeeeeeeeeeeeeee3") }))},
		{name: "an image that failed", strict: true, run: refused("InvalidAMIID.Unavailable",
			launch(func(in *runInput) { in.ImageId = aws.String("ami-0eeeeeeeeeeeeeee4") }))},
		{name: "a parameter stands for an image", strict: true, run: func(t *testing.T, ec *endpoint) {
			id := *ec.template(t, saying(func(d *templateData) { d.ImageId = aws.String("resolve:ssm:/images/eks") })).LaunchTemplateId
			out, err := ec.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
				LaunchTemplateId: &id, Versions: []string{"1"}, ResolveAlias: aws.Bool(true),
			})
			ok(t, err)
			if got := *out.LaunchTemplateVersions[0].LaunchTemplateData.ImageId; got != "ami-0eeeeeeeeeeeeeee1" {
				t.Errorf("image %s", got)
			}
		}},
	})
}
