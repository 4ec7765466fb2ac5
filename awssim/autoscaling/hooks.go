// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/events"
)

// Limits of lifecycle hooks (Auto Scaling API reference, PutLifecycleHook).
const (
	minHeartbeat     = 30   // seconds
	maxHeartbeat     = 7200 // seconds
	defaultHeartbeat = 3600 // seconds
	maxHooks         = 50
	maxWait          = 48 * 3600 // seconds
)

// HookSpecification is a lifecycle hook in a request.
type HookSpecification struct {
	LifecycleHookName     string `query:"LifecycleHookName" json:"lifecycleHookName"`
	LifecycleTransition   string `query:"LifecycleTransition" json:"lifecycleTransition"`
	HeartbeatTimeout      *int   `query:"HeartbeatTimeout" json:"heartbeatTimeout,omitempty"`
	DefaultResult         string `query:"DefaultResult" json:"defaultResult,omitempty"`
	NotificationTargetARN string `query:"NotificationTargetARN" json:"notificationTargetArn,omitempty"`
	NotificationMetadata  string `query:"NotificationMetadata" json:"notificationMetadata,omitempty"`
	RoleARN               string `query:"RoleARN" json:"roleArn,omitempty"`
}

// PutLifecycleHookInput is the request of PutLifecycleHook.
type PutLifecycleHookInput struct {
	HookSpecification
	AutoScalingGroupName string `query:"AutoScalingGroupName"`
}

// Nothing is the answer of actions that return no data.
type Nothing struct{}

// PutLifecycleHook adds or changes a hook. It holds only later instances. A notification target gets a test message.
func (m *Model) PutLifecycleHook(in *PutLifecycleHookInput) (*Nothing, error) {
	g, err := m.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	return &Nothing{}, m.putHook(g, in.HookSpecification)
}

func (m *Model) putHook(g *Group, spec HookSpecification) error {
	hook := &Hook{
		AutoScalingGroupName: g.AutoScalingGroupName, LifecycleHookName: spec.LifecycleHookName,
		LifecycleTransition: spec.LifecycleTransition,
		HeartbeatTimeout:    defaultHeartbeat, DefaultResult: cmp.Or(spec.DefaultResult, Abandon),
		NotificationTargetARN: spec.NotificationTargetARN, NotificationMetadata: spec.NotificationMetadata,
		RoleARN: spec.RoleARN,
	}
	if spec.HeartbeatTimeout != nil {
		hook.HeartbeatTimeout = *spec.HeartbeatTimeout
	}
	hook.GlobalTimeout = min(maxWait, 100*hook.HeartbeatTimeout)
	at := slices.IndexFunc(g.hooks, func(h *Hook) bool { return h.LifecycleHookName == hook.LifecycleHookName })
	if at >= 0 {
		hook.LifecycleTransition = cmp.Or(hook.LifecycleTransition, g.hooks[at].LifecycleTransition)
	}
	switch {
	case hook.LifecycleHookName == "":
		return validation("1 validation error detected: Value null at 'lifecycleHookName' failed to satisfy " +
			"constraint: Member must not be null")
	case hook.LifecycleTransition != Launching && hook.LifecycleTransition != Leaving:
		return validation("Lifecycle transition '%s' is not one of %s, %s", hook.LifecycleTransition, Launching, Leaving)
	case hook.DefaultResult != Continue && hook.DefaultResult != Abandon:
		return validation("Default result '%s' is not one of %s, %s", hook.DefaultResult, Continue, Abandon)
	case hook.HeartbeatTimeout < minHeartbeat || hook.HeartbeatTimeout > maxHeartbeat:
		return validation("Heartbeat timeout %d is not from %d to %d seconds", hook.HeartbeatTimeout,
			minHeartbeat, maxHeartbeat)
	case at < 0 && len(g.hooks) >= maxHooks:
		return apierror.New("LimitExceeded", "The maximum number of lifecycle hooks (%d) has been reached.", maxHooks)
	}
	if hook.NotificationTargetARN != "" {
		if err := m.notifyTest(g, hook); err != nil {
			return validation("Unable to publish test message to notification target %s using IAM role %s: %v",
				hook.NotificationTargetARN, hook.RoleARN, err)
		}
	}
	if at >= 0 {
		g.hooks[at] = hook
	} else {
		g.hooks = append(g.hooks, hook)
	}
	return nil
}

func (m *Model) notifyTest(g *Group, hook *Hook) error {
	return m.notify(hook, map[string]any{
		"AccountId": m.options.Account, "RequestId": m.uuid(), "Service": "AWS Auto Scaling",
		"Event": "autoscaling:TEST_NOTIFICATION",
		"Time":  m.timeline.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "AutoScalingGroupARN": g.AutoScalingGroupARN,
		"AutoScalingGroupName": g.AutoScalingGroupName,
	})
}

