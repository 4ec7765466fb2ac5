// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"github.com/multieni/multieni/awssim/ec2"
)

// MixedInstancesPolicy lets a group launch several instance types. All are On-Demand: there is no distribution, and the
// group launches the first possible override.
type MixedInstancesPolicy struct {
	LaunchTemplate *MixedLaunchTemplate `query:"LaunchTemplate" json:"launchTemplate" xml:"LaunchTemplate"`
}

// MixedLaunchTemplate is a launch template with its overrides.
type MixedLaunchTemplate struct {
	LaunchTemplateSpecification *LaunchTemplateSpecification `query:"LaunchTemplateSpecification" json:"launchTemplateSpecification" xml:"LaunchTemplateSpecification"`
	Overrides                   []MixedOverride              `query:"Overrides" json:"overrides,omitempty" xml:"Overrides"`
}

// MixedOverride is an instance type to launch, from another launch template if it names one.
type MixedOverride struct {
	InstanceType                string                       `query:"InstanceType" json:"instanceType,omitempty" xml:"InstanceType"`
	LaunchTemplateSpecification *LaunchTemplateSpecification `query:"LaunchTemplateSpecification" json:"launchTemplateSpecification,omitempty" xml:"LaunchTemplateSpecification"`
}

// choice is an instance type that a group can launch; if empty, that of the launch template.
type choice struct {
	template     *LaunchTemplateSpecification
	instanceType string
}

// choices returns the choices of a group, in order.
func (g *Group) choices() []choice {
	if g.MixedInstancesPolicy == nil {
		return []choice{{template: g.LaunchTemplate}}
	}
	mixed := g.MixedInstancesPolicy.LaunchTemplate
	if len(mixed.Overrides) == 0 {
		return []choice{{template: mixed.LaunchTemplateSpecification}}
	}
	var all []choice
	for _, o := range mixed.Overrides {
		c := choice{mixed.LaunchTemplateSpecification, o.InstanceType}
		if o.LaunchTemplateSpecification != nil {
			c.template = o.LaunchTemplateSpecification
		}
		all = append(all, c)
	}
	return all
}

// launchesFrom sets the launch templates of a request: one, or a mixed instances policy. Each replaces the other.
func (g *Group) launchesFrom(in GroupSettings) error {
	mixed := in.MixedInstancesPolicy
	switch {
	case in.LaunchTemplate != nil && mixed != nil:
		return validation("Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or " +
			"MixedInstancesPolicy parameter.")
	case in.LaunchTemplate != nil:
		template := *in.LaunchTemplate
		g.LaunchTemplate, g.MixedInstancesPolicy = &template, nil
	case mixed != nil && (mixed.LaunchTemplate == nil || mixed.LaunchTemplate.LaunchTemplateSpecification == nil):
		return validation("A mixed instances policy must contain a LaunchTemplateSpecification: awssim does not take " +
			"one that keeps what there was")
	case mixed != nil:
		g.LaunchTemplate, g.MixedInstancesPolicy = nil, mixed
	}
	return nil
}

// version is the version that a specification names, in EC2's form.
func (s *LaunchTemplateSpecification) version() *ec2.LaunchTemplateSpecification {
	name := ec2.TemplateName{LaunchTemplateID: s.LaunchTemplateID, LaunchTemplateName: s.LaunchTemplateName}
	if name.LaunchTemplateID != "" {
		name.LaunchTemplateName = ""
	}
	return &ec2.LaunchTemplateSpecification{TemplateName: name, Version: s.Version}
}
