// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package awsec2 is the way to EC2, and the only package that imports its SDK: it turns EC2's answers into the values of
// package eni, and its errors into classes.
//
//   - [API] lists the calls that are made, which makes it the list of IAM permissions as well.
//   - [Client] reads and writes. Its mutating methods are the port that package apply declares; each is one EC2 call, made
//     once, since only who knows what was intended can tell after a fault whether it happened. Its reads page, use filters
//     in place of ID parameters (one unknown ID would fail the call for all the others), and are tried again by the SDK.
//   - [Client.Look] gathers the questions of many callers into a few calls.
//   - [Bucket] and the pacing keep each action below the rate at which EC2 throttles it.
//   - errors.go is the one place that knows EC2's error codes and, where a code has several meanings, its texts.
//   - [Region] and [Load] find out where to work and with which credentials.
package awsec2
