// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lib manages network interfaces (ENIs) from Go programs that do not use the Kubernetes controller.
//
// An [ENIManager] creates, attaches, detaches, deletes and finds interfaces in one region. Its calls stay within EC2's
// request limits, and are idempotent where EC2 allows it. Calls that only begin an operation, such as attaching, return
// at once; [ENIManager.WaitForENI] waits for the end.
//
// The API is stable: what is exported here keeps compiling, and api.txt lists it.
package lib
