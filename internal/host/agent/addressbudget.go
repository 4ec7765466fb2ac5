// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"time"

	"golang.org/x/time/rate"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podaddress"
)

const (
	// arrivalsPerMinute bounds the addresses that one pod brings up. The first ones are free, so that a pod can begin with
	// as many addresses as a report takes.
	arrivalsPerMinute = 60
	arrivalBurst      = v1alpha1.MaxAddressesOfInterface
	// flapsPerMinute bounds how often one pod brings up one address. The first ones are free, so that a virtual address
	// can move to the node and away several times in a short time.
	flapsPerMinute = 6
	flapBurst      = 8
	// arrivalRetry is the time between two attempts to write addresses that wait.
	arrivalRetry = time.Second
)

// addressBudget bounds the addresses that each pod brings up. Each is a write of a FloatingAddress and a change in EC2,
// so a pod that takes one address after another, or one address again and again, must not use up what all pods share.
type addressBudget struct {
	pods map[int]*rate.Limiter
	// flaps has the budgets of addresses, by pod and address.
	flaps map[podAddress]*rate.Limiter
}

type podAddress struct {
	namespace int
	address   string
}

func newAddressBudget() addressBudget {
	return addressBudget{pods: map[int]*rate.Limiter{}, flaps: map[podAddress]*rate.Limiter{}}
}

// take reports whether the agent may write now that a pod brought its address up, and then counts it.
func (b addressBudget) take(f podaddress.Address, now time.Time) bool {
	pod := budgetOf(b.pods, f.Namespace, arrivalsPerMinute, arrivalBurst)
	flaps := budgetOf(b.flaps, podAddress{f.Namespace, f.Address.String()}, flapsPerMinute, flapBurst)
	return pod.TokensAt(now) >= 1 && flaps.TokensAt(now) >= 1 && pod.AllowN(now, 1) && flaps.AllowN(now, 1)
}

// prune drops the budgets that are full again.
func (b addressBudget) prune(now time.Time) {
	full := func(l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) }
	maps.DeleteFunc(b.pods, func(_ int, l *rate.Limiter) bool { return full(l) })
	maps.DeleteFunc(b.flaps, func(_ podAddress, l *rate.Limiter) bool { return full(l) })
}

func budgetOf[K comparable](budgets map[K]*rate.Limiter, key K, perMinute, burst int) *rate.Limiter {
	if budgets[key] == nil {
		budgets[key] = rate.NewLimiter(rate.Every(time.Minute/time.Duration(perMinute)), burst)
	}
	return budgets[key]
}
