// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
)

// How long a caller waits for an answer before it times out.
const (
	timeout  = 10 * time.Second
	hangTime = 30 * time.Second
	// leaseDuration is how long a lease lasts without renewal.
	leaseDuration = 15 * time.Second
)

var errNoAnswer = errors.New("the connection was closed")

// judgeCall judges a changing call before it takes effect.
func (r *run) judgeCall(p *process, q request) {
	r.calling(p, q)
	if p.expired && r.now.Sub(p.pausedAt) > leaseDuration+hangTime {
		r.violate("I10", "%s %s %s, %s after it last renewed its lease", p.name, q.action, q.target,
			seconds(r.now.Sub(p.pausedAt)))
	}
}

// call makes a call to EC2, with all faults that can happen before, during and after it.
func (p *process) call(q request, do func(ec2.Call) error) error {
	r := p.run
	p.mustLive()
	r.interlude(p)
	p.yields(q.action)
	if p.fenced {
		return context.Canceled
	}
	if q.mutates {
		if err := p.permit(); err != nil {
			r.note(p, "%s %s: %v", q.action, q.target, err)
			return &eni.APIError{Class: eni.Transient, Operation: q.action, Err: err}
		}
	}
	p.mayCrash(crashBefore, q.action)
	r.pass(r.faults.latency())
	if err := p.refused(q); err != nil {
		r.note(p, "%s %s: %v", q.action, q.target, err)
		return err
	}
	if q.mutates {
		r.judgeCall(p, q)
	}
	if q.mutates && r.stage.withholds(func() { _ = do(r.call()) }) {
		return p.hearsNothing(q)
	}
	at, before := r.now, eni.Interface{}
	if q.mutates {
		before = r.truth().interfaces[q.target]
	}
	err := do(ec2.Call{Now: r.now})
	if q.mutates && r.faults.strikes(duplicate) {
		_ = do(ec2.Call{Now: r.now})
	}
	r.touched()
	r.called(p, q, err)
	if q.mutates {
		r.shaped(p, q, before, err)
	}
	p.mayCrash(crashAfterEffect, q.action)
	r.interlude(p)
	p.yields(q.action)
	r.pass(r.faults.latency())
	if r.faults.strikes(lostReply) {
		return p.hearsNothing(q)
	}
	if q.mutates {
		p.unreported.add(q.action)
		r.answered(p, q, err)
		r.learned(p, q, at, err)
	}
	p.mayCrash(crashAfterReply, q.action)
	p.notices()
	return faultOf(q.action, err)
}

// hearsNothing ends a call whose answer from EC2 was lost.
func (p *process) hearsNothing(q request) error {
	p.run.note(p, "%s %s: the answer is lost", q.action, q.target)
	if q.create != nil {
		delete(p.run.watch.maker, q.made.ID)
	}
	p.run.pass(timeout)
	return &eni.APIError{Class: eni.Transient, Operation: q.action, Err: errNoAnswer}
}

// permit asks the fence, as the product's EC2 client does before each mutating call.
func (p *process) permit() error {
	if p.expired {
		p.run.judged("I10")
	} else {
		p.renew()
	}
	return p.fence.Check()
}

// quietly makes a call from a goroutine of the product, which may neither crash nor be interrupted.
func (p *process) quietly(action string, do func(ec2.Call) error) error {
	r := p.run
	r.pass(r.faults.latency())
	if err := p.refused(request{action: action}); err != nil {
		return err
	}
	p.doomed = p.doomed || r.faults.strikesCrash(rarity(action))
	return faultOf(action, do(ec2.Call{Now: r.now}))
}

// refused draws whether a call fails without an effect.
func (p *process) refused(q request) error {
	r, s := p.run, p.run.faults
	refuse := func(class eni.Class, code string) error {
		return &eni.APIError{Class: class, Operation: q.action, Code: code, Message: "injected", Err: errNoAnswer}
	}
	if err := r.broken.refuses(r, q); err != nil {
		return err
	}
	switch {
	case s.strikes(lostRequest):
		r.pass(timeout)
		return refuse(eni.Transient, "")
	case s.strikes(hanging):
		r.pass(hangTime)
		return refuse(eni.Transient, "")
	case s.strikes(serverError):
		return refuse(eni.Transient, "InternalError")
	case s.during(throttling) && r.chance(0.8):
		s.struck[throttling]++
		return refuse(eni.Throttled, "RequestLimitExceeded")
	case s.during(revokedPermission) && strings.HasPrefix(q.action, s.action):
		s.struck[revokedPermission]++
		return refuse(eni.Unauthorized, "UnauthorizedOperation")
	case s.during(zoneOutage) && q.mutates && r.zoneOf(q) == s.zone:
		s.struck[zoneOutage]++
		return refuse(eni.Transient, "Unavailable")
	}
	return nil
}

// write makes a write to the API server and leaves in the object what the server answered.
func (p *process) write(verb string, object client.Object, do func() (client.Object, error)) error {
	r, s := p.run, p.run.faults
	k, name := kindOf(object), object.GetName()
	p.mustLive()
	r.interlude(p)
	if p.fenced {
		return context.Canceled
	}
	p.mayCrash(crashBefore, verb+" "+k.String())
	r.pass(s.latency())
	if err := p.unwritable(k, name); err != nil {
		r.note(p, "%s %s %s: %v", verb, k, name, err)
		return err
	}
	answer, err := do()
	r.wrote(p, verb, k, name, err)
	p.mayCrash(crashAfterEffect, verb+" "+k.String())
	if s.strikes(lostReply) {
		r.note(p, "%s %s %s: the answer is lost", verb, k, name)
		return apierrors.NewTimeoutError("injected", 1)
	}
	if err == nil && answer != nil {
		assign(object, p.seen(answer).DeepCopyObject())
	}
	p.mayCrash(crashAfterReply, verb+" "+k.String())
	p.wroteStatus(verb + " " + k.String())
	p.notices()
	return err
}

// asks makes a request to the API server itself: other actors act meanwhile, and the process may get no answer.
func (p *process) asks(k kind, name string) error {
	p.mustLive()
	p.run.interlude(p)
	if p.fenced {
		return context.Canceled
	}
	p.run.pass(p.run.faults.latency())
	return p.unwritable(k, name)
}

// unwritable draws whether a request to the API server fails without an effect.
func (p *process) unwritable(k kind, name string) error {
	s := p.run.faults
	switch {
	case s.during(apiOutage):
		s.struck[apiOutage]++
		p.run.pass(timeout)
		return apierrors.NewServiceUnavailable("injected")
	case s.strikes(lostRequest):
		p.run.pass(timeout)
		return apierrors.NewTimeoutError("injected", 1)
	case s.strikes(conflicts):
		return apierrors.NewConflict(k.resource(), name, errors.New("injected"))
	case s.strikes(rejections):
		return apierrors.NewGenericServerResponse(http.StatusForbidden, "write", k.resource(), name, "injected", 0, true)
	}
	return nil
}

// notices lets a process notice that its lease has ended.
func (p *process) notices() {
	if p.expired && p.run.chance(0.7) {
		p.fenced = true
	}
}
