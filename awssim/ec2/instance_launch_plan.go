// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// launchedBy describes a launch by a fleet or an Auto Scaling group instead of a caller of RunInstances.
type launchedBy struct {
	// service is set for these launches. The subnet that they choose is that of the template's interfaces that name none.
	service bool
	// tags are tags that a caller may not set: their keys begin with aws:.
	tags      Tags
	lifecycle string
}

// LaunchFor launches instances on behalf of an AWS service, which may set its own tags. In contrast to RunInstances,
// interfaces of the launch template that name no subnet use the subnet of the request.
func (m *Model) LaunchFor(c Call, in *RunInstancesInput, systemTags Tags) ([]*Instance, error) {
	m.Advance(c.Now)
	return m.launchFor(in, launchedBy{service: true, tags: systemTags})
}

func (m *Model) launchFor(in *RunInstancesInput, by launchedBy) ([]*Instance, error) {
	l, err := m.plan(in, by)
	if err != nil {
		return nil, err
	}
	if err := m.canLaunch(l); err != nil {
		return nil, err
	}
	return m.launch(l)
}

// plan reads a request, which overrides its launch template, if any.
func (m *Model) plan(in *RunInstancesInput, by launchedBy) (launch, error) {
	data, template, err := m.launchData(in)
	if err != nil {
		return launch{}, err
	}
	if err := validateCounts(in); err != nil {
		return launch{}, err
	}
	if err := data.validate(); err != nil {
		return launch{}, err
	}
	limits, ok := instancetypes.Lookup(cmp.Or(data.InstanceType, "m1.small"))
	if !ok {
		return launch{}, invalidValue("Invalid value '%s' for InstanceType.", data.InstanceType)
	}
	image, err := m.imageOf(data.ImageID, limits)
	if err != nil {
		return launch{}, err
	}
	l := launch{
		imageID: image, count: *in.MaxCount, userData: data.UserData, instanceType: limits, keyName: data.KeyName,
		clientToken: in.ClientToken, profile: m.instanceProfile(data.IAMInstanceProfile), metadata: data.MetadataOptions,
		monitoring: data.Monitoring != nil && data.Monitoring.Enabled, lifecycle: by.lifecycle,
		protected:     data.DisableAPITermination != nil && *data.DisableAPITermination,
		stopProtected: data.DisableAPIStop != nil && *data.DisableAPIStop, shutdown: data.InstanceInitiatedShutdownBehavior,
	}
	if data.Placement != nil {
		l.zone, l.tenancy = data.Placement.AvailabilityZone, data.Placement.Tenancy
	}
	if l.instanceTags, l.interfaceTags, err = launchTags(data.TagSpecifications); err != nil {
		return launch{}, err
	}
	l.instanceTags = l.instanceTags.with(template).with(by.tags)
	if l.interfaces, err = m.planInterfaces(in, data, l.zone, by); err != nil {
		return launch{}, err
	}
	creates := func(s InterfaceSpecification) bool { return s.NetworkInterfaceID == "" }
	if len(l.interfaceTags) > 0 && !slices.ContainsFunc(l.interfaces, creates) {
		// EC2's text: kubernetes-sigs/cluster-api-provider-aws#5594.
		return launch{}, invalidValue("You cannot specify tags for network interfaces if there are no network " +
			"interfaces being created by the request.")
	}
	return l, nil
}

func validateCounts(in *RunInstancesInput) error {
	switch {
	case in.MinCount == nil:
		return missing("MinCount")
	case in.MaxCount == nil:
		return missing("MaxCount")
	case *in.MinCount < 1:
		return invalidValue("Value (%d) for parameter minCount is invalid. It must be at least 1.", *in.MinCount)
	case *in.MaxCount < *in.MinCount:
		return invalidValue("Value (%d) for parameter maxCount is invalid. It cannot be less than minCount.", *in.MaxCount)
	}
	return nil
}

