// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sqs is a model of Amazon SQS's standard queues: a deterministic state machine in which time is data, like
// package ec2.
//
// A message is delivered at least once and in no particular order; it stays in its queue, invisible for a while, until
// it is deleted, and goes to the dead-letter queue after the receives that the redrive policy allows. Faults of kind
// duplicate deliver it and leave it visible, and faults of kind reorder let a later message go first. The model has no
// long polls: it returns the present messages, and [Model.Watch] reports further ones. FIFO queues are not modelled.
package sqs
