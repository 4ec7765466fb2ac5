// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package query implements the AWS Query protocol of EC2 and Auto Scaling: a request is a form, a response is XML.
// [Decode] and [Encoder] are driven by struct tags, so that a new operation is a struct and needs no code here.
package query
