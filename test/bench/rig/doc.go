// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rig runs scenarios on real servers: a kube-apiserver with its etcd, the simulated EC2 over HTTP, and a
// controller as a process, any controller. Everything is judged from outside: by what EC2 was asked and holds, by the
// audit log of the API server, and by what the system says of the process.
//
// The reading tour: rig.go puts the servers up, fleet.go the nodes and those who live on them, controller.go the
// process, audit.go what it wrote, clock.go how fast EC2 lives, and scenarios.go what is done with it all.
package rig
