// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selector turns the subnet and security group fields of a NodeENI into the subnets and groups of one node.
//
// It works in two steps, so that EC2 is asked once for a NodeENI and not once for each of its nodes. [MatchSubnets] and
// [MatchGroups] hold the terms against what EC2 knows, over all zones and VPCs. [SubnetMatch.Place] and
// [GroupMatch.ForVPC] then say what that means at one place: the interfaces a node of a zone gets, and which candidates
// were passed over there and why. What cannot be resolved comes out as a [plan.Problem], never as an error: an unknown
// subnet is a fact about the declaration and ends up in a condition.
package selector
