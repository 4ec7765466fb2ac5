// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble is a Kubernetes cluster in an EC2 account, all of it within a testing/synctest bubble: the whole
// controller, as many replicas of it as wanted, against package kubeapi and awssim. The stories of test/synctest and the
// virtual half of test/bench are told with it.
//
// The reading tour: cluster.go is the world and the people in it, replica.go a controller with all that it says to EC2,
// link.go what lies between a controller and the world, wanted.go the comparison of EC2's truth with what was declared,
// people.go what people do.
package bubble
