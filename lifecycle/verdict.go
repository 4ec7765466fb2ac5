// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/plan"
)

// Outcome is how an instance stands.
type Outcome string

// The outcomes.
const (
	// Ready: every required network is attached and as declared; optional ones are, or cannot be had.
	Ready Outcome = "Ready"
	// Waiting: something is under way, or may come right.
	Waiting Outcome = "Waiting"
	// Failed: a required network cannot be had, and waiting mends nothing.
	Failed Outcome = "Failed"
	// Gone: the instance has ended.
	Gone Outcome = "Gone"
)

// TimedOut is the reason of a failure for which only time was lacking: something was under way still.
const TimedOut = "TimedOut"

// Verdict is an outcome with its reasons.
type Verdict struct {
	Outcome Outcome
	// Why says what is waited for or what failed; empty when Ready. Reason is a word for a failure: one of package plan's, or
	// [TimedOut].
	Why    string
	Reason string
	// Lacking are the optional networks that the instance goes without.
	Lacking []string
}

// Judge says how an instance stands, from a plan that asks for no call any more.
func (c Config) Judge(state eni.InstanceState, d Demand, p plan.Plan) Verdict {
	if state.Ending() {
		return Verdict{Outcome: Gone, Why: fmt.Sprintf("the instance is %s", state)}
	}
	if state == eni.InstanceMissing {
		return Verdict{Outcome: Waiting, Why: "EC2 does not know the instance yet"}
	}
	if len(p.Actions) > 0 {
		return Verdict{Outcome: Waiting, Why: p.Actions[0].String()}
	}
	v := Verdict{Outcome: Ready}
	for _, m := range p.Members {
		if m.Wanted && !settled(m) {
			v = c.weigh(v, m)
		}
	}
	for _, i := range d.Served {
		if !i.Ready() && v.Outcome == Ready {
			v.Outcome, v.Why = Waiting, fmt.Sprintf("%s, which serves a NodeENI as well, is %s", i.ID, i.Status)
		}
	}
	return v
}

// settled reports whether nothing is left to do for a member. One that is attached can still wait to be mended after a call
// that failed: until it goes with its instance, for example, nobody may conclude that it is as declared.
func settled(m plan.Member) bool {
	return m.Ready() && (m.Why.Reason == "" || m.Why.Reason == plan.Drifted)
}

// weigh takes a member into account that is not there. Failure weighs more than waiting, and waiting more than an optional
// network that cannot be had.
func (c Config) weigh(v Verdict, m plan.Member) Verdict {
	why := fmt.Sprintf("network %s: %s", m.NodeENI, m.Why.Message)
	if m.Why.Message == "" {
		why = fmt.Sprintf("network %s is %s", m.NodeENI, m.Phase)
	}
	switch required := c.required(m.NodeENI); {
	case !hopeless(m.Why.Reason):
		if v.Outcome == Ready {
			v.Outcome, v.Why = Waiting, why
		}
	case required && v.Outcome != Failed:
		v.Outcome, v.Why, v.Reason = Failed, why, string(m.Why.Reason)
	case !required && !slices.Contains(v.Lacking, m.NodeENI):
		v.Lacking = append(v.Lacking, m.NodeENI)
	}
	return v
}

// hopeless reports whether waiting does not mend what keeps an interface from being attached. A full subnet and a limit of
// the account can be mended from outside while an instance waits.
func hopeless(r plan.Reason) bool {
	switch r {
	case plan.SubnetNotFound, plan.NoSubnetInZone, plan.SecurityGroupNotFound, plan.SecurityGroupAmbiguous, plan.SlotTaken, plan.NoSuchCard,
		plan.InstanceFull, plan.AddressLimit, plan.Unauthorized, plan.Refused:
		return true
	default:
		return false
	}
}

// Expire returns what becomes of a verdict when nothing is waited for any longer: a failure, unless only optional networks
// are missing.
func (c Config) Expire(v Verdict, p plan.Plan) Verdict {
	if v.Outcome != Waiting {
		return v
	}
	expired := Verdict{Outcome: Ready, Lacking: v.Lacking}
	for _, m := range p.Members {
		switch {
		case !m.Wanted || settled(m):
		case c.required(m.NodeENI):
			return v.expired(m.Why.Reason)
		case !slices.Contains(expired.Lacking, m.NodeENI):
			expired.Lacking = append(expired.Lacking, m.NodeENI)
		}
	}
	if len(p.Members) == 0 || len(p.Actions) > 0 {
		return v.expired("")
	}
	return expired
}

// expired is the failure that a verdict comes to when nothing is waited for any longer.
func (v Verdict) expired(reason plan.Reason) Verdict {
	failed := Verdict{Outcome: Failed, Why: "in the time there was: " + v.Why, Reason: string(reason)}
	if reason == "" || reason == plan.InProgress {
		failed.Reason = TimedOut
	}
	return failed
}
