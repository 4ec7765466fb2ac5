// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package launchtemplate turns a declared node template into EC2 launch templates, and compares running nodes with the
// declaration.
//
// Interfaces that EC2 creates together with an instance cost no API call, are deleted with it, can be EFA, and exist
// before the kubelet starts. EC2 needs a launch template for that; users declare a node template. Read the package in
// the order in which [Render] works:
//
//   - [NodeTemplate] is the declaration, with its selectors resolved to subnets and security groups.
//   - [Layout] adds the EFA interfaces of an instance type.
//   - [Document] is launch template data under EC2's own names. The layers of a template (defaults, inline fields, a
//     referenced launch template, an override) are merged as documents.
//   - The checks ([CheckTags] and others) refuse what EC2 would refuse, with messages that name the next step.
//   - The interfaces are checked against the limits of instance types ([TypeVerdict]), and their subnets against the
//     zones ([ZoneVerdict]).
//   - [Rendering] is the result: one template per shape and, where interfaces have subnets of their own, per zone.
//
// [CompareInterfaces] compares the interfaces of a running instance with the declaration; [Fields] returns for every
// field of a node template what its change means for running nodes.
//
// The package is pure: its functions take and return values.
package launchtemplate
