// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package synctest runs the whole controller in a testing/synctest bubble: the real controller-runtime manager with its
// informers, work queues and leader election, every reconciler, the observer, the garbage collector, the fence and the
// AWS SDK, against packages kubeapi and awssim, which both answer within the process. A day takes seconds.
//
// It is the counterpart of test/simulation. There one goroutine takes every step in an order that a seed decides, and a
// run can be replayed; here the whole product runs, concurrency is real, and a run cannot be replayed.
//
// In make test-long the stories are longer and larger, see package test/size; with SYNCTEST_LOG=debug (or info,
// warn) the controllers' logs go to standard error.
//
// Package bubble is the fixture, which test/bench shares. Each file here is one story.
package synctest
