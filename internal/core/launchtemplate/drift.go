// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Class is how a difference between a node and its node template is detected (karpenter-core, "Drift").
type Class string

const (
	// Static fields are compared as they are declared: only a change of the node template makes a node differ.
	Static Class = "Static"
	// Dynamic fields refer to something that changes without a change of the declaration, for example a parameter that
	// names an image. A node can then drift although no user changed the template.
	Dynamic Class = "Dynamic"
	// Behavioral fields control how multieni works. A change of them makes no node differ.
	Behavioral Class = "Behavioral"
)

// Action is what removes a difference.
type Action string

const (
	// Repair means that the controller updates the interface in place.
	Repair Action = "Repair"
	// Replace means that only a new node removes the difference. multieni reports it; the program that replaces nodes
	// decides.
	Replace Action = "Replace"
	// NoAction means that no action is needed: the field affects no node.
	NoAction Action = "None"
)

// Field is what a change of one field means for running nodes.
type Field struct {
	Class  Class
	Action Action
}

// Fields returns what every field of an AWSNodeTemplate's spec means for running nodes, by its path in the spec.
func Fields() map[string]Field {
	return map[string]Field{
		"networkInterfaces":                             {Static, Replace}, // their number: the members follow
		"networkInterfaces[].associateCarrierIPAddress": {Static, Replace},
		"networkInterfaces[].associatePublicIPAddress":  {Static, Replace},
		"networkInterfaces[].deleteOnTermination":       {Behavioral, Repair},
		"networkInterfaces[].description":               {Static, Repair},
		"networkInterfaces[].deviceIndex":               {Static, Replace},
		"networkInterfaces[].interfaceType":             {Static, Replace},
		"networkInterfaces[].networkCardIndex":          {Static, Replace},
		"networkInterfaces[].ipv4PrefixCount":           {Static, Repair},
		"networkInterfaces[].ipv6PrefixCount":           {Static, Repair},
		"networkInterfaces[].connectionTracking":        {Static, Repair},
		"networkInterfaces[].enaExpress":                {Static, Repair},
		"networkInterfaces[].subnetSelector":            {Dynamic, Replace},
		"networkInterfaces[].securityGroupSelector":     {Dynamic, Repair},
		"networkInterfaces[].name":                      {Behavioral, NoAction},
		"networkInterfaces[].management":                {Behavioral, Repair},
		"subnetSelector":                                {Dynamic, Replace},
		"securityGroupSelector":                         {Dynamic, Repair},
		"instanceProfile":                               {Static, Replace},
		"amiFamily":                                     {Static, Replace},
		"amiSelector":                                   {Dynamic, Replace},
		"architecture":                                  {Static, Replace},
		"userData":                                      {Static, Replace},
		"cluster":                                       {Static, Replace},
		"tags":                                          {Static, Replace},
		"metadataOptions":                               {Static, Replace},
		"blockDeviceMappings":                           {Static, Replace},
		"detailedMonitoring":                            {Static, Replace},
		"layout":                                        {Static, Replace},
		"instanceTypes":                                 {Behavioral, NoAction},
		"driftPolicy":                                   {Behavioral, NoAction},
		"conflictPolicy":                                {Behavioral, NoAction},
		"launchTemplateRef":                             {Dynamic, Replace},
		"autofill":                                      {Static, Replace},
		"launchTemplateOverride":                        {Static, Replace},
	}
}

// Difference is one difference between a node and its present node template.
type Difference struct {
	// Field is the path in the spec, as [Fields] has it.
	Field  string
	Class  Class
	Action Action
	// Slot is the interface, for fields of one.
	Slot       eni.Slot
	Want, Have string
}

// String describes the difference to a user.
func (d Difference) String() string {
	where := d.Field
	if rest, of := strings.CutPrefix(d.Field, "networkInterfaces[]."); of {
		where = rest + " at " + d.Slot.String()
	}
	if d.Want == "" && d.Have == "" {
		return where + " has changed"
	}
	return fmt.Sprintf("%s: want %s, have %s", where, d.Want, d.Have)
}

// Told is [Difference.String] with the class and the action.
func (d Difference) Told() string {
	doing := map[Action]string{Repair: "can be repaired in place", Replace: "needs a new node",
		NoAction: "needs nothing"}[d.Action]
	return fmt.Sprintf("%s (%s; %s)", d, d.Class, doing)
}

// Drifted reports whether any difference counts as drift: Behavioral ones do not.
func Drifted(differences []Difference) bool {
	return slices.ContainsFunc(differences, func(d Difference) bool { return d.Class != Behavioral })
}