func (m *Model) notify(hook *Hook, message map[string]any) error {
	// A map of strings: Marshal cannot fail.
	body, _ := json.Marshal(message)
	return m.options.Notify(hook.NotificationTargetARN, string(body))
}

func (g *Group) hasHook(transition string) bool {
	return slices.ContainsFunc(g.hooks, func(h *Hook) bool { return h.LifecycleTransition == transition })
}

// beginHooks lets all hooks of a transition hold an instance, and reports whether there are any.
func (m *Model) beginHooks(g *Group, instance *Instance, transition string) bool {
	for _, hook := range g.hooks {
		if hook.LifecycleTransition != transition {
			continue
		}
		now := m.timeline.Now()
		record := &LifecycleAction{
			LifecycleHookName: hook.LifecycleHookName, LifecycleTransition: transition, LifecycleActionToken: m.uuid(),
			InstanceID: instance.InstanceID, Began: now,
		}
		a := &action{LifecycleAction: record, hook: *hook, last: now.Add(time.Duration(hook.GlobalTimeout) * time.Second)}
		instance.actions = append(instance.actions, a)
		g.history = append(g.history, record)
		m.beat(g, instance, a)
		m.announce(g, instance, a)
	}
	return len(instance.actions) > 0
}

// beat restarts the timer of an action.
func (m *Model) beat(g *Group, instance *Instance, a *action) {
	a.deadline = m.timeline.Now().Add(time.Duration(a.hook.HeartbeatTimeout) * time.Second)
	if a.deadline.After(a.last) {
		a.deadline = a.last
	}
	m.events.deadline.At(a.deadline,
		deadline{g.AutoScalingGroupARN, instance.InstanceID, a.LifecycleActionToken, a.deadline})
}

// announce sends an action to EventBridge and the notification target.
func (m *Model) announce(g *Group, instance *Instance, a *action) {
	detailType, origin, destination := "EC2 Instance-launch Lifecycle Action", "EC2", "AutoScalingGroup"
	if a.hook.LifecycleTransition == Leaving {
		detailType, origin, destination = "EC2 Instance-terminate Lifecycle Action", "AutoScalingGroup", "EC2"
	}
	detail := map[string]any{
		"LifecycleActionToken": a.LifecycleActionToken, "AutoScalingGroupName": g.AutoScalingGroupName,
		"LifecycleHookName": a.hook.LifecycleHookName,
		"EC2InstanceId":     instance.InstanceID, "LifecycleTransition": a.hook.LifecycleTransition, "Origin": origin,
		"Destination": destination,
	}
	if a.hook.NotificationMetadata != "" {
		detail["NotificationMetadata"] = a.hook.NotificationMetadata
	}
	m.options.Put(events.Event{Source: "aws.autoscaling", DetailType: detailType,
		Resources: []string{g.AutoScalingGroupARN}, Detail: detail})
	if a.hook.NotificationTargetARN == "" {
		return
	}
	message := map[string]any{
		"AccountId": m.options.Account, "RequestId": m.uuid(), "Service": "AWS Auto Scaling",
		"Time": m.timeline.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
	}
	for key, value := range detail {
		message[key] = value
	}
	// The target existed when the hook was created; if it was deleted since, it gets no notification.
	_ = m.notify(&a.hook, message)
}

// complete ends an action. When none is left, or one is abandoned, the instance proceeds.
func (m *Model) complete(g *Group, instance *Instance, a *action, result string, by EndedBy) {
	a.end(m.timeline.Now(), result, by)
	instance.actions = slices.DeleteFunc(instance.actions, func(other *action) bool { return other == a })
	launching := a.hook.LifecycleTransition == Launching
	switch {
	case launching && result == Abandon:
		m.terminate(g, instance, "an instance was terminated because a lifecycle hook was abandoned")
	case len(instance.actions) > 0 && result != Abandon:
	case launching:
		instance.LifecycleState = PendingProceed
		m.enterService(g, instance)
	default:
		m.endActions(instance, result)
		m.end(instance)
	}
}

func (a *action) end(now time.Time, result string, by EndedBy) {
	a.Ended, a.Result, a.EndedBy = now, result, by
}

// endActions ends all other actions that hold an instance.
func (m *Model) endActions(instance *Instance, result string) {
	for _, a := range instance.actions {
		a.end(m.timeline.Now(), result, ByTermination)
	}
	instance.actions = nil
}

// LifecycleActionInput names an action by its instance or its token.
type LifecycleActionInput struct {
	AutoScalingGroupName string `query:"AutoScalingGroupName"`
	LifecycleHookName    string `query:"LifecycleHookName"`
	InstanceID           string `query:"InstanceId"`
	LifecycleActionToken string `query:"LifecycleActionToken"`
}

// CompleteLifecycleActionInput is the request of CompleteLifecycleAction.
type CompleteLifecycleActionInput struct {
	LifecycleActionInput
	LifecycleActionResult string `query:"LifecycleActionResult"`
}