// launchData merges the request and its launch template, and returns the tags with which EC2 marks an instance from a
// template.
func (m *Model) launchData(in *RunInstancesInput) (LaunchTemplateData, Tags, error) {
	if in.LaunchTemplate == nil {
		return in.LaunchTemplateData, nil, nil
	}
	version, err := m.versionOf(*in.LaunchTemplate)
	if err != nil {
		return LaunchTemplateData{}, nil, err
	}
	return in.LaunchTemplateData.launchOver(version.LaunchTemplateData), Tags{
		"aws:ec2launchtemplate:id":      version.LaunchTemplateID,
		"aws:ec2launchtemplate:version": strconv.Itoa(version.VersionNumber),
	}, nil
}

func (m *Model) instanceProfile(p *InstanceProfileSpecification) *IAMInstanceProfile {
	if p == nil || *p == (InstanceProfileSpecification{}) {
		return nil
	}
	arn := cmp.Or(p.ARN, fmt.Sprintf("arn:aws:iam::%s:instance-profile/%s", m.account, p.Name))
	return &IAMInstanceProfile{ARN: arn, ID: "AIPA" + arn[len(arn)-min(len(arn), 12):]}
}

// planInterfaces returns the interfaces of the request, or the one that it implies, the primary first.
func (m *Model) planInterfaces(
	in *RunInstancesInput, data LaunchTemplateData, zone string, by launchedBy,
) ([]InterfaceSpecification, error) {
	if len(data.NetworkInterfaces) == 0 {
		subnet, err := m.subnetOfLaunch(in.SubnetID, zone)
		if err != nil {
			return nil, err
		}
		return []InterfaceSpecification{{InterfaceSettings: InterfaceSettings{
			SubnetID: subnet, Groups: data.SecurityGroupIDs, PrivateIPAddress: in.PrivateIPAddress,
		}}}, nil
	}
	specs := slices.Clone(data.NetworkInterfaces)
	chosen := in.SubnetID
	if namesSubnet := slices.ContainsFunc(specs, func(s InterfaceSpecification) bool {
		return s.SubnetID != ""
	}); chosen != "" && (namesSubnet || !by.service) {
		return nil, invalidCombination("Network interfaces and an instance-level subnet ID may not be specified on " +
			"the same request")
	}
	switch {
	case len(data.SecurityGroupIDs) > 0:
		return nil, invalidCombination("Network interfaces and instance-level security groups may not be specified " +
			"on the same request")
	case in.PrivateIPAddress != "":
		return nil, invalidCombination("Network interfaces and an instance-level private IP address may not be " +
			"specified on the same request")
	}
	for i := range specs {
		if specs[i].DeviceIndex == nil {
			return nil, invalidValue("Each network interface requires a device index.")
		}
		if specs[i].SubnetID == "" && specs[i].NetworkInterfaceID == "" {
			subnet, err := m.subnetOfLaunch(chosen, zone)
			if err != nil {
				return nil, err
			}
			specs[i].SubnetID = subnet
		}
	}
	slices.SortStableFunc(specs, func(a, b InterfaceSpecification) int {
		x, y := a.slot(), b.slot()
		return cmp.Or(cmp.Compare(x.card, y.card), cmp.Compare(x.device, y.device))
	})
	return specs, nil
}

// NamesOf returns the ID and name of the template of a launch template version, for a service that will launch from it.
func (m *Model) NamesOf(c Call, spec LaunchTemplateSpecification) (TemplateName, error) {
	m.Advance(c.Now)
	if _, err := m.versionOf(spec); err != nil {
		return TemplateName{}, err
	}
	template, err := m.templateOf(spec.TemplateName)
	if err != nil {
		return TemplateName{}, err
	}
	return TemplateName{LaunchTemplateID: template.LaunchTemplateID, LaunchTemplateName: template.LaunchTemplateName}, nil
}

// ZoneOf returns the zone of a subnet, or "" if the subnet does not exist.
func (m *Model) ZoneOf(subnetID string) string {
	if subnet := m.subnets.get(subnetID); subnet != nil {
		return subnet.AvailabilityZone
	}
	return ""
}
