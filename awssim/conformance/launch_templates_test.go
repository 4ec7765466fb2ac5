// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type (
	templateInput = ec2.CreateLaunchTemplateInput
	versionInput  = ec2.CreateLaunchTemplateVersionInput
	templateData  = types.RequestLaunchTemplateData
)

const noTemplate = "lt-0ffffffffffffffff"

// templateName returns a unique name.
func templateName() *string { return aws.String("conformance-" + *mark().Value) }

// templateRequest requests a template whose instances are like those of ec.request.
func (ec *endpoint) templateRequest(changes ...func(*templateInput)) *templateInput {
	in := &templateInput{
		LaunchTemplateName: templateName(),
		LaunchTemplateData: &templateData{ImageId: &ec.image, InstanceType: types.InstanceType(ec.instanceType)},
	}
	for _, change := range changes {
		change(in)
	}
	return in
}

func saying(change func(*templateData)) func(*templateInput) {
	return func(in *templateInput) { change(in.LaunchTemplateData) }
}

func templateInterfaces(specs ...types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) func(*templateInput) {
	return saying(func(d *templateData) { d.NetworkInterfaces = specs })
}

func (ec *endpoint) templateSpec(card, device int32) types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	return types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
		DeviceIndex: &device, NetworkCardIndex: &card, SubnetId: ec.subnet.SubnetId, Groups: []string{ec.group}, DeleteOnTermination: aws.Bool(true),
	}
}

// template creates a template and returns it once it is visible.
func (ec *endpoint) template(t *testing.T, changes ...func(*templateInput)) *types.LaunchTemplate {
	t.Helper()
	out, err := ec.CreateLaunchTemplate(t.Context(), ec.templateRequest(changes...))
	ok(t, err)
	ec.awaitVersion(t, *out.LaunchTemplate.LaunchTemplateId, "1")
	return out.LaunchTemplate
}

func (ec *endpoint) version(t *testing.T, id string, change func(*versionInput)) *types.LaunchTemplateVersion {
	t.Helper()
	in := &versionInput{LaunchTemplateId: &id, LaunchTemplateData: &templateData{}}
	change(in)
	out, err := ec.CreateLaunchTemplateVersion(t.Context(), in)
	ok(t, err)
	return out.LaunchTemplateVersion
}

// another is a version with little data: EC2 refuses one without data.
func another(in *versionInput) { in.LaunchTemplateData.KeyName = aws.String("another") }

// awaitVersion waits until describe calls show a version of that number.
func (ec *endpoint) awaitVersion(t *testing.T, id, number string) types.LaunchTemplateVersion {
	t.Helper()
	var seen types.LaunchTemplateVersion
	ec.await(t, "version "+number+" of "+id, func(ctx context.Context) (string, error) {
		out, err := ec.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: []string{number}})
		if strings.HasPrefix(codeOf(err), "InvalidLaunchTemplateId.") {
			return codeOf(err), nil
		}
		if err != nil {
			return "", err
		}
		seen = out.LaunchTemplateVersions[0]
		return "", nil
	})
	return seen
}

func (ec *endpoint) awaitTemplate(t *testing.T, id, what string, wanted func(types.LaunchTemplate) bool) types.LaunchTemplate {
	t.Helper()
	var seen types.LaunchTemplate
	ec.await(t, id+": "+what, func(ctx context.Context) (string, error) {
		out, err := ec.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{id}})
		switch {
		case codeOf(err) == "InvalidLaunchTemplateId.NotFound":
			return "nothing", nil
		case err != nil:
			return "", err
		case !wanted(out.LaunchTemplates[0]):
			return "an older state", nil
		}
		seen = out.LaunchTemplates[0]
		return "", nil
	})
	return seen
}

func createTemplate(changes ...func(*templateInput)) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.CreateLaunchTemplate(ctx, ec.templateRequest(changes...))
		return err
	}
}

