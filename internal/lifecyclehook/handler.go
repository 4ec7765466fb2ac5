// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecyclehook answers the events of instances' lives: it gives those that join their interfaces, completes
// the lifecycle actions that wait for that, and cleans up after those that end.
//
// An event is a hint. What is done rests on what EC2 and Auto Scaling say when it is handled: which group an instance
// is in, in which hook it waits, and whether it is being terminated. So events can come twice, late, in another order,
// forged, or not at all as long as another one or a tick comes. A [Handler] handles one; [Serve] takes them from a
// queue, and [Lambda] from AWS Lambda.
package lifecyclehook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join"
	"github.com/multieni/multieni/internal/panics"
)

const (
	// groupTag is the tag with which Auto Scaling marks the instances of a group.
	groupTag = "aws:autoscaling:groupName"
	// scheduledConcurrency is how many instances a scheduled check handles concurrently. Concurrent reads share their
	// calls.
	scheduledConcurrency = 64
	// deadlineMargin is how long before the end of a handling's time it is given back, so that hooks can still be
	// answered.
	deadlineMargin = 10 * time.Second
)

// ErrRetry says that an event could not be handled to its end and is to be handled again.
var ErrRetry = errors.New("not finished")

// AutoScaling is what the handler needs from Auto Scaling.
type AutoScaling interface {
	// Complete ends a lifecycle action. That there is none any more is success.
	Complete(ctx context.Context, hook lifecycle.HookRef, instanceID string, result lifecycle.Policy) error
	// Heartbeat gives a lifecycle action its whole time again.
	Heartbeat(ctx context.Context, hook lifecycle.HookRef, instanceID string) error
	// Waiting returns the hooks in which an instance waits for its launch or its termination, by kind
	// [lifecycle.Launching] or [lifecycle.Terminating].
	Waiting(ctx context.Context, instanceID string, kind lifecycle.Kind) ([]lifecycle.HookRef, error)
}

// Instances is what the handler needs from EC2 in addition to what the joiner does.
type Instances interface {
	DescribeInstance(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error)
	TaggedInstances(ctx context.Context, key, value string) ([]eni.Instance, error)
	ListOwned(context.Context) ([]eni.Interface, time.Time, error)
}

// Joiner is package join's.
type Joiner interface {
	Ensure(context.Context, join.Request) (join.Result, error)
	PrepareTermination(ctx context.Context, instanceID string) error
	CleanUpTerminated(ctx context.Context, instanceID string) error
}

// Options are what a Handler works with.
type Options struct {
	Config lifecycle.Config
	// Account and Region are where the instances are. Events that say they are of elsewhere are refused; any are taken
	// where a field is empty. In AWS Lambda the account is the function's.
	Account, Region string
	Instances       Instances
	AutoScaling     AutoScaling
	Joiner          Joiner
	// Patience is how long to wait for interfaces that may yet come.
	Patience time.Duration
	// Heartbeat is the time between two heartbeats.
	Heartbeat time.Duration
	Observer  Observer
	Log       *slog.Logger
}

// Result is how the handling of an event ended: one of these or, for an instance that was prepared, its
// [lifecycle.Outcome].
type Result string

// The results.
const (
	// Done is the result of events without an outcome.
	Done Result = "Done"
	// NotServed instances have no trigger, or are of a group that is not listed.
	NotServed Result = "NotServed"
	// Retry events could not be handled to their end; Malformed ones are no events and will never be.
	Retry     Result = "Retry"
	Malformed Result = "Malformed"
)

// Handled tells of one event. Its kind is empty when it is malformed.
type Handled struct {
	Kind   lifecycle.Kind
	Result Result
	Took   time.Duration
}

// Prepared tells of one instance that was given its interfaces, or was not. There are many of them in a tick.
type Prepared struct {
	// Attached is how many interfaces were attached for it.
	Attached int
	// Failure is the reason for which a required network is not available; empty when none is permanently missing.
	Failure string
}

// Observer receives what the handler did, from many goroutines.
type Observer interface {
	Handled(Handled)
	Prepared(Prepared)
}

// Handler is safe for concurrent use.
type Handler struct {
	Options
	recent recent
}

// New returns a Handler.
func New(o Options) *Handler { return &Handler{Options: o} }

