// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/podnet"
)

const (
	// bindRetry is the time between attempts to bind a device after a failure. Each attempt takes its link down.
	bindRetry = 5 * time.Minute
	// heldRetry is the interval of reads while a program has a device open. No event reports that the program closed it.
	heldRetry = 2 * time.Second
)

// failure is a failed attempt to bind a device.
type failure struct {
	message string
	at      time.Time
}

// decideBindings adds the state of the devices for user space to the observations, and returns the operations. It reads
// the bus only if there is a device, or one whose object is gone.
func (a *Agent) decideBindings(s *snapshot) ([]hostpci.Binding, error) {
	held := slices.ContainsFunc(a.saved.Held, func(h podnet.Saved) bool { return h.Device != "" })
	if len(s.devices)+len(s.records) == 0 && !held {
		return nil, nil
	}
	facts, err := a.PCI.Facts()
	if err != nil {
		return nil, fmt.Errorf("read the PCI bus of the node: %w", err)
	}
	facts.Failed = map[hostpci.Binding]string{}
	for b, f := range a.failed {
		if time.Since(f.at) < bindRetry {
			facts.Failed[b] = f.message
		}
	}
	bindings, observed := hostpci.Plan(s.devices, s.records, facts, s.facts)
	s.bus = facts
	s.observed = append(s.observed, observed...)
	early := func(b hostpci.Binding) bool { return b.Driver != "" && !a.mayBind[b.Address] }
	return slices.DeleteFunc(bindings, early), nil
}

// bind executes a binding. A failure is reported until the next attempt.
func (a *Agent) bind(b hostpci.Binding) {
	if err := a.PCI.Bind(b); err != nil {
		a.failed[b] = failure{fmt.Sprintf("%v; the agent retries after %s", err, bindRetry), time.Now()}
		a.Log.Error("a device could not be bound", "device", b.Address, "driver", b.Driver, "err", err)
		return
	}
	delete(a.failed, b)
	a.Log.Info("binding executed", "what", b.String())
}

// next returns when to read the host again without an event.
func (a *Agent) next(s *snapshot) time.Duration {
	for _, o := range s.observed {
		if o.State == hostnet.Binding || o.Reason == hostpci.ReasonInUse {
			return min(a.Resync, heldRetry)
		}
	}
	for _, waiting := range a.waiting {
		if waiting > 0 {
			return min(a.Resync, arrivalRetry)
		}
	}
	if slices.ContainsFunc(s.served, (*served).uses) || slices.ContainsFunc(s.served, (*served).isLeft) {
		return min(a.Resync, podInterval)
	}
	if slices.ContainsFunc(s.served, (*served).isNew) {
		return min(a.Resync, missingGrace)
	}
	return a.Resync
}