func TestCreateLaunchTemplate(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "version 1 is the default and the latest", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.CreateLaunchTemplate(t.Context(), ec.templateRequest(func(in *templateInput) {
				in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: []types.Tag{tag("of", "us")}}}
			}))
			ok(t, err)
			got := out.LaunchTemplate
			if *got.DefaultVersionNumber != 1 || *got.LatestVersionNumber != 1 || tagsOf(got.Tags)["of"] != "us" || out.Warning != nil {
				t.Errorf("got %+v, warning %v", got, out.Warning)
			}
		}},
		{name: "what was said can be read", run: readsBack},
		{name: "the same client token makes one template", run: func(t *testing.T, ec *endpoint) {
			in := ec.templateRequest(func(in *templateInput) { in.ClientToken = mark().Value })
			first, err := ec.CreateLaunchTemplate(t.Context(), in)
			ok(t, err)
			second, err := ec.CreateLaunchTemplate(t.Context(), in)
			ok(t, err)
			if *first.LaunchTemplate.LaunchTemplateId != *second.LaunchTemplate.LaunchTemplateId {
				t.Errorf("%s and %s", *first.LaunchTemplate.LaunchTemplateId, *second.LaunchTemplate.LaunchTemplateId)
			}
			in.VersionDescription = aws.String("other")
			_, err = ec.CreateLaunchTemplate(t.Context(), in)
			expectRefusal(t, "IdempotentParameterMismatch", err)
		}},
		{name: "a doubtful template is made, with a warning", strict: true, run: func(t *testing.T, ec *endpoint) {
			spec := ec.templateSpec(0, 0)
			spec.SubnetId = aws.String(noSubnet)
			out, err := ec.CreateLaunchTemplate(t.Context(), ec.templateRequest(templateInterfaces(spec)))
			ok(t, err)
			if out.Warning == nil || *out.Warning.Errors[0].Code != "InvalidSubnetID.NotFound" {
				t.Errorf("warning %+v", out.Warning)
			}
		}},
		{name: "a name that is taken", run: func(t *testing.T, ec *endpoint) {
			taken := ec.template(t).LaunchTemplateName
			refused("InvalidLaunchTemplateName.AlreadyExistsException", createTemplate(func(in *templateInput) { in.LaunchTemplateName = taken }))(t, ec)
		}},
		{name: "a malformed name", strict: true, run: refused("InvalidLaunchTemplateName.MalformedException",
			createTemplate(func(in *templateInput) { in.LaunchTemplateName = aws.String("a name with spaces") }))},
		{name: "user data that is not in base64", strict: true, run: refused("InvalidUserData.Malformed",
			createTemplate(saying(func(d *templateData) { d.UserData = aws.String("#!/bin/sh") })))},
		{name: "user data above 16 KiB", strict: true, run: refusedSomehow(createTemplate(saying(func(d *templateData) {
			d.UserData = aws.String(base64.StdEncoding.EncodeToString(make([]byte, 16<<10+1)))
		})))},
		{name: "a dry run", run: refused("DryRunOperation", createTemplate(func(in *templateInput) { in.DryRun = aws.Bool(true) }))},
	})
}

