// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package programs holds no code, only a test: programs that others wrote run against the simulated AWS with its
// defaults.
//
// boto3 makes the calls of the functions that AWS published for Multus, and compares every answer with the shapes that
// AWS publishes; AWS's command line creates and waits, and does what published user data does. Where a program is not
// installed its test skips and says so. `make test` runs them twenty times as fast as AWS, and `make test-long` also as
// fast.
//
// `make test-long` alone runs what is built or installed for minutes first: AWS's VPC resource controller and VPC CNI,
// from the module in vpc, and a program with AWS's SDK for JavaScript, whose packages npm installs into the user's
// cache.
package programs
