// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"slices"
	"strings"
)

// checkLayers checks the layers before they are merged.
func (t NodeTemplate) checkLayers() []Problem {
	problems := append(CheckTags(t.Tags, "spec.tags"), checkSlots(t.Interfaces)...)
	problems = append(problems, t.Metadata.check()...)
	problems = append(problems, checkLayer(t.Override, "spec.launchTemplateOverride")...)
	if t.Source == nil {
		return problems
	}
	if t.Source.Autofill {
		return append(problems, checkLayer(t.Source.Data, "spec.launchTemplateRef")...)
	}
	if set := t.inlineFields(); len(set) > 0 {
		problems = append(problems, Problem{AutofillOff, "spec.autofill", fmt.Sprintf(
			"the referenced launch template is used as it is, and %s would be of no effect; remove it, or set "+
				"autofill: true", strings.Join(set, ", "))})
	}
	return problems
}

// inlineFields are the fields that affect the data of a template.
func (t NodeTemplate) inlineFields() []string {
	fields := []struct {
		name string
		set  bool
	}{
		{"subnetSelector", t.Network.Subnets != nil}, {"securityGroupSelector", t.Network.Groups != nil},
		{"networkInterfaces", len(t.Interfaces) > 0}, {"layout", t.Layout != "" && t.Layout != NoLayout},
		{"amiFamily", t.Image.Family != ""}, {"amiSelector", t.Image.ID != ""}, {"userData", t.UserData != ""},
		{"instanceProfile", t.InstanceProfile != ""}, {"detailedMonitoring", t.Monitoring != nil},
		{"metadataOptions", t.Metadata != nil}, {"blockDeviceMappings", len(t.BlockDevices) > 0},
		{"tags", len(t.Tags) > 0}, {"cluster.dns", t.Bootstrap.ClusterDNS != ""},
		{"launchTemplateOverride", len(t.Override) > 0},
	}
	var set []string
	for _, f := range fields {
		if f.set {
			set = append(set, f.name)
		}
	}
	return set
}

// useUnchanged uses the referenced template itself, and checks the instance types against its interfaces.
func (r *Rendering) useUnchanged(t NodeTemplate, types []InstanceType) {
	r.Source = t.Source
	var missing []string
	for _, member := range []string{mImageID, mUserData, mProfile} {
		if empty(t.Source.Data[member]) {
			missing = append(missing, member)
		}
	}
	if len(missing) > 0 {
		r.Problems = append(r.Problems, Problem{TemplateIncomplete, "spec.launchTemplateRef", fmt.Sprintf(
			"version %d of the launch template lacks %s, without which no instance joins the cluster; add it there, "+
				"or set autofill: true", t.Source.Resolved, strings.Join(missing, ", "))})
	}
	interfaces, problems := interfacesOf(t.Source.Data, nil)
	if len(interfaces) == 0 {
		interfaces = []Interface{{DeleteOnTermination: true}}
	}
	r.Problems = append(r.Problems, append(problems, t.checkInterfaces(interfaces)...)...)
	r.Labels = labels(t, interfaces)
	for _, kind := range types {
		v := TypeVerdict{Name: kind.Name}
		if v.Reason, v.Message = t.candidate(kind); v.Reason == "" {
			v = judge(kind, interfaces)
		}
		r.Types = append(r.Types, v)
	}
	slices.SortFunc(r.Types, func(a, b TypeVerdict) int { return strings.Compare(a.Name, b.Name) })
	if problem := noEligibleType(r.Types); problem != nil {
		r.Problems = append(r.Problems, *problem)
	}
}