// readsBack writes every member that the simulator models and reads it again.
func readsBack(t *testing.T, ec *endpoint) {
	first, second := ec.templateSpec(0, 0), ec.templateSpec(0, 1)
	second.Description = aws.String("the second")
	second.DeleteOnTermination = aws.Bool(false)
	second.Ipv4PrefixCount = aws.Int32(1)
	second.InterfaceType = aws.String("interface")
	id := *ec.template(t, func(in *templateInput) { in.VersionDescription = aws.String("hash") }, saying(func(d *templateData) {
		d.NetworkInterfaces = []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{first, second}
		d.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh")))
		d.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("role")}
		d.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpTokens: types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(2),
		}
		d.Monitoring = &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)}
		d.BlockDeviceMappings = []types.LaunchTemplateBlockDeviceMappingRequest{{
			DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(20), Encrypted: aws.Bool(true)},
		}}
		d.TagSpecifications = []types.LaunchTemplateTagSpecificationRequest{{
			ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{tag("a", "1")},
		}}
	})).LaunchTemplateId
	got := ec.awaitVersion(t, id, "$Latest")
	if *got.VersionDescription != "hash" || !*got.DefaultVersion || *got.VersionNumber != 1 {
		t.Errorf("version %+v", got)
	}
	want := &types.ResponseLaunchTemplateData{
		ImageId: &ec.image, InstanceType: types.InstanceType(ec.instanceType),
		UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh"))),
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecification{Name: aws.String("role")},
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptions{
			HttpTokens: types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(2),
		},
		Monitoring: &types.LaunchTemplatesMonitoring{Enabled: aws.Bool(true)},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMapping{{
			DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDevice{VolumeSize: aws.Int32(20), Encrypted: aws.Bool(true)},
		}},
		TagSpecifications: []types.LaunchTemplateTagSpecification{{
			ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{tag("a", "1")},
		}},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecification{
			{DeviceIndex: aws.Int32(0), NetworkCardIndex: aws.Int32(0), SubnetId: ec.subnet.SubnetId, Groups: []string{ec.group}, DeleteOnTermination: aws.Bool(true)},
			{
				DeviceIndex: aws.Int32(1), NetworkCardIndex: aws.Int32(0), SubnetId: ec.subnet.SubnetId, Groups: []string{ec.group},
				DeleteOnTermination: aws.Bool(false), Description: aws.String("the second"), Ipv4PrefixCount: aws.Int32(1), InterfaceType: aws.String("interface"),
			},
		},
	}
	if diff := cmp.Diff(want, got.LaunchTemplateData, cmpopts.IgnoreUnexported(
		types.ResponseLaunchTemplateData{}, types.LaunchTemplateIamInstanceProfileSpecification{}, types.LaunchTemplateInstanceMetadataOptions{},
		types.LaunchTemplatesMonitoring{}, types.LaunchTemplateBlockDeviceMapping{}, types.LaunchTemplateEbsBlockDevice{},
		types.LaunchTemplateTagSpecification{}, types.Tag{}, types.LaunchTemplateInstanceNetworkInterfaceSpecification{},
	), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLaunchTemplateVersions(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a version takes from its source what it does not say", run: func(t *testing.T, ec *endpoint) {
			id := *ec.template(t).LaunchTemplateId
			second := ec.version(t, id, func(in *versionInput) {
				in.SourceVersion, in.LaunchTemplateData.KeyName = aws.String("1"), aws.String("key")
			})
			if d := second.LaunchTemplateData; *second.VersionNumber != 2 || *d.ImageId != ec.image || *d.KeyName != "key" || *second.DefaultVersion {
				t.Errorf("version %+v", second)
			}
		}},
		{name: "without a source it says only what it says", run: func(t *testing.T, ec *endpoint) {
			id := *ec.template(t).LaunchTemplateId
			second := ec.version(t, id, func(in *versionInput) { in.LaunchTemplateData.KeyName = aws.String("key") })
			if second.LaunchTemplateData.ImageId != nil {
				t.Errorf("image %s", *second.LaunchTemplateData.ImageId)
			}
		}},
		{name: "the same client token makes one version", run: func(t *testing.T, ec *endpoint) {
			id, token := *ec.template(t).LaunchTemplateId, mark().Value
			change := func(in *versionInput) { in.ClientToken, in.LaunchTemplateData.KeyName = token, aws.String("key") }
			if first, again := ec.version(t, id, change), ec.version(t, id, change); *first.VersionNumber != *again.VersionNumber {
				t.Errorf("versions %d and %d", *first.VersionNumber, *again.VersionNumber)
			}
		}},
		{name: "aliases follow the latest and the default", run: aliases},
		{name: "a range, in pages, the newest first", run: ranges},
		{name: "versions are deleted by number, but not the default one", run: deletesVersions},
		{name: "a template goes with all its versions", run: func(t *testing.T, ec *endpoint) {
			id := *ec.template(t).LaunchTemplateId
			_, err := ec.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &id})
			ok(t, err)
			refused("InvalidLaunchTemplateId.NotFound", launchFromTemplate(id, "1"))(t, ec)
		}},
		{name: "an unknown template", run: refused("InvalidLaunchTemplateId.NotFound", func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{noTemplate}})
			return err
		})},
		{name: "an unknown name", run: refused("InvalidLaunchTemplateName.NotFoundException", func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{*templateName()}})
			return err
		})},
		{name: "an unknown version", run: func(t *testing.T, ec *endpoint) {
			refused("InvalidLaunchTemplateId.VersionNotFound", launchFromTemplate(*ec.template(t).LaunchTemplateId, "7"))(t, ec)
		}},
		{name: "a template is found by name and by tag", run: func(t *testing.T, ec *endpoint) {
			marked := mark()
			made := ec.template(t)
			ok(t, createTags([]string{*made.LaunchTemplateId}, marked)(t.Context(), ec))
			ec.awaitTemplate(t, *made.LaunchTemplateId, "its tag", func(lt types.LaunchTemplate) bool { return tagsOf(lt.Tags)[*marked.Key] == *marked.Value })
			for _, in := range []*ec2.DescribeLaunchTemplatesInput{
				{LaunchTemplateNames: []string{*made.LaunchTemplateName}}, {Filters: []types.Filter{hasTag(marked)}},
			} {
				out, err := ec.DescribeLaunchTemplates(t.Context(), in)
				ok(t, err)
				if len(out.LaunchTemplates) != 1 || *out.LaunchTemplates[0].LaunchTemplateId != *made.LaunchTemplateId {
					t.Errorf("found %+v", out.LaunchTemplates)
				}
			}
		}},
	})
}

