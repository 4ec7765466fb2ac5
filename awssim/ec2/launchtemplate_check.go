// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"errors"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// doubts returns every reason for which no instance can be launched from the data alone, regardless of what a request
// adds to it.
func (m *Model) doubts(data LaunchTemplateData) []ValidationError {
	var found []ValidationError
	doubt := func(err error) {
		if refused, ok := errors.AsType[*Error](err); ok {
			found = append(found, ValidationError{refused.Code, refused.Message})
		}
	}
	limits, known := instancetypes.Lookup(data.InstanceType)
	if data.InstanceType != "" && !known {
		doubt(invalidValue("Invalid value '%s' for InstanceType.", data.InstanceType))
	}
	if data.ImageID != "" {
		_, err := m.imageOf(data.ImageID, limits)
		doubt(err)
	}
	if _, _, err := launchTags(data.TagSpecifications); err != nil {
		doubt(err)
	}
	if len(data.NetworkInterfaces) > 0 && len(data.SecurityGroupIDs) > 0 {
		doubt(invalidCombination("Network interfaces and instance-level security groups may not be specified on the " +
			"same request"))
	}
	for _, id := range data.SecurityGroupIDs {
		if m.groups.get(id) == nil {
			doubt(groupNotFound(id))
		}
	}
	for _, err := range m.doubtInterfaces(data.NetworkInterfaces, limits, known) {
		doubt(err)
	}
	return found
}

// doubtInterfaces checks each interface alone, and then all together.
func (m *Model) doubtInterfaces(specs []InterfaceSpecification, limits instancetypes.Type, known bool) []error {
	var found []error
	l := launch{interfaces: specs, count: 1, instanceType: limits}
	seen := newLayout("")
	for _, spec := range specs {
		where, err := m.doubtInterface(spec, l, known)
		if err == nil {
			err = seen.add(spec, where)
		}
		if err != nil {
			found = append(found, err)
		}
	}
	if known && len(found) == 0 && len(specs) > 0 {
		if err := seen.fits(limits); err != nil {
			found = append(found, err)
		}
	}
	return found
}

// doubtInterface is canLaunchInterface for an interface whose subnet and instance type may be unset.
func (m *Model) doubtInterface(spec InterfaceSpecification, l launch, known bool) (place, error) {
	switch {
	case spec.DeviceIndex == nil:
		return place{}, invalidValue("Each network interface requires a device index.")
	case spec.SubnetID != "" && known:
		return m.canLaunchInterface(spec, l)
	case spec.SubnetID == "":
		for _, id := range spec.Groups {
			if m.groups.get(id) == nil {
				return place{}, groupNotFound(id)
			}
		}
	default:
		if _, err := m.validateSettings(spec.InterfaceSettings); err != nil {
			return place{}, err
		}
	}
	if err := m.canAssociate(spec, l); err != nil {
		return place{}, err
	}
	where := place{interfaceType: spec.InterfaceType}
	if subnet := m.subnets.get(spec.SubnetID); subnet != nil {
		where.zone, where.vpc = subnet.AvailabilityZone, subnet.VPCID
	}
	return where, nil
}
