// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet decides about the objects of one NodeENI on all of its nodes.
//
// [Compute] says which objects are deleted now: those of a NodeENI that is being deleted or that does not exist, and
// the live ones that a rollout replaces. It also says whose pods are evicted, and counts the interfaces. [Turns] says
// which objects that users delete may lose their interfaces now. A node is unavailable if an object of it is missing,
// not ready or being deleted; so maxUnavailable needs no memory, and a restart changes nothing.
package fleet
