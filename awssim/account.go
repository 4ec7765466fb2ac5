// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/lambda"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/awssim/ssm"
	"github.com/multieni/multieni/awssim/timeline"
)

// account has the models of all services, on one timeline.
type account struct {
	timeline    *timeline.Timeline
	faults      *fault.Set
	ec2         *ec2.Model
	autoScaling *autoscaling.Model
	sqs         *sqs.Model
	bus         *events.Bus
	lambda      *lambda.Model
	ssm         *ssm.Model
}

// newAccount builds the world at the present time, or restores a saved account.
func newAccount(o Options, now time.Time) (*account, error) {
	w, services, owner := o.World, *o.ServiceBehavior, cmp.Or(o.World.AccountID, ec2.DefaultAccountID)
	var saved savedModels
	if o.State != nil {
		saved, now = o.State.models(), o.State.Timeline.Now
	}
	a := &account{timeline: timeline.New(now), faults: fault.NewSet(o.Seed)}
	var err error
	if a.ec2, err = ec2.New(ec2.Options{World: w.World, Behavior: *o.Behavior, Faults: a.faults, Seed: o.Seed,
		Timeline: a.timeline, Saved: saved.ec2}); err != nil {
		return nil, err
	}
	if a.sqs, err = sqs.New(sqs.Options{
		Queues: w.Queues, Behavior: services.SQS, Region: w.Region, Account: owner, Timeline: a.timeline,
		Faults: a.faults, Seed: o.Seed, Saved: saved.sqs,
	}); err != nil {
		return nil, err
	}
	if a.lambda, err = lambda.New(lambda.Options{
		Functions: w.Functions, EventSourceMappings: w.EventSourceMappings,
		Region: w.Region, Account: owner, Timeline: a.timeline, SQS: a.sqs, Seed: o.Seed,
		Saved: saved.lambda,
	}); err != nil {
		return nil, err
	}
	if a.bus, err = events.New(events.Options{
		Rules: w.Rules, Region: w.Region, Account: owner, Timeline: a.timeline, Faults: a.faults, Seed: o.Seed,
		Latency: services.Delivery.Draw, Deliver: a.deliver, Saved: saved.events,
	}); err != nil {
		return nil, err
	}
	a.ssm = ssm.New(a.ec2, a.timeline)
	a.ec2.Watch(a.announce)
	a.autoScaling, err = autoscaling.New(autoscaling.Options{
		Groups: w.AutoScalingGroups, Behavior: services.AutoScaling, Region: w.Region, Account: owner,
		Timeline: a.timeline, EC2: a.ec2,
		Seed: o.Seed, Put: a.put, Notify: a.sqs.Put, Saved: saved.autoScaling,
	})
	if err != nil || o.State == nil {
		return a, err
	}
	return a, a.load(o.State)
}

// advance executes all events that are due by now.
func (a *account) advance(now time.Time) { a.ec2.Advance(now) }

// deliver delivers an event to a queue or a function.
func (a *account) deliver(targetARN, body string) error {
	switch {
	case a.sqs.HasQueue(targetARN):
		return a.sqs.Put(targetARN, body)
	case a.lambda.HasFunction(targetARN):
		return a.lambda.InvokeAsync(targetARN, body)
	default:
		return fmt.Errorf("there is no queue or function %s", targetARN)
	}
}

// put sends an event to EventBridge, on behalf of a service that does not need its ID.
func (a *account) put(e events.Event) { a.bus.Put(e) }

// announce sends the state of an instance to EventBridge.
func (a *account) announce(instance *ec2.Instance) {
	a.put(events.Event{
		Source: "aws.ec2", DetailType: "EC2 Instance State-change Notification",
		Resources: []string{a.ec2.ARN("instance", instance.InstanceID)},
		Detail:    map[string]any{"instance-id": instance.InstanceID, "state": instance.State.Name},
	})
}

// refusalOf returns the error as an AWS error, or as an internal error.
func refusalOf(err error) *apierror.Error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*apierror.Error](err); ok {
		return refused
	}
	return &apierror.Error{Code: "InternalError", Message: err.Error(), Status: http.StatusInternalServerError}
}
