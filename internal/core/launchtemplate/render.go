// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/userdata"
)

// Rendering is the result of rendering a node template.
type Rendering struct {
	// Templates are the desired launch templates, in the order of shape and zone; none if there are Problems.
	Templates []Template
	// Source is set if a launch template of another program is used unchanged.
	Source *Source
	Zones  []ZoneVerdict
	// Types has every known instance type, sorted by name.
	Types []TypeVerdict
	// Labels are the labels of nodes, with which pods can select among node templates.
	Labels  map[string]string
	Shadows []Shadow
	// Images are the current image IDs of Systems Manager parameters, by parameter. The shell sets those that it can
	// read.
	Images map[string]string
	// Origins has the layer that each member of the data comes from.
	Origins  map[string]Origin
	Warnings []Problem
	Problems []Problem
}

// Template is one desired launch template.
type Template struct {
	// Zone is empty if the launcher chooses the subnet; Shape if all instance types have the same interfaces.
	Zone, Shape string
	Data        Document
	// Hash identifies the data, without the tags that hold it.
	Hash string
	// Interfaces are those with which an instance is launched, in the order of their slots.
	Interfaces []Interface
	// Subnets are the sorted IDs of the possible subnets of each interface, in any zone.
	Subnets map[eni.Slot][]string
}

// TemplateName returns the name of the launch template. It fits EC2's 128 characters for node template names of 63.
func (t NodeTemplate) TemplateName(of Template) string {
	parts := []string{namesOf(t.Cluster) + t.Name}
	for _, more := range []string{of.Zone, of.Shape} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	return strings.Join(parts, "/")
}

// namesOf returns the beginning of the names of a cluster's launch templates.
func namesOf(cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return "multieni/" + hex.EncodeToString(sum[:4]) + "/"
}

// Render renders the launch templates of a node template for the instance types. The same input gives the same bytes.
func Render(t NodeTemplate, types []InstanceType, choices Choices) Rendering {
	r := Rendering{Origins: map[string]Origin{}}
	r.Problems = t.checkLayers()
	if t.Source != nil && !t.Source.Autofill {
		r.useUnchanged(t, types)
		return r.settled()
	}
	shapes, verdicts := t.shapes(types)
	r.Types = verdicts
	for _, s := range shapes {
		r.render(t, s, choices)
	}
	slices.SortFunc(r.Types, func(a, b TypeVerdict) int { return strings.Compare(a.Name, b.Name) })
	if problem := noEligibleType(r.Types); problem != nil {
		r.Problems = append(r.Problems, *problem)
	}
	return r.settled()
}