// Wanted is the state in which an instance would be launched now.
type Wanted struct {
	Interfaces []Interface
	// Subnets are the subnets each interface may be in; a slot that is missing may be in any.
	Subnets map[eni.Slot][]string
}

// CompareInterfaces compares the interfaces of a running instance with the desired ones, by slot. Its input is all
// interfaces of the instance. An interface that was attached later never counts, and a surplus of interfaces is no
// drift.
func CompareInterfaces(want Wanted, have []eni.Interface) []Difference {
	there := map[eni.Slot]eni.Interface{}
	for _, i := range have {
		if i.Attachment != nil && counts(i) {
			there[i.Attachment.Slot] = i
		}
	}
	var all []Difference
	for _, w := range want.Interfaces {
		i, is := there[w.Slot]
		if !is {
			all = append(all, missing(w, want.Interfaces, there))
			continue
		}
		all = append(all, compareInterface(w, want.Subnets[w.Slot], i)...)
	}
	return all
}

// counts reports whether an interface can have been launched with its instance: neither made by a service or the VPC
// CNI, nor a trunk for branch interfaces.
func counts(i eni.Interface) bool {
	_, cni := i.Tags["node.k8s.amazonaws.com/instance_id"]
	return !cni && !i.RequesterManaged && i.Type != "trunk" && i.Type != "branch"
}

// missing reports a desired interface that does not exist, or that moved if an equal one is in another slot.
func missing(w Interface, wanted []Interface, there map[eni.Slot]eni.Interface) Difference {
	for _, slot := range slices.SortedFunc(maps.Keys(there), eni.CompareSlots) {
		if slices.ContainsFunc(wanted, at(slot)) || there[slot].Type != w.kind() {
			continue
		}
		switch {
		case slot.Card == w.Slot.Card:
			return differ("deviceIndex", w.Slot, strconv.Itoa(w.Slot.Device), strconv.Itoa(slot.Device))
		case slot.Device == w.Slot.Device:
			return differ("networkCardIndex", w.Slot, strconv.Itoa(w.Slot.Card), strconv.Itoa(slot.Card))
		}
	}
	f := Fields()["networkInterfaces"]
	return Difference{Field: "networkInterfaces", Class: f.Class, Action: f.Action, Slot: w.Slot,
		Want: "an interface at " + w.Slot.String(), Have: "none"}
}

func compareInterface(w Interface, subnets []string, i eni.Interface) []Difference {
	var all []Difference
	note := func(differs bool, field, want, have string) {
		if differs {
			all = append(all, differ(field, w.Slot, want, have))
		}
	}
	note(w.kind() != i.Type, "interfaceType", string(w.kind()), string(i.Type))
	note(len(subnets) > 0 && !slices.Contains(subnets, i.SubnetID),
		"subnetSelector", strings.Join(subnets, " or "), i.SubnetID)
	note(!sameSet(w.Groups, i.Groups), "securityGroupSelector", strings.Join(w.Groups, ", "), strings.Join(i.Groups, ", "))
	note(w.Description != i.Description, "description", strconv.Quote(w.Description), strconv.Quote(i.Description))
	note(w.DeleteOnTermination != i.Attachment.DeleteOnTermination, "deleteOnTermination",
		strconv.FormatBool(w.DeleteOnTermination), strconv.FormatBool(i.Attachment.DeleteOnTermination))
	note(association(w.PublicIP, i.PublicIP.IsValid()), "associatePublicIPAddress", asked(w.PublicIP),
		strconv.FormatBool(i.PublicIP.IsValid()))
	note(association(w.CarrierIP, i.CarrierIP.IsValid()), "associateCarrierIPAddress", asked(w.CarrierIP),
		strconv.FormatBool(i.CarrierIP.IsValid()))
	tracked := w.ConnectionTracking.Differing(i.ConnectionTracking, eni.ConnectionTracking{})
	note(!tracked.IsZero(), "connectionTracking", w.ConnectionTracking.String(),
		i.ConnectionTracking.SetIn(w.ConnectionTracking).String())
	express := cmp.Or(i.Attachment.ENAExpress, eni.ENAExpressNone)
	note(w.ENAExpress != "" && w.ENAExpress != express, "enaExpress", string(w.ENAExpress), string(express))
	// All interfaces of a template have the same tags. The controller tells the VPC CNI after launch which interfaces
	// it manages. It never removes an interface from the VPC CNI that the VPC CNI already uses.
	note(w.Slot != eni.Primary && !w.unmanaged() && i.Tags[identity.TagNoManage] == "true", "management", string(CNI),
		string(Unmanaged))
	if w.unmanaged() {
		// The VPC CNI adds prefixes to interfaces that are its own.
		note(w.IPv4Prefixes != len(i.IPv4Prefixes), "ipv4PrefixCount", strconv.Itoa(w.IPv4Prefixes),
			strconv.Itoa(len(i.IPv4Prefixes)))
		note(w.IPv6Prefixes != len(i.IPv6Prefixes), "ipv6PrefixCount", strconv.Itoa(w.IPv6Prefixes),
			strconv.Itoa(len(i.IPv6Prefixes)))
	} else {
		note(w.IPv4Prefixes > len(i.IPv4Prefixes), "ipv4PrefixCount", strconv.Itoa(w.IPv4Prefixes),
			strconv.Itoa(len(i.IPv4Prefixes)))
		note(w.IPv6Prefixes > len(i.IPv6Prefixes), "ipv6PrefixCount", strconv.Itoa(w.IPv6Prefixes),
			strconv.Itoa(len(i.IPv6Prefixes)))
	}
	return all
}

