// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package programs has only tests: programs that others wrote run against the simulated AWS with its defaults.
//
// boto3 makes the calls of the functions that AWS published for Multus, and compares every answer with the shapes that
// AWS publishes; AWS's command line creates and waits, and does what published user data does. If a program is not
// installed, its test is skipped and says so. `make test` runs them at twenty times the speed of AWS, and `make
// test-long` also at its speed.
//
// Only `make test-long` runs the programs that take minutes to build or install: AWS's VPC resource controller and VPC
// CNI, from the module in vpc, a program with AWS's SDK for JavaScript, whose packages npm installs into the user's
// cache, and Terraform with a network. `make test-all` runs Karpenter's scheduling, from the module in karpenter, on an
// API server, and checks the examples for eksctl and Terraform; `make test` compares the names of the latter with those
// of AWS's provider, by a program of the module in provisioning. The module in gitops is for a story of test/scenario.
package programs
