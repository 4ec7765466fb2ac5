// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides what to do when an instance launches or terminates: nodes can get their interfaces before
// they join.
//
// [Decode] reads all forms in which AWS reports launches and terminations: Auto Scaling hooks and EC2 state changes,
// directly from EventBridge, from a queue, or through a topic. An event is only a hint: it can be late, duplicated, out
// of order, lost or forged. It therefore names an instance and nothing else; EC2's state of that instance decides what
// happens. [Config] is the configuration by the operator.
package lifecycle
