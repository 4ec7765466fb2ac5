// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs all that multieni needs around it, on one machine and
// with nothing but loopback: a Kubernetes API server, the simulated AWS, and a
// Node for each of its instances.
//
// The commands of multieni-dev and the tests share it. [Start] gives a
// [Cluster]; its kubeconfig and environment work for any program, so the
// controller under test is the ordinary one. In reading order:
//
//   - cluster.go: what starts, what is left to a caller, what stops
//   - controlplane.go: kube-apiserver and etcd through controller-runtime's envtest
//   - simulator.go: package awssim on a port, and its instances as package nodekeeper sees them
//   - networks.go: networks of nodes and pods by package nodenet
//   - files.go: kubeconfig and env, for a person's shell
package cluster
