// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
)

// Attempts are the results of the calls for one instance. The zero value is that of an instance without calls. After a
// restart each member makes its next call at once, and its backoff grows again from the first delay. An update that
// another program reverts is first repeated up to three times.
type Attempts struct {
	// Backoffs are the failures of members since their last success, and the slots that EC2 reported as taken.
	Backoffs map[identity.Key]Backoff
	// RepeatedUpdates are the updates that EC2 accepted. They reveal an attribute that another program reverts.
	RepeatedUpdates RepeatedUpdates
}

// After returns the attempts after one more call. After a success it keeps what [Backoff.AfterSuccess] returns. The
// receiver does not change.
func (a Attempts) After(action Action, err error, at time.Time) Attempts {
	key := action.Of().Key
	backoff := a.Backoffs[key]
	if err != nil {
		backoff = backoff.WithFailure(action, err, at)
	} else {
		backoff = backoff.AfterSuccess(action)
		a.RepeatedUpdates = a.RepeatedUpdates.Accepted(action, at)
	}
	backoffs := maps.Clone(a.Backoffs)
	if backoffs == nil {
		backoffs = map[identity.Key]Backoff{}
	}
	backoffs[key] = backoff
	if backoff.IsZero() {
		delete(backoffs, key)
	}
	a.Backoffs = backoffs
	return a
}
