// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/autoscaling"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// specification names a launch template to launch from.
type specification struct {
	LaunchTemplateID string `json:"LaunchTemplateId"`
	Version          string `json:"Version"`
}

// typeOverride is one instance type of a group or fleet.
type typeOverride struct {
	InstanceType string `json:"InstanceType"`
	SubnetID     string `json:"SubnetId,omitempty"`
}

// consumer returns the input of a consumer, and notes on what it cannot take of the node template.
func (l loaded) consumer(name string) (facts any, notes []string, err error) {
	if name == "auto-scaling-group" || name == "fleet" {
		if err := l.checkArchitectures(); err != nil {
			return nil, nil, err
		}
	}
	switch name {
	case "auto-scaling-group":
		facts, notes = l.autoScalingGroups()
		return facts, notes, nil
	case "fleet":
		facts, notes = l.fleet()
		return facts, notes, nil
	case "managed-node-group":
		facts, err = l.managedNodeGroup()
		return facts, nil, err
	case "karpenter":
		facts, err = l.karpenter()
		return facts, nil, err
	default:
		return nil, nil, fmt.Errorf("--for is %q and must be auto-scaling-group, fleet, managed-node-group "+
			"or karpenter", name)
	}
}

// checkArchitectures refuses a list of instance types of several architectures, because an image runs on one.
func (l loaded) checkArchitectures() error {
	seen := map[string]bool{}
	for _, v := range l.Types {
		if v.Eligible() {
			seen[instancetype.Architecture(v.Name)] = true
		}
	}
	if len(seen) < 2 {
		return nil
	}
	return fmt.Errorf("the architecture of the image is not known here, and the eligible instance types are for %s: set "+
		"spec.architecture, choose types of one by spec.instanceTypes, or give the object of the cluster, whose status "+
		"has the types for its image", strings.Join(sortedKeys(seen), " and "))
}

// group is the input of an Auto Scaling group.
type group struct {
	Zone                 string `json:"-"`
	MixedInstancesPolicy struct {
		LaunchTemplate struct {
			LaunchTemplateSpecification specification  `json:"LaunchTemplateSpecification"`
			Overrides                   []typeOverride `json:"Overrides"`
		} `json:"LaunchTemplate"`
	} `json:"MixedInstancesPolicy"`
	// AvailabilityZones is set if the launch template names the subnets; VPCZoneIdentifier must then be empty.
	AvailabilityZones []string `json:"AvailabilityZones,omitempty"`
	// VPCZoneIdentifier lists the subnets to choose from.
	VPCZoneIdentifier string `json:"VPCZoneIdentifier,omitempty"`
	// Tags are those from which Cluster Autoscaler knows the labels and resources of a node, if the group has none.
	Tags []groupTag `json:"Tags,omitempty"`
}

// groupTag is a tag of an Auto Scaling group.
type groupTag struct {
	Key               string `json:"Key"`
	Value             string `json:"Value"`
	PropagateAtLaunch bool   `json:"PropagateAtLaunch"`
}

// autoScalingGroups returns one group for each launch template: a group has one template.
func (l loaded) autoScalingGroups() (facts map[string]any, notes []string) {
	var groups []group
	for _, p := range l.published() {
		var g group
		g.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification = p.specification
		types, left := launchtemplate.Foremost(l.typesOf(p.shape), launchtemplate.MostGroupTypes)
		notes = append(notes, leftOut("an Auto Scaling group", len(types), left)...)
		for _, name := range types {
			g.MixedInstancesPolicy.LaunchTemplate.Overrides = append(g.MixedInstancesPolicy.LaunchTemplate.Overrides,
				typeOverride{InstanceType: name})
		}
		if p.zone != "" {
			g.AvailabilityZones = []string{p.zone}
		} else {
			g.VPCZoneIdentifier = strings.Join(l.subnets(), ",")
		}
		var long []string
		g.Tags, long = l.groupTags(p.shape)
		notes = append(notes, long...)
		groups = append(groups, g)
	}
	return map[string]any{"AutoScalingGroups": groups}, slices.Compact(notes)
}

// groupTags returns the tags for Cluster Autoscaler of a group that launches a shape, and notes on keys that are too
// long. multieni gives the labels and resources to a node only after it has joined, and to no node of a launch template
// that is used without a change.
func (l loaded) groupTags(shape string) (tags []groupTag, notes []string) {
	at := slices.IndexFunc(l.Templates, func(t launchtemplate.Template) bool { return t.Shape == shape })
	if at < 0 {
		return nil, nil
	}
	labels, counts := l.template.Launched(l.Templates[at])
	resources := map[string]int64{}
	for name, n := range counts {
		resources[name] = int64(n)
	}
	all, long := autoscaling.Tags(labels, resources)
	for _, key := range sortedKeys(all) {
		tags = append(tags, groupTag{Key: key, Value: all[key]})
	}
	for _, key := range long {
		notes = append(notes, fmt.Sprintf("the tag %s is left out, since AWS allows a key of 128 characters: Cluster "+
			"Autoscaler does not scale the group up from zero for a pod that asks for it. Choose a shorter name of the "+
			"interface", key))
	}
	return tags, notes
}

