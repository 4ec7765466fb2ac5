// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario says what is measured: the scenarios, how fast EC2 lets anyone be in each, what we hold ourselves
// to, and whether a measurement does. It is values in, values out; packages virtual and rig do the measuring.
//
// The reading tour: limit.go is arithmetic on EC2's token buckets, figure.go a measurement and its verdict,
// catalogue.go the scenarios.
package scenario
