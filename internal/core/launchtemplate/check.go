// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/selector"
)

// maxDescription is the maximum number of characters of an interface's description (EC2 API reference,
// CreateNetworkInterface).
const maxDescription = 255

// checkInterfaces reports what EC2 refuses in the interfaces of one instance regardless of the instance's type. The
// interfaces are in the order of their slots; a negative index, which is refused, comes before the primary one.
func (t NodeTemplate) checkInterfaces(interfaces []Interface) []Problem {
	var problems []Problem
	efaOnCard := map[int]Interface{}
	for _, i := range interfaces {
		add := func(reason Reason, field, format string, args ...any) {
			problems = append(problems, Problem{reason, t.path(i.Slot, field), fmt.Sprintf(format, args...)})
		}
		if other, taken := efaOnCard[i.Slot.Card]; taken && i.IsEFA() {
			add(SeveralEFAsOnCard, "interfaceType",
				"%s and %s are both EFA interfaces on network card %d, which takes one; move one to another card",
				other, i, i.Slot.Card)
		}
		if i.IsEFA() {
			efaOnCard[i.Slot.Card] = i
		}
		problems = append(problems, t.checkInterface(i)...)
		if i.PublicIP != nil && *i.PublicIP && len(interfaces) > 1 {
			add(PublicIPRequiresSingleInterface,
				"associatePublicIPAddress",
				"%s is to have a public IP address, which EC2 gives only to an instance with one interface, and %d are declared; "+
					"remove associatePublicIPAddress, or the other interfaces, or associate an elastic IP address "+
					"after launch", i, len(interfaces))
		}
	}
	if !slices.ContainsFunc(interfaces, at(eni.Primary)) {
		problems = append(problems, Problem{NoPrimaryInterface, t.path(eni.Primary, ""), fmt.Sprintf(
			"no interface is declared at %s, which every instance must have; add one with networkCardIndex: 0 and "+
				"deviceIndex: 0", eni.Primary)})
	}
	return problems
}

// path returns the path of a field of the interface in the slot within the node template. A field that another layer
// sets has the path that it would have there.
func (t NodeTemplate) path(slot eni.Slot, field string) string {
	switch n := slices.IndexFunc(t.Interfaces, at(slot)); {
	case n >= 0:
		return fmt.Sprintf("spec.networkInterfaces[%d].%s", n, field)
	case t.Source != nil:
		return sourcePath
	case len(t.Override) > 0:
		return "spec.launchTemplateOverride"
	default:
		return "spec.networkInterfaces"
	}
}

func (t NodeTemplate) checkInterface(i Interface) []Problem {
	problems := t.checkAssociation(i)
	add := func(reason Reason, field, format string, args ...any) {
		problems = append(problems, Problem{reason, t.path(i.Slot, field), i.String() + " " + fmt.Sprintf(format, args...)})
	}
	if i.Slot.Card < 0 {
		add(InvalidInterface, "networkCardIndex", "has a negative index; count from 0")
	}
	if i.Slot.Device < 0 {
		add(InvalidInterface, "deviceIndex", "has a negative index; count from 0")
	}
	if i.IPv4Prefixes < 0 {
		add(InvalidInterface, "ipv4PrefixCount", "has a negative number of prefixes; leave it out for none")
	}
	if i.IPv6Prefixes < 0 {
		add(InvalidInterface, "ipv6PrefixCount", "has a negative number of prefixes; leave it out for none")
	}
	if !slices.Contains([]eni.Type{"", eni.Standard, eni.EFA, eni.EFAOnly}, i.Type) {
		add(InvalidInterface, "interfaceType", "is of type %q; use interface, efa or efa-only", i.Type)
	}
	if n := len([]rune(i.Description)); n > maxDescription {
		add(InvalidInterface, "description", "has a description of %d characters; shorten it to %d", n, maxDescription)
	}
	if i.Slot == eni.Primary && i.Type == eni.EFAOnly {
		add(PrimaryNotPlain, "interfaceType",
			"is the primary one and needs an IP address, which efa-only has not; use interface or efa there, and "+
				"efa-only at another slot")
	}
	if i.Type == eni.EFAOnly && i.IPv4Prefixes+i.IPv6Prefixes > 0 {
		add(EFAOnlyHasNoAddresses, "interfaceType",
			"is efa-only, which has no IP addresses; remove its prefix counts, or use interfaceType: efa")
	}
	if len(i.Groups) > selector.MaxGroups {
		add(TooManySecurityGroups, "securityGroupSelector",
			"has %d security groups, and EC2 takes %d at most; choose fewer, or unite their rules in one",
			len(i.Groups), selector.MaxGroups)
	}
	return problems
}

