// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Node is an instance that was launched from a node template, with its node in the cluster.
type Node struct {
	InstanceType, Zone string
	// Hash is the hash of the version from which it was launched.
	Hash string
	// Image is the ID of its image; empty if unknown.
	Image string
	// Interfaces are those of the instance that are known.
	Interfaces []eni.Interface
	// Adopted are the slots of interfaces that NodeENIs adopted: their desired state is the NodeENIs'.
	Adopted map[eni.Slot]bool
}

// template returns the template from which the node would be launched now.
func (r Rendering) template(n Node) (Template, bool) {
	v := slices.IndexFunc(r.Types, func(v TypeVerdict) bool { return v.Name == n.InstanceType })
	shape := ""
	if v >= 0 {
		shape = r.Types[v].Shape
	}
	of := func(zone string) int {
		return slices.IndexFunc(r.Templates, func(t Template) bool {
			return t.Shape == shape && (zone == "" || t.Zone == zone || t.Zone == "")
		})
	}
	at := of(n.Zone)
	if at < 0 {
		// The zone is no longer suitable for launches. The desired state of the interface is the same in all zones.
		at = of("")
	}
	if at < 0 {
		return Template{}, false
	}
	return r.Templates[at], true
}

// Drift returns how the node differs from one that would be launched now, and the updates in place that remove
// differences, as far as possible. The parameter then is the data from which the node was launched. If it is nil
// because the data is not known any more, Drift compares only the interfaces.
func (r Rendering) Drift(t NodeTemplate, n Node, then Document) ([]Difference, []plan.InPlaceUpdate) {
	now, is := r.template(n)
	if !is {
		return nil, nil
	}
	all := CompareInterfaces(Wanted{now.Interfaces, now.Subnets}, n.Interfaces)
	all = slices.DeleteFunc(all, func(d Difference) bool { return d.Action == Repair && n.Adopted[d.Slot] })
	if n.Hash != now.Hash && then != nil {
		all = append(all, CompareData(Readable(now.Data), r.Origins, then)...)
	}
	if stale := r.staleImage(now, n); stale != nil && !slices.ContainsFunc(all, func(d Difference) bool {
		return d.Field == stale.Field
	}) {
		all = append(all, *stale)
	}
	return all, inPlaceUpdates(t, now, n, all)
}

// staleImage returns a difference if the template names its image by a parameter and the parameter now names another
// image.
func (r Rendering) staleImage(now Template, n Node) *Difference {
	want := r.Images[now.ImageParameter()]
	if want == "" || n.Image == "" || n.Image == want {
		return nil
	}
	field := "amiSelector"
	if r.Origins[mImageID] == FromOverride {
		field = "launchTemplateOverride"
	}
	f := Fields()[field]
	return &Difference{Field: field, Class: f.Class, Action: f.Action, Want: want, Have: n.Image}
}

// Readable returns the data with its user data as plain text.
func Readable(d Document) Document {
	d = maps.Clone(d)
	if plain, err := base64.StdEncoding.DecodeString(text(d[mUserData])); err == nil && len(plain) > 0 {
		d[mUserData] = string(plain)
	}
	return d
}

// inPlaceUpdates returns the updates that remove the differences, one for each interface.
func inPlaceUpdates(t NodeTemplate, now Template, n Node, differences []Difference) []plan.InPlaceUpdate {
	var all []plan.InPlaceUpdate
	for _, i := range n.Interfaces {
		if i.Attachment == nil {
			continue
		}
		mend := plan.InPlaceUpdate{InterfaceID: i.ID, Owner: t.Name, OwnerUID: t.UID}
		at, some := slices.IndexFunc(now.Interfaces, at(i.Attachment.Slot)), false
		for _, d := range differences {
			if at >= 0 && d.Slot == i.Attachment.Slot && d.Action == Repair {
				some = inPlaceUpdate(&mend, d.Field, now.Interfaces[at]) || some
			}
		}
		if some {
			all = append(all, mend)
		}
	}
	return all
}

// inPlaceUpdate adds the update that removes the difference of one field, and reports whether there is one.
func inPlaceUpdate(mend *plan.InPlaceUpdate, field string, w Interface) bool {
	switch strings.TrimPrefix(field, "networkInterfaces[].") {
	case "description":
		mend.Description = &w.Description
	case "deleteOnTermination":
		mend.DeleteOnTermination = &w.DeleteOnTermination
	case "securityGroupSelector":
		mend.Groups = w.Groups
	case "ipv4PrefixCount":
		mend.IPv4Prefixes = &w.IPv4Prefixes
	case "ipv6PrefixCount":
		mend.IPv6Prefixes = &w.IPv6Prefixes
	case "connectionTracking":
		mend.ConnectionTracking = w.ConnectionTracking
	case "enaExpress":
		mend.ENAExpress = w.ENAExpress
	case "management":
		mend.Tags = map[string]string{identity.TagNoManage: "false"}
	default:
		return false
	}
	return true
}

// SourceDrift returns the difference of a node that was launched directly from a launch template of another program:
// only the version can differ.
func SourceDrift(s Source, version int64) []Difference {
	if version == s.Resolved {
		return nil
	}
	f := Fields()["launchTemplateRef"]
	if _, err := strconv.ParseInt(s.Version, 10, 64); err == nil {
		f.Class = Static // a version number always names the same version
	}
	return []Difference{{
		Field: "launchTemplateRef", Class: f.Class, Action: f.Action, Want: fmt.Sprintf("version %d", s.Resolved),
		Have: fmt.Sprintf("version %d", version),
	}}
}

// NodeLabels returns the labels of the node. A label of the node template that describes an interface is included only
// if the node has that interface.
func (t NodeTemplate) NodeLabels(r Rendering, n Node) map[string]string {
	return labels(t, r.present(n))
}

// NodeResources are the extended resources of the node: the number of interfaces of each name that the VPC CNI does not
// use.
func (t NodeTemplate) NodeResources(r Rendering, n Node) map[string]int {
	return resources(r.present(n))
}

// Launched returns the labels and the extended resources of a node that has all interfaces of a launch template.
func (t NodeTemplate) Launched(from Template) (map[string]string, map[string]int) {
	return labels(t, from.Interfaces), resources(from.Interfaces)
}

func resources(interfaces []Interface) map[string]int {
	all := map[string]int{}
	for _, i := range interfaces {
		if i.Name != "" && i.unmanaged() {
			all[LabelNetworkPrefix+i.Name]++
		}
	}
	return all
}

// present are the declared interfaces that the node has.
func (r Rendering) present(n Node) []Interface {
	now, _ := r.template(n)
	var there []Interface
	for _, w := range now.Interfaces {
		if slices.ContainsFunc(n.Interfaces, func(i eni.Interface) bool {
			return i.Attachment != nil && i.Attachment.Slot == w.Slot && i.Type == w.kind() && counts(i)
		}) {
			there = append(there, w)
		}
	}
	return there
}

// HashOf returns the hash with which the interfaces of an instance were launched, or "".
func HashOf(interfaces []eni.Interface) string {
	for _, i := range interfaces {
		if hash := i.Tags[identity.TagTemplateHash]; hash != "" {
			return hash
		}
	}
	return ""
}
