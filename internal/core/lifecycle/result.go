// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// Outcome is the state of an instance.
type Outcome string

// The outcomes.
const (
	// Ready: every required network is attached and as declared; every optional one is too, or is not available.
	Ready Outcome = "Ready"
	// Waiting: something is in progress, or can still succeed.
	Waiting Outcome = "Waiting"
	// Failed: a required network is not available, and waiting does not help.
	Failed Outcome = "Failed"
	// Gone: the instance has ended.
	Gone Outcome = "Gone"
)

// TimedOut is the reason of a failure that only needed more time: something was still in progress.
const TimedOut = "TimedOut"

// Result is an outcome with its reasons.
type Result struct {
	Outcome Outcome
	// Why is what the instance waits for, or what failed; empty if Ready. Reason is a word for a failure: one of package
	// plan's, or [TimedOut].
	Why    string
	Reason string
	// Missing are the optional networks that the instance lacks.
	Missing []string
}

// Evaluate returns the state of an instance, from a plan without calls.
func (c Config) Evaluate(state eni.InstanceState, d Desired, p plan.Plan) Result {
	if state.Terminating() {
		return Result{Outcome: Gone, Why: fmt.Sprintf("the instance is %s", state)}
	}
	if state == eni.InstanceMissing {
		return Result{Outcome: Waiting, Why: "EC2 does not know the instance yet"}
	}
	if len(p.Calls) > 0 {
		return Result{Outcome: Waiting, Why: p.Calls[0].String()}
	}
	v := Result{Outcome: Ready}
	for _, s := range p.Interfaces {
		if s.Goal == plan.Serve && !settled(s) {
			v = c.merge(v, s)
		}
	}
	for _, i := range d.Served {
		if !i.Ready() && v.Outcome == Ready {
			v.Outcome, v.Why = Waiting, fmt.Sprintf("%s, which serves a NodeENI as well, is %s", i.ID, i.Status)
		}
	}
	return v
}

// settled reports whether nothing is left to do for an interface. An attached one may still wait for an update after a
// failed call. Until the update succeeds, the interface does not count as being as declared.
func settled(s plan.State) bool { return s.Ready() && s.Problem.Reason == "" }

// merge adds an interface that is not ready to the result. A failure outweighs waiting; waiting outweighs an optional
// network that is not available.
func (c Config) merge(v Result, s plan.State) Result {
	network, reason := s.Key.NodeENI, s.Problem.Reason
	why := fmt.Sprintf("network %s: %s", network, s.Problem.Message)
	if s.Problem.Message == "" {
		why = fmt.Sprintf("network %s is %s", network, s.Phase)
	}
	switch required := c.required(network); {
	case !isPermanent(reason):
		if v.Outcome == Ready {
			v.Outcome, v.Why = Waiting, why
		}
	case required && v.Outcome != Failed:
		v.Outcome, v.Why, v.Reason = Failed, why, string(reason)
	case !required && !slices.Contains(v.Missing, network):
		v.Missing = append(v.Missing, network)
	}
	return v
}

// isPermanent reports whether waiting does not help to attach an interface. An operator can resolve a full subnet or an
// account limit while an instance waits.
func isPermanent(r plan.Reason) bool {
	switch r {
	case plan.SubnetNotFound, plan.NoSubnetInZone, plan.SecurityGroupNotFound, plan.SecurityGroupAmbiguous, plan.SlotTaken,
		plan.NoSuchNetworkCard, plan.NoSuchDeviceIndex,
		plan.InstanceFull, plan.AddressLimit, plan.Unauthorized, plan.RefusedByEC2:
		return true
	default:
		return false
	}
}

// Expire returns the final result when the time to wait is over: a failure, unless only optional networks are missing.
func (c Config) Expire(v Result, p plan.Plan) Result {
	if v.Outcome != Waiting {
		return v
	}
	expired := Result{Outcome: Ready, Missing: v.Missing}
	for _, s := range p.Interfaces {
		switch {
		case s.Goal != plan.Serve || settled(s):
		case c.required(s.Key.NodeENI):
			return v.expired(s.Problem.Reason)
		case !slices.Contains(expired.Missing, s.Key.NodeENI):
			expired.Missing = append(expired.Missing, s.Key.NodeENI)
		}
	}
	if len(p.Interfaces) == 0 || len(p.Calls) > 0 {
		return v.expired("")
	}
	return expired
}

// expired returns the failure that replaces a result when the time to wait is over.
func (v Result) expired(reason plan.Reason) Result {
	failed := Result{Outcome: Failed, Why: "in the time there was: " + v.Why, Reason: string(reason)}
	if reason == "" || reason == plan.InProgress {
		failed.Reason = TimedOut
	}
	return failed
}