func aliases(t *testing.T, ec *endpoint) {
	id := *ec.template(t).LaunchTemplateId
	ec.version(t, id, func(in *versionInput) { in.LaunchTemplateData.KeyName = aws.String("two") })
	ec.awaitTemplate(t, id, "version 2", func(lt types.LaunchTemplate) bool { return *lt.LatestVersionNumber == 2 })
	if latest, byDefault := ec.awaitVersion(t, id, "$Latest"), ec.awaitVersion(t, id, "$Default"); *latest.VersionNumber != 2 || *byDefault.VersionNumber != 1 {
		t.Errorf("$Latest is %d, $Default %d", *latest.VersionNumber, *byDefault.VersionNumber)
	}
	out, err := ec.ModifyLaunchTemplate(t.Context(), &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: &id, DefaultVersion: aws.String("2")})
	ok(t, err)
	if *out.LaunchTemplate.DefaultVersionNumber != 2 {
		t.Errorf("default version %d", *out.LaunchTemplate.DefaultVersionNumber)
	}
	ec.awaitTemplate(t, id, "its new default", func(lt types.LaunchTemplate) bool { return *lt.DefaultVersionNumber == 2 })
	if byDefault := ec.awaitVersion(t, id, "$Default"); *byDefault.VersionNumber != 2 || !*byDefault.DefaultVersion {
		t.Errorf("$Default is %+v", byDefault)
	}
}

func ranges(t *testing.T, ec *endpoint) {
	id := *ec.template(t).LaunchTemplateId
	for range 4 {
		ec.version(t, id, another)
	}
	for _, number := range []string{"2", "3", "4", "5"} {
		ec.awaitVersion(t, id, number)
	}
	var got []int64
	pages := ec2.NewDescribeLaunchTemplateVersionsPaginator(ec.Client, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: &id, MinVersion: aws.String("2"), MaxVersion: aws.String("4"), MaxResults: aws.Int32(2),
	})
	calls := 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		ok(t, err)
		calls++
		for _, version := range page.LaunchTemplateVersions {
			got = append(got, *version.VersionNumber)
		}
	}
	if diff := cmp.Diff([]int64{4, 3, 2}, got); diff != "" || calls != 2 {
		t.Errorf("in %d pages (-want +got):\n%s", calls, diff)
	}
}

func deletesVersions(t *testing.T, ec *endpoint) {
	id := *ec.template(t).LaunchTemplateId
	for range 2 {
		ec.version(t, id, another)
	}
	out, err := ec.DeleteLaunchTemplateVersions(t.Context(), &ec2.DeleteLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: []string{"1", "3", "9"}})
	ok(t, err)
	if len(out.SuccessfullyDeletedLaunchTemplateVersions) != 1 || *out.SuccessfullyDeletedLaunchTemplateVersions[0].VersionNumber != 3 ||
		len(out.UnsuccessfullyDeletedLaunchTemplateVersions) != 2 {
		t.Errorf("deleted %+v, not %+v", out.SuccessfullyDeletedLaunchTemplateVersions, out.UnsuccessfullyDeletedLaunchTemplateVersions)
	}
	if fresh := ec.version(t, id, another); *fresh.VersionNumber != 4 {
		t.Errorf("the number %d was used again", *fresh.VersionNumber)
	}
}