// settled sorts problems and removes duplicates; with problems there are no templates.
func (r Rendering) settled() Rendering {
	for _, list := range []*[]Problem{&r.Problems, &r.Warnings} {
		slices.SortFunc(*list, compareProblems)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(r.Zones, func(a, b ZoneVerdict) int { return strings.Compare(a.Zone, b.Zone) })
	r.Zones = slices.CompactFunc(r.Zones, func(a, b ZoneVerdict) bool { return a.Zone == b.Zone })
	if len(r.Problems) > 0 {
		r.Templates = nil
	}
	return r
}

// shape is the instance types that get the same interfaces.
type shape struct {
	name       string
	interfaces []Interface
	types      []InstanceType
}

// shapes groups the candidates by the interfaces they get, and returns the verdicts on all others.
func (t NodeTemplate) shapes(types []InstanceType) ([]*shape, []TypeVerdict) {
	byKey := map[string]*shape{}
	var order []string
	var verdicts []TypeVerdict
	for _, kind := range types {
		if reason, message := t.candidate(kind); reason != "" {
			verdicts = append(verdicts, TypeVerdict{Name: kind.Name, Reason: reason, Message: message})
			continue
		}
		interfaces := t.Layout.Interfaces(kind.Name, kind.Limits, t.Interfaces)
		key := fmt.Sprintf("%+v", slots(interfaces))
		if byKey[key] == nil {
			byKey[key] = &shape{name: t.shapeName(interfaces, key), interfaces: interfaces}
			order = append(order, key)
		}
		byKey[key].types = append(byKey[key].types, kind)
	}
	if len(order) == 0 {
		// Without candidates the declaration is still checked.
		order, byKey[""] = []string{""}, &shape{interfaces: NoLayout.Interfaces("", eni.Limits{}, t.Interfaces)}
	}
	slices.Sort(order)
	var shapes []*shape
	for _, key := range order {
		shapes = append(shapes, byKey[key])
	}
	return shapes, verdicts
}

func (t NodeTemplate) shapeName(interfaces []Interface, key string) string {
	if t.Layout == "" || t.Layout == NoLayout {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%dx%defa-%s", len(interfaces), countEFAs(interfaces), hex.EncodeToString(sum[:2]))
}

func slots(interfaces []Interface) []string {
	var all []string
	for _, i := range interfaces {
		all = append(all, fmt.Sprintf("%s %s", i.Slot, i.kind()))
	}
	return all
}

// render adds the templates of one shape.
func (r *Rendering) render(t NodeTemplate, s *shape, choices Choices) {
	layers := []layer{{FromDefault, defaults()}, {FromInline, t.inline(s.interfaces)}}
	if t.Source != nil {
		layers = append(layers, layer{FromTemplate, t.Source.Data})
	}
	m := merge(append(layers, layer{FromOverride, t.Override})...)
	spreadGroups(&m)
	private := declinesPublicIP(m.data)
	implyNoAddress(&m)
	interfaces, problems := interfacesOf(m.data, s.interfaces)
	problems = append(problems, t.checkInterfaces(interfaces)...)
	r.judge(s, interfaces)
	if r.Labels == nil {
		r.Labels = labels(t, interfaces)
	}
	problems = append(problems, t.image(&m)...)
	problems = append(problems, t.userData(&m, interfaces)...)
	problems = append(problems, checkGroups(interfaces)...)
	places, own, unknown := t.places(m.data, interfaces)
	problems = append(problems, unknown...)
	r.note(t, m)
	r.warn("spec.networkInterfaces", interfaces)
	r.warnOfEFAGroups("spec.networkInterfaces", interfaces, t.Groups)
	if !private {
		r.warnOfPublicSubnets("spec.networkInterfaces", places)
	}
	if len(problems) > 0 {
		r.Problems = append(r.Problems, problems...)
		return
	}
	m.member(mTags, t.tags(interfaces), FromInline)
	if !zoned(places, own) {
		r.anyZone(s, m.data, intersect(places))
		return
	}
	zones := subnetsPlaced(places, choices)
	if problem := noZone(places, zones); problem != nil {
		r.Problems = append(r.Problems, *problem)
		return
	}
	for _, z := range zones {
		r.Zones = append(r.Zones, z)
		if z.Subnets != nil {
			r.add(s, inSubnets(m.data, z), z.Zone, places)
		}
	}
}

func (r *Rendering) anyZone(s *shape, data Document, places []zonePlacement) {
	if len(places[0].candidates) == 0 {
		r.Problems = append(r.Problems, Problem{NoSubnets, "spec.subnetSelector",
			"no subnet that subnetSelector matches suits every interface; correct it, or tag a subnet"})
		return
	}
	r.Zones = append(r.Zones, zones(places)...)
	r.add(s, data, "", places)
}

// judge adds the verdicts on the types of a shape.
func (r *Rendering) judge(s *shape, interfaces []Interface) {
	for _, kind := range s.types {
		v := judge(kind, interfaces)
		v.Shape = s.name
		r.Types = append(r.Types, v)
	}
}

// add finishes one template, if any type of its shape can be launched from it.
func (r *Rendering) add(s *shape, data Document, zone string, places []zonePlacement) {
	if !slices.ContainsFunc(r.Types, func(v TypeVerdict) bool { return v.Shape == s.name && v.Eligible() }) {
		return
	}
	data = data.Clone()
	if user := text(data[mUserData]); user != "" {
		data[mUserData] = base64.StdEncoding.EncodeToString([]byte(user))
	}
	sortInterfaces(data)
	hash := data.Hash()
	m := merge(layer{FromInline, data}, layer{FromInline, Document{mTags: hashTags(data, hash)}})
	made := Template{Zone: zone, Shape: s.name, Data: m.data, Hash: hash, Subnets: map[eni.Slot][]string{}}
	for _, p := range places {
		made.Interfaces = append(made.Interfaces, p.Interface)
		for _, candidate := range p.candidates {
			made.Subnets[p.Slot] = append(made.Subnets[p.Slot], candidate.ID)
		}
		slices.Sort(made.Subnets[p.Slot])
	}
	r.Templates = append(r.Templates, made)
}

// hashTags adds the hash to the tags of all launched resources, so that nodes of different versions can be
// distinguished.
func hashTags(data Document, hash string) []any {
	var specs []any
	for _, spec := range data.objects(mTags) {
		specs = append(specs, map[string]any{"ResourceType": spec["ResourceType"],
			"Tags": tagList(map[string]string{identity.TagTemplateHash: hash})})
	}
	return specs
}

func sortInterfaces(data Document) {
	list, _ := data[mInterfaces].([]any)
	slices.SortStableFunc(list, func(a, b any) int {
		x, _ := a.(map[string]any)
		y, _ := b.(map[string]any)
		return eni.CompareSlots(slotOf(x), slotOf(y))
	})
}

// spreadGroups moves security groups from the top level of the data to the interfaces that have none. EC2 refuses
// groups in both.
func spreadGroups(m *merged) {
	groups, beside := m.data[mGroupIDs]
	if !beside {
		return
	}
	for _, i := range m.data.objects(mInterfaces) {
		if _, own := i["Groups"]; !own {
			i["Groups"] = groups
			m.origins[fmt.Sprintf("%s[%s].Groups", mInterfaces, slotOf(i))] = m.origins[mGroupIDs]
		}
	}
	delete(m.data, mGroupIDs)
	delete(m.origins, mGroupIDs)
}

// implyNoAddress removes explicit values that EC2 implies and refuses: that an instance with several interfaces has no
// public address, and that an interface has no carrier address, which exists only in Wavelength Zones.
func implyNoAddress(m *merged) {
	all := m.data.objects(mInterfaces)
	for _, i := range all {
		if is := boolean(i[mPublicIP]); is != nil && !*is && len(all) > 1 {
			delete(i, mPublicIP)
		}
		if is := boolean(i["AssociateCarrierIpAddress"]); is != nil && !*is {
			delete(i, "AssociateCarrierIpAddress")
		}
	}
}

// declinesPublicIP reports whether the primary interface is declared to have no public address.
func declinesPublicIP(d Document) bool {
	return slices.ContainsFunc(d.objects(mInterfaces), func(i map[string]any) bool {
		public := boolean(i[mPublicIP])
		return slotOf(i) == eni.Primary && public != nil && !*public
	})
}

func checkGroups(interfaces []Interface) []Problem {
	for _, i := range interfaces {
		if len(i.Groups) == 0 {
			return []Problem{{NoSecurityGroups, "spec.securityGroupSelector", fmt.Sprintf(
				"%s has no security group, and EC2 would give it the default one of the VPC; correct "+
					"securityGroupSelector, or tag a group", i)}}
		}
	}
	return nil
}

// image ensures that the data has an image.
func (t NodeTemplate) image(m *merged) []Problem {
	if text(m.data[mImageID]) != "" {
		return nil
	}
	family := t.family(m)
	if family == Custom {
		return []Problem{{ImageRequired,
			"spec.amiSelector", "the AMI family Custom has no default image; set amiSelector, for example to " +
				"aws-ids: ami-0123456789abcdef0"}}
	}
	id, problem := t.Image.standard(family)
	if problem != nil {
		return []Problem{*problem}
	}
	m.data[mImageID], m.origins[mImageID] = id, FromDefault
	return nil
}

// family returns the declared family. An image that a user chose could be of any, so it is not guessed.
func (t NodeTemplate) family(m *merged) Family {
	switch {
	case t.Image.Family != "":
		return t.Image.Family
	case m.origins[mImageID] != "" && m.origins[mImageID] != FromDefault:
		return Custom
	default:
		return AL2023
	}
}

// userData keeps the user data of a later layer unchanged, and otherwise renders it.
func (t NodeTemplate) userData(m *merged, interfaces []Interface) []Problem {
	if _, given := m.data[mUserData]; given {
		user := text(m.data[mUserData])
		if t.Bootstrap.ClusterDNS != "" {
			return []Problem{{ClusterDNSConflict, "spec.cluster.dns", fmt.Sprintf(
				"cluster.dns cannot be honoured, since the user data of the %s is taken as it is; configure it there",
				strings.ToLower(string(m.origins[mUserData])))}}
		}
		if t.UserData != "" {
			m.shadows = append(m.shadows, Shadow{Path: mUserData, By: m.origins[mUserData], Of: FromInline})
		}
		return tooLarge(user)
	}
	user, problem := userData(t.family(m), t.UserData, t.Bootstrap,
		userdata.Node{Labels: labels(t, interfaces), LeftAlone: unmanagedReason(interfaces)})
	if problem != nil {
		return []Problem{*problem}
	}
	m.data[mUserData], m.origins[mUserData] = user, FromInline
	return tooLarge(user)
}

func tooLarge(user string) []Problem {
	if len(user) <= userdata.MaxSize {
		return nil
	}
	return []Problem{{UserDataTooLarge, "spec.userData", fmt.Sprintf(
		"the user data has %d bytes with what the cluster needs, and EC2 takes %d; fetch the rest from S3 at boot",
		len(user), userdata.MaxSize)}}
}

// places returns the subnets of each interface: that of a later layer, its own, or those of the template.
func (t NodeTemplate) places(
	d Document, interfaces []Interface,
) (places []zonePlacement, own map[eni.Slot]bool, problems []Problem) {
	own = map[eni.Slot]bool{}
	named := map[eni.Slot]string{}
	for _, e := range d.objects(mInterfaces) {
		named[slotOf(e)] = text(e["SubnetId"])
	}
	for _, i := range interfaces {
		p := zonePlacement{i, t.Network.Subnets}
		declared := slices.IndexFunc(t.Interfaces, at(i.Slot))
		switch id := named[i.Slot]; {
		case id != "":
			p.candidates = slices.DeleteFunc(slices.Clone(t.Named), func(s eni.Subnet) bool { return s.ID != id })
			if own[i.Slot] = true; len(p.candidates) == 0 {
				problems = append(problems,
					Problem{NoSubnets, mInterfaces,
						fmt.Sprintf("%s is to be in %s, which EC2 does not know; correct the template or override that names it", i, id)})
			}
		case declared >= 0 && t.Interfaces[declared].Subnets != nil:
			p.candidates, own[i.Slot] = t.Interfaces[declared].Subnets, true
		}
		problems = append(problems, t.narrow(&p)...)
		places = append(places, p)
	}
	return places, own, problems
}

// inSubnets writes the chosen subnets into the interfaces.
func inSubnets(d Document, z ZoneVerdict) Document {
	d = d.Clone()
	for _, e := range d.objects(mInterfaces) {
		e["SubnetId"] = z.Subnets[slotOf(e)][0]
	}
	return d
}

// note copies the findings of the merge.
func (r *Rendering) note(t NodeTemplate, m merged) {
	maps.Copy(r.Origins, m.origins)
	for _, s := range m.shadows {
		if slices.Contains(r.Shadows, s) {
			continue
		}
		r.Shadows = append(r.Shadows, s)
		p := Problem{Shadowed, s.Path, fmt.Sprintf("the %s hides what the %s says; remove it from one of them",
			s.By.words(), s.Of.words())}
		if t.RejectConflicts {
			p.Message += ", or set conflictPolicy: Warn"
			r.Problems = append(r.Problems, p)
		} else {
			r.Warnings = append(r.Warnings, p)
		}
	}
}

// labels returns the labels with which pods select nodes. There is none for what does not exist, for selectors with
// Exists.
func labels(t NodeTemplate, interfaces []Interface) map[string]string {
	l := map[string]string{LabelNodeTemplate: t.Name, LabelInterfaces: strconv.Itoa(len(interfaces))}
	if n := countEFAs(interfaces); n > 0 {
		l[LabelEFAs] = strconv.Itoa(n)
	}
	if t.Layout != "" && t.Layout != NoLayout {
		l[LabelLayout] = string(t.Layout)
	}
	for _, i := range interfaces {
		if i.Name != "" {
			l[LabelNetworkPrefix+i.Name] = "true"
		}
	}
	return l
}

// The labels of nodes that are launched from a node template.
const (
	LabelNodeTemplate  = identity.Prefix + "nodetemplate"
	LabelInterfaces    = identity.Prefix + "interfaces"
	LabelEFAs          = identity.Prefix + "efa-interfaces"
	LabelLayout        = identity.Prefix + "layout"
	LabelNetworkPrefix = "network.networking.k8s.aws/"
)

// IsNodeLabel reports whether a label, or an extended resource, is one of those.
func IsNodeLabel(key string) bool {
	return slices.Contains([]string{LabelNodeTemplate, LabelInterfaces, LabelEFAs, LabelLayout}, key) ||
		strings.HasPrefix(key, LabelNetworkPrefix)
}