// fleet returns the LaunchTemplateConfigs of one fleet. A template that names its subnets must not be given another.
func (l loaded) fleet() (facts map[string]any, notes []string) {
	type config struct {
		LaunchTemplateSpecification specification  `json:"LaunchTemplateSpecification"`
		Overrides                   []typeOverride `json:"Overrides"`
	}
	var configs []config
	all := l.published()
	for _, p := range all {
		c := config{LaunchTemplateSpecification: p.specification}
		overrides := 1
		if p.zone == "" {
			overrides = max(1, len(l.subnets()))
		}
		types, left := launchtemplate.Foremost(l.typesOf(p.shape), launchtemplate.MostFleetTypes/len(all)/overrides)
		notes = append(notes, leftOut(fmt.Sprintf("a fleet of %d launch templates and %d subnets each", len(all),
			overrides), len(types), left)...)
		for _, name := range types {
			if p.zone != "" {
				c.Overrides = append(c.Overrides, typeOverride{InstanceType: name})
				continue
			}
			for _, subnet := range l.subnets() {
				c.Overrides = append(c.Overrides, typeOverride{name, subnet})
			}
		}
		configs = append(configs, c)
	}
	return map[string]any{"LaunchTemplateConfigs": configs}, slices.Compact(notes)
}

// leftOut returns a note on the types that a consumer does not take, if any.
func leftOut(consumer string, kept int, left []string) []string {
	if len(left) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d eligible instance types are left out, since %s takes no more than %d: "+
		"types of newer generations are kept, then by name. Choose with spec.instanceTypes. Left out: %s",
		len(left), len(left)+kept, consumer, kept, few(left, 8))}
}

type published struct {
	specification
	zone, shape string
}

// published returns the launch templates to name: those of the status, or placeholders.
func (l loaded) published() []published {
	var all []published
	for _, t := range l.object.Status.LaunchTemplates {
		all = append(all, published{specification{t.ID, fmt.Sprint(t.Version)}, t.Zone, t.Shape})
	}
	if len(all) > 0 {
		return all
	}
	for _, t := range l.templates() {
		all = append(all, published{specification{"<ID of " + t.Name + ">", "<version>"}, t.Zone, t.Shape})
	}
	if l.Source != nil {
		all = append(all, published{specification: specification{l.source(), l.Source.Version}})
	}
	return all
}

// subnets returns the subnets of the status that a launcher may choose from, or placeholders.
func (l loaded) subnets() []string {
	var ids []string
	for _, z := range l.object.Status.Zones {
		if z.Eligible {
			ids = append(ids, z.Subnets...)
		}
	}
	if len(ids) > 0 {
		return ids
	}
	for _, s := range l.template.Network.Subnets {
		ids = append(ids, s.ID)
	}
	return ids
}

func (l loaded) managedNodeGroup() (any, error) {
	all := []renderedTemplate{}
	for n, t := range l.templates() {
		data, problem := launchtemplate.ForManagedNodeGroup(l.Templates[n])
		if problem != nil {
			return nil, *problem
		}
		t.Data = data
		all = append(all, t)
	}
	return map[string]any{"launchTemplates": all}, nil
}

func (l loaded) karpenter() (any, error) {
	if len(l.Templates) == 0 {
		return nil, fmt.Errorf("there is no output for Karpenter: the node template uses a launch template as it " +
			"is, which Karpenter cannot")
	}
	if n := len(l.shapes()); n > 1 {
		return nil, fmt.Errorf("layout %s gives instance types %d different sets of interfaces, and an EC2NodeClass "+
			"has one: restrict spec.instanceTypes to types of one kind", l.template.Layout, n)
	}
	interfaces, lost := launchtemplate.ForKarpenter(l.Templates[0])
	var words []string
	for _, p := range lost {
		words = append(words, p.Message)
	}
	return struct {
		Spec struct {
			NetworkInterfaces []launchtemplate.KarpenterInterface `json:"networkInterfaces"`
		} `json:"spec"`
		Lost []string `json:"x-not-expressed,omitempty"`
	}{Spec: struct {
		NetworkInterfaces []launchtemplate.KarpenterInterface `json:"networkInterfaces"`
	}{interfaces}, Lost: words}, nil
}

func (l loaded) shapes() map[string]bool {
	shapes := map[string]bool{}
	for _, t := range l.Templates {
		shapes[t.Shape] = true
	}
	return shapes
}
