// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/text"
)

const (
	// maxMessage is the largest number of characters of a message, as in its schema.
	maxMessage = 1024
	// usageInterval is the time between two reports of an interface that differ only in the use of addresses. Pods start
	// without the agent, and each report wakes the controller.
	usageInterval = 60 * time.Second
	// podInterval is the time between two reads of leases. Pods start without the agent, so no event reports them.
	podInterval = 5 * time.Second
	// missingGrace is how long the agent waits for the link of a new interface before it reports that there is none.
	missingGrace = 5 * time.Second
	// maxReports is how many reports the agent writes at the same time.
	maxReports = 8
)

// Report is status.node of an object, to be written over that version of it.
type Report struct {
	Interface *v1alpha1.NetworkInterface
	Node      v1alpha1.NodeReport
}

// reports returns the reports that are due.
func (a *Agent) reports(s *snapshot) []Report {
	var due []Report
	for _, one := range s.served {
		if one.object == nil || !s.read {
			continue
		}
		if _, known := a.firstSeen[one.object.UID]; !known {
			a.firstSeen[one.object.UID] = a.Now()
		}
		report, may := a.reportOf(s, one)
		if may && a.isDue(one, report) {
			due = append(due, Report{one.object, report})
		}
	}
	return due
}

// reportOf returns status.node of an object, and whether it may be written. After an error the hold stays as it is.
func (a *Agent) reportOf(s *snapshot, one *served) (report v1alpha1.NodeReport, may bool) {
	n := one.object
	last := n.Status.Node
	open := one.step.Open
	if one.err != nil {
		if last == nil || last.Agent != a.process() {
			return report, false // A1 needs the leases, and the checkpoint
		}
		open = last.Open
	} else if !one.step.Answers {
		return report, false
	}
	report = v1alpha1.NodeReport{Agent: a.process(), Open: open, ObservedGeneration: n.Generation,
		Link: a.linkReport(s, n), CNI: a.cniState(), Pods: a.podsReport(s, one)}
	if last != nil {
		report.Released = last.Released
	}
	if last != nil && !n.DeletionTimestamp.IsZero() { // the removal needs no write of its own
		report.ObservedGeneration = last.ObservedGeneration
		report.Link = cmp.Or(report.Link, last.Link)
	}
	return report, true
}

func (a *Agent) process() v1alpha1.AgentProcess {
	return v1alpha1.AgentProcess{BootID: a.Process.Boot, ProcessID: a.Process.ID}
}

// isDue reports whether a report must be written now.
func (a *Agent) isDue(one *served, report v1alpha1.NodeReport) bool {
	last := one.object.Status.Node
	switch {
	case one.err == nil && one.step.Due:
		return true
	case last == nil:
		isMissing := report.Link == nil ||
			report.Link.State == v1alpha1.LinkPhase(hostnet.Missing) && report.Link.Reason == hostnet.ReasonNotFound
		return !isMissing || a.Now().Sub(a.firstSeen[one.object.UID]) >= missingGrace
	}
	now, before := report, *last.DeepCopy()
	now.Agent, before.Agent = v1alpha1.AgentProcess{}, v1alpha1.AgentProcess{}
	if now.Pods == nil || before.Pods == nil {
		return !equality.Semantic.DeepEqual(now, before)
	}
	pods := *now.Pods
	pods.Used, pods.Free = before.Pods.Used, before.Pods.Free
	usage := now.Pods
	now.Pods = &pods
	if !equality.Semantic.DeepEqual(now, before) {
		return true
	}
	return (usage.Used != before.Pods.Used || usage.Free != before.Pods.Free) &&
		a.Now().Sub(a.reportedAt[one.object.UID]) >= usageInterval
}

// report writes the reports that are due. A failure of one keeps no other from being written.
func (a *Agent) report(ctx context.Context, s *snapshot) error {
	due := a.reports(s)
	failures := make([]error, len(due))
	answers := make([]*v1alpha1.NetworkInterface, len(due))
	var writes errgroup.Group
	writes.SetLimit(maxReports)
	for n, report := range due {
		writes.Go(func() error {
			failures[n] = panics.AsError("the report of NetworkInterface "+report.Interface.Name, func() (err error) {
				answers[n], err = a.API.writeReport(ctx, report)
				return err
			})
			return nil
		})
	}
	failure := writes.Wait()
	for n, report := range due {
		a.answered(report, failures[n])
		if apierrors.IsConflict(failures[n]) { // the watch may take a while
			_, _, err := a.API.interfaces.read(ctx, report.Interface.Name)
			failures[n] = errors.Join(failures[n], err)
		}
		if apierrors.IsNotFound(failures[n]) {
			a.API.interfaces.forget(report.Interface.Name)
			failures[n] = nil
		}
		if failures[n] != nil {
			failures[n] = fmt.Errorf("write status.node of NetworkInterface %s: %w", report.Interface.Name, failures[n])
		}
	}
	return errors.Join(failure, errors.Join(failures...))
}

// answered notes what the API server answered to a report. A write without an answer is treated as done and as not
// done: the next one of the process voids it.
func (a *Agent) answered(report Report, err error) {
	uid := report.Interface.UID
	if err != nil {
		if !isRefusal(err) {
			a.unanswered[uid] = true
		}
		return
	}
	delete(a.unanswered, uid)
	a.reportedAt[uid] = a.Now()
	last := report.Interface.Status.Node
	if last == nil || last.Open != report.Node.Open || last.Agent != report.Node.Agent {
		a.wake() // the next step needed this answer
	}
}

// isRefusal reports whether the API server answered that it did not write.
func isRefusal(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err)
}

// linkReport returns the state of the link of an object; nil if it has none yet.
func (a *Agent) linkReport(s *snapshot, n *v1alpha1.NetworkInterface) *v1alpha1.LinkReport {
	o := observationOf(n, s.observed)
	if o == nil {
		return nil
	}
	report := &v1alpha1.LinkReport{
		State: v1alpha1.LinkPhase(o.State), Reason: o.Reason, Message: text.Clip(o.Message, maxMessage),
		AltName: o.AltName, PCIAddress: o.Link.Device,
	}
	if f := o.Facts; f != nil {
		report.Name, report.MTU, report.Driver, report.PCIAddress = f.Name, int32(f.MTU), f.Driver, f.Device
		for _, address := range f.Addresses {
			if !address.Addr().IsLinkLocalUnicast() {
				report.Addresses = append(report.Addresses, address.String())
			}
		}
	}
	if o.State == hostnet.Moved {
		report.AltName = hostnet.AltName(o.Link.Name)
	}
	return report
}
