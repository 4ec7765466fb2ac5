// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render decides which NetworkInterface objects one instance must have, and whether its Node is ready.
//
// [Node] takes the Nodes that name an instance, the NodeENIs with the matches of their selectors, and the objects of
// the instance ([In]). It returns the writes of objects ([Write]). [Readiness] takes the statuses of the objects as
// well. Both are pure functions. All NodeENIs of one instance are rendered together, so that two of them never take
// over the same interface. The reading tour:
//
//   - object.go: [Object] is an object as far as its NodeENI concerns it, and [Spec] what the writes say.
//   - node.go: [NodeENI.ModeOf] says what a NodeENI may do on the instance, and how its objects are removed.
//   - placement.go: [NodeENI.At] returns the declared interfaces at a location, and [NodeENI.Revision] identifies them.
//   - pair.go: which object belongs to which declared interface, and the differences that only a replacement corrects.
//   - ensure.go: the writes for the declared interfaces.
//   - networks.go: interfaces that were made before the instance joined the cluster.
//   - readiness.go: the condition of the Node and its usable interfaces.
package render
