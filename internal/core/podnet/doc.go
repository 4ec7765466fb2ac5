// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnet manages the addresses of pods on an interface. It decides which address a pod gets, when an address is
// free again, how much of each prefix is in use, and when a prefix may return to EC2.
//
// The state is in files of two kinds. The agent writes one [Network] per interface, and the CNI program multieni-ipam
// one [Lease] per address. Both programs hold one lock while they read leases and act on them.
//
// A prefix returns to EC2 in three steps. [Network.Drain] marks an idle prefix as draining, and the agent writes the
// mark. From then on [Network.Allocate] takes no address of it. [Network.Drained] finds that no address of it is in use
// or at rest, and the agent reports the prefix. Only then does the controller unassign it. A mark is final: an agent
// that loses its file must mark every prefix again that it reported as drained.
package podnet
