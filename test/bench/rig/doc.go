// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rig runs scenarios on real servers: a kube-apiserver with its etcd, the simulated EC2 over HTTP, and any
// controller as a process. It measures everything from outside: by the calls to EC2 and its state, by the audit log of
// the API server, and by the system's data about the process.
//
// The files: rig.go starts the servers, fleet.go has the nodes and their programs, controller.go the process, audit.go
// its writes, clock.go the speed of EC2, and scenarios.go the scenarios.
package rig
