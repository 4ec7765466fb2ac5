// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/selection"
)

// maxDescription is the most characters of an interface's description (EC2 API reference, CreateNetworkInterface).
const maxDescription = 255

// checkInterfaces refuses what EC2 would refuse of the interfaces of one instance, whatever its type. They are in the order
// of their slots.
func checkInterfaces(interfaces []Interface) []Problem {
	var problems []Problem
	add := func(reason Reason, format string, args ...any) {
		problems = append(problems, Problem{reason, "spec.networkInterfaces", fmt.Sprintf(format, args...)})
	}
	efaOnCard := map[int]Interface{}
	for _, i := range interfaces {
		if other, taken := efaOnCard[i.Slot.Card]; taken && i.IsEFA() {
			add(SeveralEFAsOnCard, "%s and %s are both EFA interfaces on network card %d, which takes one; move one to another card", other, i, i.Slot.Card)
		}
		if i.IsEFA() {
			efaOnCard[i.Slot.Card] = i
		}
		problems = append(problems, checkInterface(i)...)
		if i.PublicIP != nil && *i.PublicIP && len(interfaces) > 1 {
			add(PublicIPRequiresSingleInterface, "%s is to have a public IP address, which EC2 gives only to an instance with one interface, and %d are declared; "+
				"remove associatePublicIPAddress, or the other interfaces, or associate an elastic IP address after launch", i, len(interfaces))
		}
	}
	if len(interfaces) == 0 || interfaces[0].Slot != eni.Primary {
		add(NoPrimaryInterface, "no interface is declared at %s, which every instance must have; add one with networkCardIndex: 0 and deviceIndex: 0", eni.Primary)
	}
	return problems
}

func checkInterface(i Interface) []Problem {
	var problems []Problem
	add := func(reason Reason, format string, args ...any) {
		problems = append(problems, Problem{reason, "spec.networkInterfaces", i.String() + " " + fmt.Sprintf(format, args...)})
	}
	if i.Slot.Card < 0 || i.Slot.Device < 0 {
		add(InvalidInterface, "has a negative index; both count from 0")
	}
	if i.IPv4Prefixes < 0 || i.IPv6Prefixes < 0 {
		add(InvalidInterface, "has a negative prefix count")
	}
	if !slices.Contains([]eni.Type{"", eni.Standard, eni.EFA, eni.EFAOnly}, i.Type) {
		add(InvalidInterface, "is of type %q; interfaceType must be interface, efa or efa-only", i.Type)
	}
	if len([]rune(i.Description)) > maxDescription {
		add(InvalidInterface, "has a description of more than %d characters", maxDescription)
	}
	if i.Slot == eni.Primary && i.Type == eni.EFAOnly {
		add(PrimaryNotPlain, "is the primary one and needs an IP address, which efa-only has not; use interface or efa there, and efa-only at another slot")
	}
	public, carrier := i.PublicIP != nil && *i.PublicIP, i.CarrierIP != nil && *i.CarrierIP
	if i.Type == eni.EFAOnly && (i.IPv4Prefixes+i.IPv6Prefixes > 0 || public || carrier) {
		add(EFAOnlyHasNoAddresses, "is efa-only, which has no IP addresses; remove its prefix counts and public or carrier address, or use interfaceType: efa")
	}
	if public && carrier {
		add(PublicAndCarrierIP, "cannot have both a public and a carrier IP address; a subnet in a Wavelength Zone gives carrier addresses, any other public ones")
	}
	if carrier && i.Slot != eni.Primary {
		add(CarrierIPOnPrimaryOnly, "is not the primary one, and EC2 associates a carrier IP address only with that")
	}
	if len(i.Groups) > selection.MaxGroups {
		add(TooManySecurityGroups, "has %d security groups, and EC2 takes %d at most", len(i.Groups), selection.MaxGroups)
	}
	return problems
}

// forbidden are the members that no layer of a user may set, with why.
var forbidden = map[string]string{
	mType:         "the node template chooses instance types: use spec.instanceTypes",
	mRequirements: "the node template chooses instance types: use spec.instanceTypes",
	mGroupNames:   "groups by name are for the default VPC; use SecurityGroupIds, or spec.securityGroupSelector",
}

