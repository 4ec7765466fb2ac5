// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario defines the measurements: the scenarios, EC2's limit in each, our targets, and the verdict on a
// measurement. It turns values into values; packages virtual and rig measure.
//
// The files: limit.go computes with EC2's token buckets, figure.go has a measurement and its verdict, scenario.go,
// virtual.go and live.go the scenarios.
package scenario
