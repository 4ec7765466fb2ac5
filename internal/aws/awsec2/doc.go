// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package awsec2 is the only package that imports the SDK of EC2. It converts EC2's answers to the values of package
// eni, and its errors to classes.
//
//   - [API] lists the calls, which makes it the list of IAM permissions as well.
//   - [Client] reads and writes. Its mutating methods are the port that package executor declares; each is one EC2 call
//     without retries, because only the caller can tell after a fault whether it took effect. Its reads follow pages,
//     use filters in place of ID parameters (one unknown ID would fail the call for all others), and the SDK retries
//     them.
//   - [Client.DescribeInstance] combines the reads of many callers in a few calls.
//   - [Bucket] and the pacing keep each action below the rate at which EC2 throttles it.
//   - errors.go is the only place with EC2's error codes and, for codes with several meanings, their texts.
//   - [Region] and [Load] find the region and the credentials.
package awsec2
