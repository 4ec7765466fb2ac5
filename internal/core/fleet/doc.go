// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet decides what may happen next on one of many instances: which live interface is replaced, and which
// pods are evicted before an interface is removed.
//
// [Next] names the interface to replace, from the interfaces that package render returns. The caller asks for the
// permission, because all instances of a NodeENI share its maxUnavailable, and [Rollout.Decide] adds the answer to the
// desired state. Package plan then computes the plan. It names the pods that use interfaces to be removed, and [Evict]
// selects those to evict now. All are pure functions; the permissions are in package volatile.
package fleet

// Permission is the answer to a request to replace an interface, or to evict pods, on one instance.
type Permission struct {
	Granted bool
	// Denied says why the permission is not granted; empty if nothing asked for it.
	Denied string
}
