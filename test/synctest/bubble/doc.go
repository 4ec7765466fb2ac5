// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble is a Kubernetes cluster in an EC2 account within a testing/synctest bubble: the whole controller, with
// any number of replicas, against packages kubeapi and awssim. The stories of test/synctest and the virtual half of
// test/bench use it.
//
// The files: cluster.go is the world and its users, replica.go a controller with all its requests to EC2, link.go the
// connection between a controller and the world, wanted.go the comparison of EC2's state with the declarations,
// people.go the actions of users.
package bubble
