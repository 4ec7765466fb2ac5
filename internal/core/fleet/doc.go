// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet decides about the objects of one NodeENI on all of its nodes.
//
// [Compute] says which objects are deleted now: those of a NodeENI that is being deleted or that does not exist, and
// the live ones that a rollout replaces. It also says whose pods are evicted, and counts the interfaces. It gives each
// live interface that goes a [Turn], which the NodeENI records; so maxUnavailable needs no memory, and a restart
// changes nothing. [MayRemove] says whether an object that is being deleted may lose its interface now.
package fleet
