// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs everything that multieni depends on, on one machine and with only the loopback interface: a
// Kubernetes API server, the simulated AWS, and a Node for each of its instances.
//
// The commands of multieni-dev and the tests share it. [Start] returns a [Cluster]; its kubeconfig and environment work
// for any program, so the controller under test is the ordinary one. In reading order:
//
//   - cluster.go: start, options and stop
//   - controlplane.go: kube-apiserver and etcd through controller-runtime's envtest
//   - simulator.go: package awssim on a port, and its instances for package nodekeeper
//   - networks.go: networks of nodes and pods by package nodenet
//   - files.go: kubeconfig and env, for a user's shell
package cluster