// checkAssociation refuses public and carrier addresses of one interface that EC2 would refuse.
func (t NodeTemplate) checkAssociation(i Interface) []Problem {
	var problems []Problem
	public, carrier := i.PublicIP != nil && *i.PublicIP, i.CarrierIP != nil && *i.CarrierIP
	add := func(reason Reason, field, message string) {
		problems = append(problems, Problem{reason, t.path(i.Slot, field), i.String() + " " + message})
	}
	if i.Type == eni.EFAOnly && (public || carrier) {
		add(EFAOnlyHasNoAddresses, "interfaceType",
			"is efa-only, which has no IP addresses; remove its public or carrier address, or use interfaceType: efa")
	}
	if public && carrier {
		add(PublicAndCarrierIP, "associateCarrierIPAddress",
			"cannot have both a public and a carrier IP address; keep the carrier address in a Wavelength Zone, and "+
				"the public one in any other")
	}
	if carrier && i.Slot != eni.Primary {
		add(CarrierIPOnPrimaryOnly, "associateCarrierIPAddress",
			"is not the primary one, and EC2 associates a carrier IP address only with that; say it there, or "+
				"associate one after launch")
	}
	return problems
}

// forbidden are the members that no layer of a user may set, each with the reason.
var forbidden = map[string]string{
	mType:         "the node template chooses instance types: use spec.instanceTypes",
	mRequirements: "the node template chooses instance types: use spec.instanceTypes",
	mGroupNames:   "groups by name are for the default VPC; use SecurityGroupIds, or spec.securityGroupSelector",
}

// forbiddenOfInterface are the members of an interface that would collide at the second instance.
var forbiddenOfInterface = []string{
	"NetworkInterfaceId", "PrivateIpAddress", "PrivateIpAddresses", "Ipv6Addresses", "Ipv4Prefixes", "Ipv6Prefixes",
}

// checkLayer refuses members that a source or an override may not set.
func checkLayer(d Document, path string) []Problem {
	var problems []Problem
	add := func(member, why string) {
		problems = append(problems, Problem{ForbiddenMember, path + "." + member, why})
	}
	for _, member := range slices.Sorted(maps.Keys(forbidden)) {
		if _, present := d[member]; present {
			add(member, forbidden[member])
		}
	}
	return append(problems, checkElements(d, path, tagOwners)...)
}

// checkElements refuses interfaces that collide within a layer or at the second instance, and tags whose keys belong to
// one of the owners.
func checkElements(d Document, path string, owners map[string]string) []Problem {
	var problems []Problem
	seen := map[eni.Slot]bool{}
	for n, i := range d.objects(mInterfaces) {
		if seen[slotOf(i)] {
			problems = append(problems, twice(fmt.Sprintf("%s.%s[%d]", path, mInterfaces, n), slotOf(i)))
		}
		seen[slotOf(i)] = true
		for _, member := range forbiddenOfInterface {
			if value, present := i[member]; present && !empty(value) {
				problems = append(problems, Problem{ForbiddenMember, fmt.Sprintf("%s.%s[%d].%s", path, mInterfaces, n, member),
					"a template is for many instances, and only the first could have it; use a count, or let EC2 choose"})
			}
		}
	}
	for n, spec := range d.objects(mTags) {
		problems = append(problems, checkTags(tagsOf(spec["Tags"]), fmt.Sprintf("%s.%s[%d].Tags", path, mTags, n), owners)...)
	}
	return problems
}

// twice refuses a slot that one layer names twice: one of the interfaces would be lost.
func twice(path string, slot eni.Slot) Problem {
	return Problem{DuplicateSlot, path, fmt.Sprintf(
		"%s is declared twice; give each interface a networkCardIndex and deviceIndex of its own", slot)}
}

func checkSlots(interfaces []Interface) []Problem {
	var problems []Problem
	seen := map[eni.Slot]bool{}
	for n, i := range interfaces {
		if seen[i.Slot] {
			problems = append(problems, twice(fmt.Sprintf("spec.networkInterfaces[%d]", n), i.Slot))
		}
		seen[i.Slot] = true
	}
	return problems
}

func empty(value any) bool {
	list, isList := value.([]any)
	return value == nil || isList && len(list) == 0 || value == ""
}

// The maximum number of characters of a tag's key and value (EC2 user guide, "Tag restrictions").
const maxTagKey, maxTagValue = 128, 256

