// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// warn adds warnings for what is legal but rarely intended. The path is that of the field that declares the interfaces.
func (r *Rendering) warn(path string, interfaces []Interface) {
	for _, i := range interfaces {
		if !i.DeleteOnTermination {
			r.Warnings = append(r.Warnings, Problem{InvalidInterface, path, fmt.Sprintf(
				"%s outlives its instance (deleteOnTermination: false), and multieni does not remove it then: every "+
					"node that ends leaves one behind", i)})
		}
	}
}

// warnOfEFAGroups warns of EFAs whose security groups do not let their traffic through.
func (r *Rendering) warnOfEFAGroups(path string, interfaces []Interface, known []eni.SecurityGroup) {
	for _, i := range interfaces {
		if lacking := lackingEFARules(i.Groups, known); i.IsEFA() && len(lacking) > 0 {
			r.Warnings = append(r.Warnings, Problem{InvalidInterface, path, fmt.Sprintf(
				"EFAs with %s exchange no traffic: add %s for all traffic that names a group of the interface, and no addresses",
				strings.Join(i.Groups, ", "), strings.Join(lacking, " and "))})
		}
	}
}

// lackingEFARules returns the rules that EFAs with the security groups lack: one for all traffic in each direction that
// names one of the groups. A rule that names addresses does not let EFA traffic through (EC2 user guide, "Get started
// with EFA and MPI for HPC workloads on Amazon EC2"). Groups whose rules are not known lack none.
func lackingEFARules(groups []string, known []eni.SecurityGroup) (lacking []string) {
	names := func(rules []string) bool {
		return slices.ContainsFunc(rules, func(id string) bool { return slices.Contains(groups, id) })
	}
	inbound, outbound := len(groups) == 0, len(groups) == 0
	for _, id := range groups {
		at := slices.IndexFunc(known, func(g eni.SecurityGroup) bool { return g.ID == id })
		if at < 0 {
			return nil
		}
		inbound, outbound = inbound || names(known[at].AllFrom), outbound || names(known[at].AllTo)
	}
	if !inbound {
		lacking = append(lacking, "an inbound rule")
	}
	if !outbound {
		lacking = append(lacking, "an outbound rule")
	}
	return lacking
}

// warnOfPublicSubnets warns of subnets that give public addresses to instances with one interface only (EC2 user guide,
// "EC2 instance IP addressing").
func (r *Rendering) warnOfPublicSubnets(path string, places []zonePlacement) {
	at := slices.IndexFunc(places, func(p zonePlacement) bool { return p.Slot == eni.Primary })
	if len(places) < 2 || at < 0 {
		return
	}
	var public []string
	for _, s := range places[at].candidates {
		if s.MapPublicIP {
			public = append(public, s.ID)
		}
	}
	if len(public) == 0 {
		return
	}
	const most = 3
	slices.Sort(public)
	if more := len(public) - most; more > 0 {
		public = append(public[:most], fmt.Sprintf("%d more", more))
	}
	r.Warnings = append(r.Warnings, Problem{PublicIPRequiresSingleInterface, path, fmt.Sprintf(
		"nodes in %s get no public IP address: the subnet maps one at launch (MapPublicIpOnLaunch), which EC2 gives only to "+
			"an instance with one interface, and %d are declared; choose a subnet with a NAT gateway, let a NodeENI attach "+
			"the other interfaces, or associate an elastic IP address after launch; associatePublicIPAddress: false says "+
			"that no public address is wanted", strings.Join(public, ", "), len(places))})
}

// warnOfDefaultGroup warns of interfaces without a security group.
func (r *Rendering) warnOfDefaultGroup(d Document, interfaces []Interface) {
	if !empty(d[mGroupIDs]) || !empty(d[mGroupNames]) {
		return
	}
	for _, i := range interfaces {
		if len(i.Groups) == 0 {
			r.Warnings = append(r.Warnings, Problem{NoSecurityGroups, sourcePath, fmt.Sprintf(
				"%s has no security group, and EC2 gives it the default one of the VPC; name one in the launch template", i)})
		}
	}
}