// Handle handles one message. A [lifecycle.MalformedError] will be no better the next time; any other error is reason
// to handle the message again.
func (h *Handler) Handle(ctx context.Context, body []byte) error {
	begin := time.Now()
	event, err := lifecycle.Decode(body)
	if err == nil {
		err = event.CheckPlace(h.account(ctx), h.Region)
	}
	if err != nil {
		h.Log.Error("the message is no event for this handler, and stays where it came from", "err", err)
		h.Observer.Handled(Handled{Result: Malformed, Took: time.Since(begin)})
		return err
	}
	log := h.Log.With("event", event.Kind, "instance", event.InstanceID)
	var result Result
	err = panics.AsError(fmt.Sprintf("event %s of instance %s", event.Kind, event.InstanceID), func() (err error) {
		result, err = h.handle(ctx, event)
		return err
	})
	if err != nil {
		log.Warn("the event is to be handled again", "took", time.Since(begin), "err", err)
		result = Retry
	} else {
		log.Info("handled", "took", time.Since(begin), "group", event.Hook.Group, "hook", event.Hook.Name, "why", event.Why)
	}
	h.Observer.Handled(Handled{event.Kind, result, time.Since(begin)})
	return err
}

func (h *Handler) handle(ctx context.Context, event lifecycle.Event) (Result, error) {
	switch event.Kind {
	case lifecycle.Launching:
		return h.launch(ctx, event)
	case lifecycle.Running:
		return h.once(event, func() (Result, error) { return h.handleLaunch(ctx, event, nil) })
	case lifecycle.Terminating:
		return h.terminate(ctx, event)
	case lifecycle.Stopped:
		return h.once(event, func() (Result, error) { return Done, h.Joiner.CleanUpTerminated(ctx, event.InstanceID) })
	case lifecycle.Scheduled:
		return Done, h.runScheduled(ctx)
	default:
		return Done, nil
	}
}

// launch gives an instance its interfaces and answers the event's hook, if Auto Scaling says that the instance waits in
// it. Otherwise the event is late or forged: it then only names an instance that runs.
func (h *Handler) launch(ctx context.Context, event lifecycle.Event) (Result, error) {
	waits, err := h.confirmed(ctx, event)
	if err != nil {
		return Retry, err
	}
	if !waits {
		h.Log.Warn("Auto Scaling does not keep the instance waiting in this launch hook, which is not answered",
			"instance", event.InstanceID, "group", event.Hook.Group, "hook", event.Hook.Name)
		event.Kind, event.Hook = lifecycle.Running, lifecycle.HookRef{}
		return h.once(event, func() (Result, error) { return h.handleLaunch(ctx, event, nil) })
	}
	return h.once(event, func() (Result, error) { return h.handleLaunch(ctx, event, h.ownHooks(event.Hook)) })
}

// terminate removes the interfaces of an instance that waits for its termination. It does nothing if only the event,
// and not EC2, says so. It never delays the termination.
func (h *Handler) terminate(ctx context.Context, event lifecycle.Event) (Result, error) {
	leaves, err := h.confirmed(ctx, event)
	if err != nil {
		return Retry, err
	}
	if !leaves || !h.Config.Serves(event.Hook.Group) {
		h.Log.Warn("Auto Scaling does not terminate the instance in this hook of a served group; nothing is done",
			"instance", event.InstanceID, "group", event.Hook.Group, "hook", event.Hook.Name)
		return NotServed, nil
	}
	return h.once(event, func() (Result, error) {
		err := h.Joiner.PrepareTermination(ctx, event.InstanceID)
		return Done, errors.Join(err, h.complete(ctx, h.ownHooks(event.Hook), event.InstanceID, lifecycle.Continue))
	})
}

// confirmed reports whether Auto Scaling says that the instance is in the group and waits in the hook that the event
// names.
func (h *Handler) confirmed(ctx context.Context, event lifecycle.Event) (bool, error) {
	waiting, err := h.recent.waiting(event, func() ([]lifecycle.HookRef, error) {
		return h.AutoScaling.Waiting(ctx, event.InstanceID, event.Kind)
	})
	return slices.ContainsFunc(waiting, func(hook lifecycle.HookRef) bool {
		return hook.Group == event.Hook.Group && hook.Name == event.Hook.Name
	}), err
}

