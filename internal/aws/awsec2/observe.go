// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// Call is one request to EC2 and its result. A retry by the SDK is a further request.
type Call struct {
	// Action is EC2's name of the operation, for example "AttachNetworkInterface".
	Action string
	// Class is empty for success.
	Class eni.Class
	// Code is EC2's error code; empty for success or without an answer.
	Code string
	// Priority is the class of its work, and Waited is how long it waited for a token.
	Priority ratelimit.Class
	Waited   time.Duration
	// Duration is the time from sending to the whole answer, without the wait.
	Duration time.Duration
	// Ahead is the difference between EC2's clock and the local one, from the Date header of the answer, in whole seconds;
	// positive if EC2 is ahead. Dated is false for an answer without a date or from a cache.
	Ahead time.Duration
	Dated bool
}

// Observer receives every request to EC2. It is called from many goroutines.
type Observer func(Call)
