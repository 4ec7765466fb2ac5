// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agents measures what a fleet of agents costs the API server. Only watches by name are dispatched by name, and
// each event of a watch by label costs the API server time for every watcher. So a Node names the objects of its
// instance, and the agent watches each by name. docs/performance.md has the figures, scenario g1.
//
// The kind and its writes are those of the product. The agents here make the requests of the product's agent, and have
// no node.
package agents
