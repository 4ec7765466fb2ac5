// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package launchtemplate turns a declared node template into EC2 launch templates, and says what became of it on the nodes.
//
// Interfaces born with an instance cost no API call, are deleted with it, can be EFA, and exist before the kubelet. What
// EC2 needs for that is a launch template; what people want to write is a node template. Read the package in the order in
// which [Render] works:
//
//   - [NodeTemplate] is what was declared, with its selectors resolved to subnets and security groups.
//   - [Layout] adds the EFA interfaces of an instance type.
//   - [Document] is launch template data under EC2's own names. The layers of a template (defaults, inline fields, a
//     referenced launch template, an override) are merged as documents.
//   - [NodeTemplate.Check] and its neighbours refuse what EC2 would refuse, in words that say what to do.
//   - Instance types are held against the interfaces ([TypeVerdict]), zones against the subnets ([ZoneVerdict]).
//   - [Rendering] is what comes out: one template per shape and, where interfaces have subnets of their own, per zone.
//
// [Compare] holds the interfaces of a running instance against what was declared; [Fields] says for every field of a node
// template what a change of it means for the nodes that run.
//
// The package is pure: it is given facts, and returns values.
package launchtemplate
