// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report has the views of a fleet and its interfaces for users.
//
// Facts ([Fleet], [Node], [NodeENI], [Interface]) are read elsewhere and passed as values. Functions without side
// effects ([NewStatus], [NewNodeMap], [WhyNodeENI], …) convert them to views. A view is a value as well. It prints as
// text on a [Page], as JSON through its tags, and in some cases as SVG, so tests of each screen need only values.
package report
