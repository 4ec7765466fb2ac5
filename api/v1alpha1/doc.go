// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the Kubernetes API of multieni: the kinds of group networking.k8s.aws.
//
//   - [NodeENI] is desired state: which nodes get which interfaces. Users write it.
//   - [NetworkInterface] is one interface of one node, with at most one ENI. The controller writes it, and the agent of
//     the node a part of its status. Users read it; deleting it replaces the interface.
//   - [AWSNodeTemplate] is desired state: how nodes are launched. Users write it; the controller publishes launch
//     templates.
//   - [SubnetReservation] is desired state: which part of a subnet is reserved. Users write it; the controller
//     creates EC2's reservations.
//
// Defaults and validation are in the schema, as OpenAPI constraints and CEL rules, so that the API server refuses an
// invalid object with a message that names the field; there is no webhook. Every list, map and string is bounded.
//
// [ConditionReady] and the constants after it name the conditions and their reasons.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="../applyconfiguration"
// +groupName=networking.k8s.aws
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object:headerFile=../header.go.txt applyconfiguration:headerFile=../header.go.txt crd:headerFile=../header.yaml.txt paths=. output:crd:artifacts:config=../../config/crd
//go:generate go tool -modfile=../../tools/go.mod crd-ref-docs --source-path=. --config=../../hack/reference/config.yaml --templates-dir=../../hack/reference --renderer=markdown --output-path=../../docs/reference.md --log-level=ERROR
