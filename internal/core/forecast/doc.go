// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package forecast says on paper what a plan would come to: it carries the actions out in a model of one instance that
// refuses nothing and takes no time, plans again, and so on until nothing is left to do. The sum of the actions is what
// a change of the declarations would cost, before anything is changed.
//
// [Simulate] does that for one instance; [Calls] and [MinDuration] add up what many instances would ask of EC2.
package forecast
