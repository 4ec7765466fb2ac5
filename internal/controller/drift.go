// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

// DriftClass says what happens to existing interfaces when a field of a NodeENI's spec changes.
type DriftClass string

const (
	// Membership fields decide which interfaces are desired. The controller removes undesired interfaces and creates new
	// ones.
	Membership DriftClass = "membership"
	// InPlace fields are changed on existing interfaces.
	InPlace DriftClass = "in place"
	// Replace fields cannot be changed on existing interfaces. The interfaces drift, and are replaced only with
	// updatePolicy: Replace.
	Replace DriftClass = "replace"
	// Behavior fields control how the controller works; interfaces do not change.
	Behavior DriftClass = "behavior"
)

// DriftClasses returns the class of every field of a NodeENI's spec by its JSON name. Several subnet and group fields
// are alternatives: what counts is which subnets and groups they resolve to.
func DriftClasses() map[string]DriftClass {
	return map[string]DriftClass{
		"nodeSelector": Membership,

		// Removing a subnet removes its interface, and adding one adds an interface. Changing one for another is a
		// replacement.
		"subnetID":       Replace,
		"subnetName":     Replace,
		"subnetIDs":      Membership,
		"subnetNames":    Membership,
		"subnetSelector": Replace,

		"securityGroupIDs":      InPlace,
		"securityGroupNames":    InPlace,
		"securityGroupSelector": InPlace,

		"deviceIndex":      Replace,
		"networkCardIndex": Replace,
		"interfaceType":    Replace,

		"description":                    InPlace,
		"tags":                           InPlace,
		"sourceDestCheck":                InPlace,
		"connectionTracking":             InPlace,
		"enaExpress":                     InPlace,
		"deleteOnTermination":            InPlace,
		"secondaryPrivateIPAddressCount": InPlace,
		"ipv4PrefixCount":                InPlace,
		"ipv6AddressCount":               InPlace,
		"ipv6PrefixCount":                InPlace,
		"pods":                           InPlace,
		"mtu":                            InPlace,
		"addressMode":                    InPlace,
		"sysctls":                        InPlace,
		"enableDPDK":                     InPlace,
		"dpdkDriver":                     InPlace,
		"dpdkResourceName":               InPlace,

		"dpdkPCIAddress": Behavior,

		"deviceIndexPolicy": Behavior,
		"ipv4Allocation":    Behavior,
		"updatePolicy":      Behavior,
		"maxUnavailable":    Behavior,
		"required":          Behavior,
	}
}