// once handles an event, unless it was handled a moment ago or is being handled: then the result is the same.
func (h *Handler) once(event lifecycle.Event, handle func() (Result, error)) (Result, error) {
	return h.recent.result(event, handle)
}

// handleLaunch gives an instance its interfaces, and tells the hooks that wait for it: those given, and without any
// those that Auto Scaling names.
func (h *Handler) handleLaunch(ctx context.Context, event lifecycle.Event, hooks []lifecycle.HookRef) (Result, error) {
	look, err := h.Instances.DescribeInstance(ctx, event.InstanceID)
	if err != nil {
		return Retry, err
	}
	instance := look.Instance
	switch {
	case instance.State == eni.InstanceMissing:
		return Retry, fmt.Errorf("%w: EC2 does not know instance %s yet", ErrRetry, event.InstanceID)
	case instance.State.Terminating():
		h.Log.Info("the instance has ended", "instance", instance.ID)
		return Result(lifecycle.Gone), nil
	case !h.Config.Trigger.Matches(instance.Tags) || !h.Config.Serves(groupOf(event, instance)):
		h.Log.Info("the instance is not to be served", "instance", instance.ID, "tag", h.Config.Trigger.TagKey)
		return NotServed, h.complete(ctx, hooks, instance.ID, lifecycle.Continue)
	}
	if event.Kind != lifecycle.Launching {
		if hooks, err = h.hooks(ctx, instance); err != nil {
			return Retry, err
		}
	}
	return h.prepare(ctx, instance.ID, hooks)
}

// prepare gives an instance its interfaces while hooks wait.
func (h *Handler) prepare(ctx context.Context, instanceID string, hooks []lifecycle.HookRef) (Result, error) {
	stop := h.heartbeat(ctx, hooks, instanceID)
	defer stop()
	work, cancel := endsBefore(ctx, deadlineMargin)
	defer cancel()
	result, err := h.Joiner.Ensure(work, join.Request{
		InstanceID: instanceID, Timeout: h.Patience,
		NothingRunning: func(ctx context.Context) bool { return len(hooks) > 0 && h.waits(ctx, instanceID) },
	})
	stop()
	h.Observer.Prepared(Prepared{Attached: result.Attached, Failure: result.Reason})
	if err != nil {
		return Retry, errors.Join(ErrRetry, err)
	}
	log := h.Log.With("instance", instanceID, "outcome", result.Outcome)
	switch result.Outcome {
	case lifecycle.Ready:
		log.Info("the instance has its networks", "lacking", result.Missing, "notImported", unowned(result.Served))
		err = h.complete(ctx, hooks, instanceID, lifecycle.Continue)
	case lifecycle.Failed:
		log.Error("a required network is not available, and no interface was left on the instance for it",
			"why", result.Why, "onFailure", h.Config.OnFailure)
		err = h.complete(ctx, hooks, instanceID, h.Config.OnFailure)
	default:
		log.Info("the instance needs nothing any more", "why", result.Why)
	}
	return Result(result.Outcome), err
}

