// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcni is the CNI program on the node, under two names. Both work while the agent, the API server and EC2 are
// unavailable.
//
// multieni-ipam gives the link of a pod its addresses. It reads the file of the network, which the agent writes, and
// keeps the leases. multieni-routes is chained after the plugin that creates the link: it adds a rule and a route table
// for each address, and rules for those that the pod may bring up later. Package podnet computes both.
package podcni
