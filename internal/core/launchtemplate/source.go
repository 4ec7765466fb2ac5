// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"slices"
	"strings"
)

// sourcePath is the field that names the referenced launch template.
const sourcePath = "spec.launchTemplateRef"

// checkLayers checks the layers before they are merged.
func (t NodeTemplate) checkLayers() []Problem {
	problems := append(CheckTags(t.Tags, "spec.tags"), checkSlots(t.Interfaces)...)
	problems = append(problems, t.Metadata.check()...)
	problems = append(problems, checkLayer(t.Override, "spec.launchTemplateOverride")...)
	if t.Source == nil {
		return problems
	}
	if t.Source.Autofill {
		return append(problems, checkLayer(t.Source.Data, sourcePath)...)
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

// useUnchanged uses the referenced template itself, and checks it as strictly as a rendered one.
func (r *Rendering) useUnchanged(t NodeTemplate, types []InstanceType) {
	r.Source = t.Source
	var missing []string
	for _, member := range []string{mImageID, mUserData, mProfile} {
		if empty(t.Source.Data[member]) {
			missing = append(missing, member)
		}
	}
	if len(missing) > 0 {
		r.Problems = append(r.Problems, Problem{TemplateIncomplete, sourcePath, fmt.Sprintf(
			"version %d of the launch template lacks %s, without which no instance joins the cluster; add it there, "+
				"or set autofill: true", t.Source.Resolved, strings.Join(missing, ", "))})
	}
	r.Problems = append(r.Problems, checkUnchanged(t.Source.Data)...)
	interfaces, problems := interfacesOf(t.Source.Data, nil)
	if len(interfaces) == 0 {
		interfaces = []Interface{{DeleteOnTermination: true}}
	}
	r.Problems = append(r.Problems, append(problems, t.checkInterfaces(interfaces)...)...)
	r.Labels = labels(t, interfaces)
	r.placeUnchanged(t, interfaces)
	r.warn(sourcePath, interfaces)
	r.warnOfEFAGroups(sourcePath, interfaces, t.Groups)
	r.warnOfDefaultGroup(t.Source.Data, interfaces)
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
	r.checkOwnType(text(t.Source.Data[mType]))
}

// checkUnchanged reports the members of a launch template with which EC2 launches nothing, and those that only the
// first instance could have. A template that is completed gets rid of some of them.
func checkUnchanged(d Document) []Problem {
	problems := checkElements(d, sourcePath, map[string]string{"aws:": "AWS"})
	interfaces := d.objects(mInterfaces)
	for _, member := range []string{mGroupIDs, mGroupNames} {
		if len(interfaces) > 0 && !empty(d[member]) {
			problems = append(problems, Problem{ForbiddenMember, sourcePath + "." + member,
				"EC2 refuses security groups of the instance together with network interfaces; move them to the Groups of " +
					"the interfaces there, or set autofill: true"})
		}
	}
	for n, i := range interfaces {
		path := fmt.Sprintf("%s.%s[%d].", sourcePath, mInterfaces, n)
		if i["DeviceIndex"] == nil {
			problems = append(problems, Problem{InvalidInterface, path + "DeviceIndex",
				"EC2 launches no interface without a device index; add it there, from 0, or set autofill: true"})
		}
		if public := boolean(i[mPublicIP]); public != nil && !*public && len(interfaces) > 1 {
			problems = append(problems, Problem{PublicIPRequiresSingleInterface, path + mPublicIP,
				"EC2 refuses this member, even as false, for an instance with several interfaces, which gets no public " +
					"IP address anyway; remove it there, or set autofill: true"})
		}
	}
	return problems
}

// placeUnchanged evaluates the zones of a template whose interfaces all name their subnets.
func (r *Rendering) placeUnchanged(t NodeTemplate, interfaces []Interface) {
	places, own, problems := t.places(t.Source.Data, interfaces)
	r.Problems = append(r.Problems, problems...)
	r.warnOfPublicSubnets(sourcePath, places)
	if len(problems) > 0 || len(own) < len(interfaces) {
		return
	}
	r.Zones = subnetsPlaced(places, nil)
	if problem := noZone(places, r.Zones); problem != nil {
		r.Problems = append(r.Problems, *problem)
	}
}

// checkOwnType checks the instance type of a launch without a type of its own.
func (r *Rendering) checkOwnType(name string) {
	at := slices.IndexFunc(r.Types, func(v TypeVerdict) bool { return v.Name == name })
	if at < 0 || r.Types[at].Eligible() {
		return
	}
	p := Problem{NoEligibleInstanceType, sourcePath + "." + mType, fmt.Sprintf(
		"the launch template launches %s, which cannot carry its interfaces: %s; change the type there", name,
		r.Types[at].Message)}
	if r.Types[at].Reason == Excluded {
		p.Message = fmt.Sprintf("the launch template launches %s unless the launch says otherwise, and "+
			"spec.instanceTypes does not choose that; change one of them", name)
		r.Warnings = append(r.Warnings, p)
		return
	}
	r.Problems = append(r.Problems, p)
}
