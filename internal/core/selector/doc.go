// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selector turns the subnet and security group fields of a NodeENI into the subnets and groups of one node.
//
// It works in two steps, so that a NodeENI needs one read of EC2 and not one for each of its nodes. [MatchSubnets] and
// [MatchGroups] match the terms with all subnets and groups of EC2, in all zones and VPCs. [SubnetMatch.ForZone] and
// [GroupMatch.ForVPC] then return the result for one location: the interfaces that a node in a zone gets, and which
// candidates were skipped there and why. A term that cannot be resolved results in a [plan.Problem] and not in an
// error: an unknown subnet is a fault of the declaration, and a condition reports it.
package selector
