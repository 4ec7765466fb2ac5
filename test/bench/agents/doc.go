// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agents measures what a fleet of agents costs the API server if each interface has an object. It is the
// prototype of agents that watch their objects by name: only watches by name are dispatched by name, and each event of
// a watch by label costs the API server time for every watcher. An agent finds the names in an annotation of its Node,
// which the controller writes together with the Node's condition: a LIST by label would cost the API server time for
// every object of the fleet. docs/performance.md has the figures, scenario g1.
//
// The kind, its controller and its agents exist only here.
package agents