// forbiddenOfInterface are the members of an interface that would collide with the second instance.
var forbiddenOfInterface = []string{
	"NetworkInterfaceId", "PrivateIpAddress", "PrivateIpAddresses", "Ipv6Addresses", "Ipv4Prefixes", "Ipv6Prefixes",
}

// checkLayer refuses what a source or an override may not say.
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
	seen := map[eni.Slot]bool{}
	for n, i := range d.objects(mInterfaces) {
		if seen[slotOf(i)] {
			problems = append(problems, twice(fmt.Sprintf("%s.%s[%d]", path, mInterfaces, n), slotOf(i)))
		}
		seen[slotOf(i)] = true
		for _, member := range forbiddenOfInterface {
			if value, present := i[member]; present && !empty(value) {
				add(fmt.Sprintf("%s[%d].%s", mInterfaces, n, member), "a template is for many instances, and only the first could have it; use a count, or let EC2 choose")
			}
		}
	}
	for n, spec := range d.objects(mTags) {
		problems = append(problems, CheckTags(tagsOf(spec["Tags"]), fmt.Sprintf("%s.%s[%d].Tags", path, mTags, n))...)
	}
	return problems
}

// twice refuses a slot that one layer names twice: one of the interfaces would be lost.
func twice(path string, slot eni.Slot) Problem {
	return Problem{DuplicateSlot, path, fmt.Sprintf("%s is declared twice; give each interface a networkCardIndex and deviceIndex of its own", slot)}
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

// CheckTags refuses tags whose keys belong to somebody else.
func CheckTags(tags map[string]string, path string) []Problem {
	owners := map[string]string{
		"aws:": "AWS", "AWS:": "AWS", ownership.Prefix: "multieni, which recognises its own by them",
		"node.k8s.amazonaws.com/": "the VPC CNI", "cluster.k8s.amazonaws.com/": "the VPC CNI, which would take the interface for its own and delete it",
	}
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		for _, prefix := range slices.Sorted(maps.Keys(owners)) {
			if strings.HasPrefix(key, prefix) {
				problems = append(problems, Problem{InvalidTags, path, fmt.Sprintf("tag %q: keys beginning with %s belong to %s; choose another key", key, prefix, owners[prefix])})
			}
		}
	}
	return problems
}

// interfacesOf reads the interfaces of merged data, in the order of their slots. What EC2 excludes of the members beside
// those of [Interface] is refused here.
func interfacesOf(d Document, declared []Interface) ([]Interface, []Problem) {
	var interfaces []Interface
	var problems []Problem
	for n, e := range d.objects(mInterfaces) {
		i := Interface{
			Slot: slotOf(e), Type: eni.Type(text(e["InterfaceType"])), Description: text(e["Description"]),
			PublicIP: boolean(e["AssociatePublicIpAddress"]), CarrierIP: boolean(e["AssociateCarrierIpAddress"]),
			IPv4Prefixes: number(e["Ipv4PrefixCount"]), IPv6Prefixes: number(e["Ipv6PrefixCount"]),
			Groups: textList(e["Groups"]), DeleteOnTermination: true, Management: Unmanaged,
		}
		if own := boolean(e["DeleteOnTermination"]); own != nil {
			i.DeleteOnTermination = *own
		}
		if at := slices.IndexFunc(declared, at(i.Slot)); at >= 0 {
			i.Name, i.Management = declared[at].Name, declared[at].Management
		}
		if i.IPv4Prefixes > 0 && number(e["SecondaryPrivateIpAddressCount"]) > 0 || i.IPv6Prefixes > 0 && number(e["Ipv6AddressCount"]) > 0 && boolean(e["PrimaryIpv6"]) == nil {
			problems = append(problems, Problem{AddressFormsExclude, fmt.Sprintf("%s[%d]", mInterfaces, n),
				fmt.Sprintf("%s has a count of addresses from one layer and a count of prefixes from another, and EC2 takes one of them per family; remove one, or set it to null in the override", i)})
		}
		interfaces = append(interfaces, i)
	}
	return bySlot(interfaces), problems
}