// CompleteLifecycleAction completes an action that holds an instance.
func (m *Model) CompleteLifecycleAction(in *CompleteLifecycleActionInput) (*Nothing, error) {
	if in.LifecycleActionResult != Continue && in.LifecycleActionResult != Abandon {
		return nil, validation("Lifecycle action result '%s' is not one of %s, %s", in.LifecycleActionResult,
			Continue, Abandon)
	}
	g, instance, a, err := m.action(in.LifecycleActionInput)
	if err != nil {
		return nil, err
	}
	m.complete(g, instance, a, in.LifecycleActionResult, ByCall)
	return &Nothing{}, nil
}

// RecordLifecycleActionHeartbeat extends the time of the hook that holds an instance.
func (m *Model) RecordLifecycleActionHeartbeat(in *LifecycleActionInput) (*Nothing, error) {
	g, instance, a, err := m.action(*in)
	if err != nil {
		return nil, err
	}
	m.beat(g, instance, a)
	a.Heartbeats++
	return &Nothing{}, nil
}

func (m *Model) action(in LifecycleActionInput) (*Group, *Instance, *action, error) {
	g, err := m.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, nil, nil, err
	}
	if !slices.ContainsFunc(g.hooks, func(h *Hook) bool { return h.LifecycleHookName == in.LifecycleHookName }) {
		return nil, nil, nil, validation("No Lifecycle Hook found with name '%s' for AutoScalingGroup '%s'",
			in.LifecycleHookName, in.AutoScalingGroupName)
	}
	for _, instance := range g.Instances {
		for _, a := range instance.actions {
			if in.means(a.LifecycleAction) {
				return g, instance, a, nil
			}
		}
	}
	if at := slices.IndexFunc(g.history, in.means); at >= 0 {
		g.history[at].Refused++
	}
	if in.LifecycleActionToken != "" {
		return nil, nil, nil, validation("No active Lifecycle Action found with token %s", in.LifecycleActionToken)
	}
	return nil, nil, nil, validation("No active Lifecycle Action found with instance ID %s", in.InstanceID)
}

// means reports whether an action is the named one, by token or by instance.
func (in LifecycleActionInput) means(a *LifecycleAction) bool {
	named := in.LifecycleActionToken == a.LifecycleActionToken || in.LifecycleActionToken == "" &&
		in.InstanceID == a.InstanceID
	return a.LifecycleHookName == in.LifecycleHookName && named && (in.InstanceID == "" || in.InstanceID == a.InstanceID)
}

func validation(format string, args ...any) *apierror.Error {
	return apierror.New("ValidationError", format, args...)
}

// DeleteLifecycleHookInput is the request of DeleteLifecycleHook.
type DeleteLifecycleHookInput struct {
	AutoScalingGroupName string `query:"AutoScalingGroupName"`
	LifecycleHookName    string `query:"LifecycleHookName"`
}

// DeleteLifecycleHook deletes a hook. The instances that it holds proceed: with ABANDON for launches, CONTINUE for
// terminations.
func (m *Model) DeleteLifecycleHook(in *DeleteLifecycleHookInput) (*Nothing, error) {
	g, err := m.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	named := func(h *Hook) bool { return h.LifecycleHookName == in.LifecycleHookName }
	if !slices.ContainsFunc(g.hooks, named) {
		return nil, validation("No Lifecycle Hook found with name '%s' for AutoScalingGroup '%s'", in.LifecycleHookName,
			in.AutoScalingGroupName)
	}
	g.hooks = slices.DeleteFunc(g.hooks, named)
	for _, instance := range slices.Clone(g.Instances) {
		for _, a := range slices.Clone(instance.actions) {
			if a.hook.LifecycleHookName != in.LifecycleHookName {
				continue
			}
			result := Continue
			if a.hook.LifecycleTransition == Launching {
				result = Abandon
			}
			m.complete(g, instance, a, result, ByHook)
		}
	}
	return &Nothing{}, nil
}

// DescribeLifecycleHooksInput is the request of DescribeLifecycleHooks.
type DescribeLifecycleHooksInput struct {
	AutoScalingGroupName string   `query:"AutoScalingGroupName"`
	LifecycleHookNames   []string `query:"LifecycleHookNames"`
}

// DescribeLifecycleHooksOutput is its answer.
type DescribeLifecycleHooksOutput struct {
	LifecycleHooks []*Hook `json:"lifecycleHooks" xml:"LifecycleHooks"`
}

// DescribeLifecycleHooks lists the hooks of a group.
func (m *Model) DescribeLifecycleHooks(in *DescribeLifecycleHooksInput) (*DescribeLifecycleHooksOutput, error) {
	g, err := m.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	out := &DescribeLifecycleHooksOutput{}
	for _, hook := range g.hooks {
		if len(in.LifecycleHookNames) == 0 || slices.Contains(in.LifecycleHookNames, hook.LifecycleHookName) {
			copied := *hook
			out.LifecycleHooks = append(out.LifecycleHooks, &copied)
		}
	}
	return out, nil
}