// unowned returns the IDs of the interfaces without an owner that serve networks, until a person imports them.
func unowned(served []eni.Interface) []string {
	var ids []string
	for _, i := range served {
		if identity.HasNoOwner(i.Tags) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// endsBefore returns a context that ends some time before its parent, if that ends at a known time at all.
func endsBefore(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	if end, known := ctx.Deadline(); known {
		return context.WithDeadline(ctx, end.Add(-by))
	}
	return context.WithCancel(ctx)
}

// hooks returns those of ours in which Auto Scaling keeps a launching instance: the event of the hook may have been
// lost.
func (h *Handler) hooks(ctx context.Context, instance eni.Instance) ([]lifecycle.HookRef, error) {
	if len(h.Config.Hooks) == 0 || instance.Tags[groupTag] == "" {
		return nil, nil
	}
	waiting, err := h.AutoScaling.Waiting(ctx, instance.ID, lifecycle.Launching)
	return h.ownHooks(waiting...), err
}

// waits reports whether Auto Scaling keeps an instance out of service for a hook of ours. The event that says so can be
// one of long ago, redriven from the dead letters.
func (h *Handler) waits(ctx context.Context, instanceID string) bool {
	waiting, err := h.AutoScaling.Waiting(ctx, instanceID, lifecycle.Launching)
	if err != nil {
		h.Log.Warn("it is not known whether the instance waits in a hook; what it had before stays",
			"instance", instanceID, "err", err)
	}
	return err == nil && len(h.ownHooks(waiting...)) > 0
}

// ownHooks keeps the hooks that are ours to complete.
func (h *Handler) ownHooks(hooks ...lifecycle.HookRef) []lifecycle.HookRef {
	var ours []lifecycle.HookRef
	for _, hook := range hooks {
		if hook.Name != "" && h.Config.Owns(hook) {
			ours = append(ours, hook)
		}
	}
	return ours
}

func (h *Handler) complete(
	ctx context.Context, hooks []lifecycle.HookRef, instanceID string, result lifecycle.Policy,
) error {
	for _, hook := range hooks {
		if err := h.AutoScaling.Complete(ctx, hook, instanceID, result); err != nil {
			return err
		}
		h.Log.Info("the lifecycle action is completed", "instance", instanceID, "group", hook.Group, "hook", hook.Name,
			"result", result)
	}
	return nil
}

// heartbeat keeps lifecycle actions from running out of time until it is stopped.
func (h *Handler) heartbeat(ctx context.Context, hooks []lifecycle.HookRef, instanceID string) (stop func()) {
	if len(hooks) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(h.Heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for _, hook := range hooks {
				err := panics.AsError("heartbeat of instance "+instanceID, func() error {
					return h.AutoScaling.Heartbeat(ctx, hook, instanceID)
				})
				if err != nil && ctx.Err() == nil {
					h.Log.Warn("no heartbeat", "instance", instanceID, "hook", hook.Name, "err", err)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// runScheduled handles every instance to serve, and the interfaces of instances that do not exist any more.
func (h *Handler) runScheduled(ctx context.Context) error {
	instances, err := h.Instances.TaggedInstances(ctx, h.Config.Trigger.TagKey, h.Config.Trigger.TagValue)
	if err != nil {
		return err
	}
	owned, _, err := h.Instances.ListOwned(ctx)
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	var group errgroup.Group
	group.SetLimit(scheduledConcurrency)
	for _, i := range instances {
		alive[i.ID] = true
		group.Go(func() error {
			return panics.AsError("instance "+i.ID, func() error {
				_, err := h.handleLaunch(ctx, lifecycle.Event{Kind: lifecycle.Running, InstanceID: i.ID}, nil)
				return err
			})
		})
	}
	held := networksOf(h.Config.Cluster, owned)
	h.logUnlisted(alive, held)
	for id := range held {
		if !alive[id] {
			group.Go(func() error {
				err := panics.AsError("instance "+id, func() error { return h.Joiner.CleanUpTerminated(ctx, id) })
				if errors.Is(err, join.ErrInstanceRunning) {
					return nil
				}
				return err
			})
		}
	}
	return group.Wait()
}

// logUnlisted logs the networks whose interfaces stay on live instances although no configuration lists them.
func (h *Handler) logUnlisted(alive map[string]bool, held map[string]map[string]int) {
	all := map[string]int{}
	for id, networks := range held {
		for name, n := range networks {
			if alive[id] {
				all[name] += n
			}
		}
	}
	for name, n := range h.Config.Unlisted(all) {
		h.Log.Warn("interfaces of a network that is not listed stay until their instances end; list it in removed to "+
			"have them removed",
			"network", name, "interfaces", n)
	}
}

// networksOf counts the interfaces that were made for networks, by instance and network.
func networksOf(cluster string, owned []eni.Interface) map[string]map[string]int {
	held := map[string]map[string]int{}
	for _, i := range owned {
		m, verdict := identity.Read(cluster, i.Tags)
		if verdict != identity.Owned || !m.Owner.IsNetwork() {
			continue
		}
		if held[m.InstanceID] == nil {
			held[m.InstanceID] = map[string]int{}
		}
		held[m.InstanceID][m.NodeENI]++
	}
	return held
}

// groupOf is the Auto Scaling group of an instance, "" if it has none: that of the event for a launch, which Auto
// Scaling has confirmed, else that of the tag, which only Auto Scaling can write.
func groupOf(event lifecycle.Event, instance eni.Instance) string {
	if event.Kind == lifecycle.Launching {
		return event.Hook.Group
	}
	return instance.Tags[groupTag]
}
