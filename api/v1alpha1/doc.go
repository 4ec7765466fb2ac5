// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the Kubernetes API of multieni: the kinds of group networking.k8s.aws.
//
//   - [NodeENI] is intent: which nodes get which interfaces. People write it.
//   - [NodeENIState] is the truth of one node: the members it was promised and what EC2 made of them. The controller writes it.
//   - [AWSNodeTemplate] is what nodes are launched with. People write it; launch templates come of it.
//
// Defaults and validation live in the schema, as OpenAPI constraints and CEL rules, so that the API server refuses what
// cannot work with a message that names the field; there is no webhook. Every list, map and string is bounded.
//
// [ConditionReady] and its neighbours name the conditions; the reasons are constants beside them.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="../applyconfiguration"
// +groupName=networking.k8s.aws
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object:headerFile=../header.go.txt applyconfiguration:headerFile=../header.go.txt crd:headerFile=../header.yaml.txt paths=. output:crd:artifacts:config=../../config/crd
//go:generate go tool -modfile=../../tools/go.mod crd-ref-docs --source-path=. --config=../../hack/reference/config.yaml --templates-dir=../../hack/reference --renderer=markdown --output-path=../../docs/reference.md --log-level=ERROR