// AsLaunched returns the interface as EC2 returns it for an instance that was launched with it, in the subnet.
func (i Interface) AsLaunched(subnetID string) eni.Interface {
	return eni.Interface{
		Type: i.kind(), Status: eni.InUse, SubnetID: subnetID, Description: i.Description, Groups: i.Groups,
		SourceDestCheck: true, ConnectionTracking: i.ConnectionTracking,
		Addresses: eni.Addresses{
			IPv4Prefixes: make([]netip.Prefix, i.IPv4Prefixes), IPv6Prefixes: make([]netip.Prefix, i.IPv6Prefixes),
			PublicIP: given(i.PublicIP), CarrierIP: given(i.CarrierIP),
		},
		Attachment: &eni.Attachment{Slot: i.Slot, Status: eni.AttachmentAttached,
			DeleteOnTermination: i.DeleteOnTermination, ENAExpress: i.ENAExpress},
	}
}

// given returns a placeholder for the address that EC2 assigns when the template requests one.
func given(asked *bool) netip.Addr {
	if asked != nil && *asked {
		return netip.IPv4Unspecified()
	}
	return netip.Addr{}
}

func differ(field string, slot eni.Slot, want, have string) Difference {
	field = "networkInterfaces[]." + field
	f := Fields()[field]
	return Difference{Field: field, Class: f.Class, Action: f.Action, Slot: slot, Want: want, Have: have}
}

// association compares an address that the declaration requests or excludes.
func association(want *bool, have bool) bool { return want != nil && *want != have }

func asked(want *bool) string {
	if want == nil {
		return "any"
	}
	return strconv.FormatBool(*want)
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// dataFields maps members of the data to the fields of the spec that they come from. Interfaces are compared as they
// are.
var dataFields = map[string]string{
	mImageID: "amiSelector", mUserData: "userData", mProfile: "instanceProfile", mMonitoring: "detailedMonitoring",
	mMetadata: "metadataOptions", mDevices: "blockDeviceMappings", mTags: "tags",
}

// CompareData compares the data that an instance was launched with to the present data, without the interfaces. For
// members from a referenced template or an override, that is the field that differs.
func CompareData(now Document, origins map[string]Origin, then Document) []Difference {
	members := map[string]bool{}
	for _, d := range []Document{now, then} {
		for member := range d {
			members[member] = member != mInterfaces
		}
	}
	var all []Difference
	seen := map[string]bool{}
	for _, member := range slices.Sorted(maps.Keys(members)) {
		if !members[member] || equal(withoutOurs(member, now[member]), withoutOurs(member, then[member])) {
			continue
		}
		field := dataFields[member]
		switch origins[member] {
		case FromTemplate:
			field = "launchTemplateRef"
		case FromOverride:
			field = "launchTemplateOverride"
		}
		if field == "" {
			field = "launchTemplateOverride"
		}
		if f := Fields()[field]; !seen[field] {
			seen[field] = true
			all = append(all, Difference{Field: field, Class: f.Class, Action: f.Action})
		}
	}
	return all
}

// withoutOurs removes the tags that identify multieni's own resources. The hash is one of these tags, so it would
// otherwise make every two versions differ.
func withoutOurs(member string, value any) any {
	if member != mTags {
		return value
	}
	list, _ := value.([]any)
	byKind := map[string]map[string]string{}
	for _, e := range list {
		if spec, is := e.(map[string]any); is {
			tags := tagsOf(spec["Tags"])
			maps.DeleteFunc(tags, func(key, _ string) bool {
				return strings.HasPrefix(key, identity.Prefix) || key == identity.TagNoManage
			})
			byKind[text(spec["ResourceType"])] = tags
		}
	}
	return byKind
}
