// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report is what people are shown of a fleet and its interfaces.
//
// Facts ([Fleet], [Node], [NodeENI], [Interface]) are read elsewhere and come in as values. A view is made of them by a
// function without side effects ([NewStatus], [NewNodeMap], [NewWhy], …), is a value as well, and prints as text on a
// [Page], as JSON through its tags, and where that helps as SVG. So each screen is tested with values alone.
package report