// tagOwners are the reserved prefixes of tag keys, each with its owner.
var tagOwners = map[string]string{
	"aws:": "AWS", identity.Prefix: "multieni, which recognises its own by them",
	"node.k8s.amazonaws.com/":    "the VPC CNI",
	"cluster.k8s.amazonaws.com/": "the VPC CNI, which would take the interface for its own and delete it",
}

// CheckTags reports tags that EC2 refuses, and tags whose keys are reserved for AWS, Kubernetes or multieni.
func CheckTags(tags map[string]string, path string) []Problem {
	return checkTags(tags, path, tagOwners)
}

func checkTags(tags map[string]string, path string, owners map[string]string) []Problem {
	var problems []Problem
	add := func(key, format string, args ...any) {
		problems = append(problems, Problem{InvalidTags, path, fmt.Sprintf("tag %q: ", key) + fmt.Sprintf(format, args...)})
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if n := len([]rune(key)); n < 1 || n > maxTagKey {
			add(key, "the key has %d characters; choose one of 1 to %d", n, maxTagKey)
		}
		if n := len([]rune(tags[key])); n > maxTagValue {
			add(key, "the value has %d characters; shorten it to %d", n, maxTagValue)
		}
		for _, prefix := range slices.Sorted(maps.Keys(owners)) {
			if strings.HasPrefix(strings.ToLower(key), prefix) {
				add(key, "keys beginning with %s belong to %s; choose another key", prefix, owners[prefix])
			}
		}
	}
	return problems
}

// check refuses options of instance metadata that EC2 does not have (EC2 API reference,
// LaunchTemplateInstanceMetadataOptionsRequest).
func (m *MetadataOptions) check() []Problem {
	if m == nil {
		return nil
	}
	const path, maxHops = "spec.metadataOptions.", 64
	var problems []Problem
	for _, word := range []struct {
		field, value string
		known        []string
	}{
		{"httpEndpoint", m.HTTPEndpoint, []string{"enabled", "disabled"}},
		{"httpTokens", m.HTTPTokens, []string{"required", "optional"}},
		{"httpProtocolIPv6", m.HTTPProtocolIPv6, []string{"enabled", "disabled"}},
	} {
		if word.value != "" && !slices.Contains(word.known, word.value) {
			problems = append(problems, Problem{InvalidMetadataOptions, path + word.field,
				fmt.Sprintf("EC2 does not know %q; use %s", word.value, strings.Join(word.known, " or "))})
		}
	}
	if m.HopLimit < 0 || m.HopLimit > maxHops {
		problems = append(problems, Problem{InvalidMetadataOptions, path + "httpPutResponseHopLimit",
			fmt.Sprintf("a hop limit of %d is out of range; use 1 to %d", m.HopLimit, maxHops)})
	}
	return problems
}

// interfacesOf reads the interfaces of merged data and returns them in the order of their slots. It reports members
// that EC2 refuses together with those of [Interface].
func interfacesOf(d Document, declared []Interface) ([]Interface, []Problem) {
	var interfaces []Interface
	var problems []Problem
	for n, e := range d.objects(mInterfaces) {
		i := Interface{
			Slot: slotOf(e), Type: eni.Type(text(e["InterfaceType"])), Description: text(e["Description"]),
			PublicIP: boolean(e[mPublicIP]), CarrierIP: boolean(e["AssociateCarrierIpAddress"]),
			IPv4Prefixes: number(e["Ipv4PrefixCount"]), IPv6Prefixes: number(e["Ipv6PrefixCount"]),
			Groups: textList(e["Groups"]), DeleteOnTermination: true, Management: Unmanaged,
			ConnectionTracking: tracking(e[mTracking]), ENAExpress: express(e[mExpress]),
		}
		if own := boolean(e["DeleteOnTermination"]); own != nil {
			i.DeleteOnTermination = *own
		}
		if at := slices.IndexFunc(declared, at(i.Slot)); at >= 0 {
			i.Name, i.Management = declared[at].Name, declared[at].Management
		}
		if i.IPv4Prefixes > 0 && number(e["SecondaryPrivateIpAddressCount"]) > 0 ||
			i.IPv6Prefixes > 0 && number(e["Ipv6AddressCount"]) > 0 && boolean(e["PrimaryIpv6"]) == nil {
			problems = append(problems, Problem{AddressFormsExclude, fmt.Sprintf("%s[%d]", mInterfaces, n),
				fmt.Sprintf("%s has a count of addresses from one layer and a count of prefixes from another, and "+
					"EC2 takes one of them per family; remove one, or set it to null in the override", i)})
		}
		interfaces = append(interfaces, i)
	}
	return bySlot(interfaces), problems
}
