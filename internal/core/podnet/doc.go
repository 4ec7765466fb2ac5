// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnet manages what the pods and programs of a node use of an interface. It decides which address a pod gets,
// when an address is free again, how many prefixes the pods need, and what the agent of the node does next with the
// interface: see [Facts.Next].
//
// The state is in files of two kinds, in a folder for each interface of each network: RUN/NETWORK/ENI. The agent writes
// one [Network] per folder, and the CNI program multieni-ipam one [Lease] per address. All folders of a network have
// one lock. Both programs hold it while they read leases and act on them, and multieni-ipam reads the network after it
// has the lock.
package podnet
