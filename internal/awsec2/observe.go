// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// Call is one request to EC2 and what came of it. A call that the SDK tries again is as many requests.
type Call struct {
	// Action is EC2's name of the operation, for example "AttachNetworkInterface".
	Action string
	// Class is empty for success.
	Class eni.Class
	// Code is EC2's error code, empty for success and when no answer came.
	Code string
	// Priority is the class of work it was made for, and Waited how long it waited for its turn.
	Priority ratelimit.Class
	Waited   time.Duration
	// Duration is the time from sending to the whole answer; the time waited is not part of it.
	Duration time.Duration
	// Ahead is how far EC2's clock is ahead of the local one by the Date header of the answer, whole seconds. Dated is false if
	// there was no answer with a date, or one out of a cache.
	Ahead time.Duration
	Dated bool
}

// Observer is told of every request to EC2. It is called from many goroutines.
type Observer func(Call)
