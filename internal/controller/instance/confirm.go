// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"slices"

	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// unconfirmed returns the calls of the plan that detach or delete an interface and whose object was not read from the
// API server itself yet. A cached object that is final proves that no pod uses its interface, however old the cache is.
// But the object may have been let go or torn away since, and another object may have the interface now.
func (run *run) unconfirmed() (calls []plan.Call) {
	for _, call := range run.plan.Calls {
		if _, asked := run.confirmed[call.Of().UID]; removes(call) && !asked {
			calls = append(calls, call)
		}
	}
	return calls
}

func removes(call plan.Call) bool {
	switch call.(type) {
	case plan.Detach, plan.Delete:
		return true
	default:
		return false
	}
}

// confirm reads the objects of calls, and records whether the calls may be made.
func (run *run) confirm(ctx context.Context, calls []plan.Call) error {
	for _, call := range calls {
		uid := call.Of().UID
		if _, asked := run.confirmed[uid]; asked {
			continue
		}
		ok, err := run.mayRemove(ctx, uid, call)
		if err != nil {
			return err
		}
		run.confirmed[uid] = ok
	}
	return nil
}

// mayRemove reports whether the API server has the object of a call as the call supposes: final, or of an ended
// instance, and with the interface of the call. A second interface that was created for an object with another one is
// no pod's.
func (run *run) mayRemove(ctx context.Context, uid identity.UID, call plan.Call) (bool, error) {
	cached := run.gathered.object(uid)
	if cached == nil {
		return false, nil
	}
	live, err := object.Live(ctx, run.r.Reader, cached)
	if err != nil || live == nil {
		return false, err
	}
	_, deletes := call.(plan.Delete)
	another := live.Status.ENIID != "" && live.Status.ENIID != call.Interface()
	return (live.Final() || run.ended) && !another || deletes && another, nil
}

// withoutUnconfirmed returns the calls without those that the live read did not confirm.
func (run *run) withoutUnconfirmed(calls []plan.Call) []plan.Call {
	return slices.DeleteFunc(slices.Clone(calls), func(call plan.Call) bool {
		return removes(call) && !run.confirmed[call.Of().UID]
	})
}
