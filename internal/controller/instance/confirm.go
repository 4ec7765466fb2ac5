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

// confirmation is a call that a live read of its object confirms.
type confirmation struct {
	uid     identity.UID
	removes bool
}

// confirmationOf returns the confirmation that a call needs, if it needs one. A removal does: a cached object that is
// final proves that no pod uses its interface, however old the cache is, but the object may have been let go or torn
// away since, and another object may have the interface now. The creation for an object of an earlier leader does too:
// the object may have taken over an interface since, and EC2 may not know its client token.
func (run *run) confirmationOf(call plan.Call) (confirmation, bool) {
	uid := call.Of().UID
	switch call.(type) {
	case plan.Detach, plan.Delete:
		return confirmation{uid, true}, true
	case plan.Create:
		return confirmation{uid, false}, run.gathered.inherited[uid]
	default:
		return confirmation{}, false
	}
}

// unconfirmed returns the calls of the plan whose object was not read from the API server itself yet.
func (run *run) unconfirmed() (calls []plan.Call) {
	for _, call := range run.plan.Calls {
		of, needed := run.confirmationOf(call)
		if _, asked := run.confirmed[of]; needed && !asked {
			calls = append(calls, call)
		}
	}
	return calls
}

// confirm reads the objects of calls, and records whether the calls may be made.
func (run *run) confirm(ctx context.Context, calls []plan.Call) error {
	for _, call := range calls {
		of, _ := run.confirmationOf(call)
		if _, asked := run.confirmed[of]; asked {
			continue
		}
		may := run.mayRemove
		if !of.removes {
			may = run.mayCreate
		}
		ok, err := may(ctx, of.uid, call)
		if err != nil {
			return err
		}
		run.confirmed[of] = ok
	}
	return nil
}

// mayCreate reports whether the API server has the object of a call without an interface. The plan for an object that
// is being deleted repeats a call, and one for another object must not be too late.
func (run *run) mayCreate(ctx context.Context, uid identity.UID, _ plan.Call) (bool, error) {
	cached := run.gathered.object(uid)
	if cached == nil {
		return false, nil
	}
	live, err := object.Live(ctx, run.r.Reader, cached)
	if err != nil || live == nil || live.Status.ENIID != "" {
		return false, err
	}
	return live.DeletionTimestamp == nil || cached.DeletionTimestamp != nil, nil
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
		of, needed := run.confirmationOf(call)
		return needed && !run.confirmed[of]
	})
}
