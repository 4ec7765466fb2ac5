// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecyclehook handles events about instances: it gives instances that join their interfaces, completes the
// lifecycle actions that wait for this, and cleans up after instances that end.
//
// An event is only a hint. The handler acts on the state of EC2 and Auto Scaling at that time: which group an instance
// is in, in which hook it waits, and whether it is being terminated. So events may be duplicated, late, out of order,
// forged, or lost if another event or a scheduled check follows. A [Handler] handles one event; a [Consumer] receives
// them from a queue, and [Handler.Lambda] from AWS Lambda.
package lifecyclehook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
)

const (
	// groupTag is the tag with which Auto Scaling marks the instances of a group.
	groupTag = "aws:autoscaling:groupName"
	// scheduledConcurrency is the number of instances that a scheduled check handles concurrently. Concurrent reads share
	// their calls.
	scheduledConcurrency = 64
	// deadlineMargin is the time before the deadline of an event at which the handler stops preparing, so that it can
	// still complete hooks.
	deadlineMargin = 10 * time.Second
)

// ErrRetry means that an event was not handled completely and must be handled again.
var ErrRetry = errors.New("not finished")

// AutoScaling is the part of Auto Scaling that the handler uses.
type AutoScaling interface {
	// Complete completes a lifecycle action. It succeeds if the action is already over.
	Complete(ctx context.Context, hook lifecycle.HookRef, instanceID string, result lifecycle.Policy) error
	// Heartbeat restarts the timeout of a lifecycle action.
	Heartbeat(ctx context.Context, hook lifecycle.HookRef, instanceID string) error
	// Waiting returns the hooks in which an instance waits for its launch or its termination, by kind
	// [lifecycle.Launching] or [lifecycle.Terminating].
	Waiting(ctx context.Context, instanceID string, kind lifecycle.Kind) ([]lifecycle.HookRef, error)
}

// Instances is the part of EC2 that the handler uses in addition to the joiner.
type Instances interface {
	DescribeInstance(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error)
	TaggedInstances(ctx context.Context, key, value string) ([]eni.Instance, error)
	ListOwned(context.Context) ([]eni.Interface, time.Time, error)
}

// Joiner is implemented by [join.Joiner].
type Joiner interface {
	Ensure(context.Context, join.Request) (join.Result, error)
	PrepareTermination(ctx context.Context, instanceID string) error
	CleanUpTerminated(ctx context.Context, instanceID string) error
}

// Options configure a Handler.
type Options struct {
	Config lifecycle.Config
	// Account and Region are those of the instances. The handler refuses events of another account or region; an empty
	// field accepts all. In AWS Lambda the account is that of the function.
	Account, Region string
	Instances       Instances
	AutoScaling     AutoScaling
	Joiner          Joiner
	// Patience is how long to wait for interfaces that may still become available.
	Patience time.Duration
	// Heartbeat is the time between two heartbeats.
	Heartbeat time.Duration
	Observer  Observer
	Log       *slog.Logger
}

// Result is the result of an event: one of these or, for an instance that was prepared, its [lifecycle.Outcome].
type Result string

// The results.
const (
	// Done is the result of events without an outcome.
	Done Result = "Done"
	// NotServed is the result for instances without the tag of the trigger, or in a group that is not listed.
	NotServed Result = "NotServed"
	// Retry means that an event was not handled completely; Malformed means that the message is not a valid event.
	Retry     Result = "Retry"
	Malformed Result = "Malformed"
)

// Handled describes one handled event. Its kind is empty when it is malformed.
type Handled struct {
	Kind   lifecycle.Kind
	Result Result
	Took   time.Duration
}

// Prepared describes the preparation of one instance, successful or not. A scheduled check has many of them.
type Prepared struct {
	// Attached is the number of interfaces that were attached.
	Attached int
	// Failure is the reason for which a required network is not available; empty when none is permanently missing.
	Failure string
}

// Observer receives the results of the handler, from many goroutines.
type Observer interface {
	Handled(Handled)
	Prepared(Prepared)
}

// Handler handles events. It is safe for concurrent use.
type Handler struct {
	Options
	recent recent
}

// New returns a Handler.
func New(o Options) *Handler { return &Handler{Options: o} }

// Handle handles one message. A [lifecycle.MalformedError] is permanent; after any other error the message should be
// handled again.
func (h *Handler) Handle(ctx context.Context, body []byte) error {
	begin := time.Now()
	event, err := lifecycle.Decode(body)
	if err == nil {
		err = event.CheckPlace(h.account(ctx), h.Region)
	}
	if err != nil {
		h.Log.Error("the message is not an event for this handler, and is not deleted", "err", err)
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
		log.Warn("the event must be handled again", "took", time.Since(begin), "err", err)
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

// launch gives an instance its interfaces and completes the event's hook, if Auto Scaling confirms that the instance
// waits in it. Otherwise the event is late or forged, and is handled as the event of a running instance.
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

// confirmed reports whether, according to Auto Scaling, the instance is in the group and waits in the hook that the
// event names.
func (h *Handler) confirmed(ctx context.Context, event lifecycle.Event) (bool, error) {
	waiting, err := h.recent.waiting(event, func() ([]lifecycle.HookRef, error) {
		return h.AutoScaling.Waiting(ctx, event.InstanceID, event.Kind)
	})
	return slices.ContainsFunc(waiting, func(hook lifecycle.HookRef) bool {
		return hook.Group == event.Hook.Group && hook.Name == event.Hook.Name
	}), err
}

// once handles an event. If the same event was handled a moment ago or is being handled, it returns that result.
func (h *Handler) once(event lifecycle.Event, handle func() (Result, error)) (Result, error) {
	return h.recent.result(event, handle)
}

// handleLaunch gives an instance its interfaces, and completes the hooks that wait for it: for a launch event the given
// ones, otherwise those in which the instance waits according to Auto Scaling.
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
		h.Log.Info("the instance is not served", "instance", instance.ID, "tag", h.Config.Trigger.TagKey)
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
		log.Info("the instance no longer needs interfaces", "why", result.Why)
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

// endsBefore returns a context that ends some time before its parent, if the parent has a deadline.
func endsBefore(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	if end, known := ctx.Deadline(); known {
		return context.WithDeadline(ctx, end.Add(-by))
	}
	return context.WithCancel(ctx)
}

// hooks returns our hooks in which a launching instance waits according to Auto Scaling: the event of the hook may have
// been lost.
func (h *Handler) hooks(ctx context.Context, instance eni.Instance) ([]lifecycle.HookRef, error) {
	if len(h.Config.Hooks) == 0 || instance.Tags[groupTag] == "" {
		return nil, nil
	}
	waiting, err := h.AutoScaling.Waiting(ctx, instance.ID, lifecycle.Launching)
	return h.ownHooks(waiting...), err
}

// waits reports whether Auto Scaling keeps an instance out of service for one of our hooks. The event alone is not
// enough: it can be an old one, redriven from the dead-letter queue.
func (h *Handler) waits(ctx context.Context, instanceID string) bool {
	waiting, err := h.AutoScaling.Waiting(ctx, instanceID, lifecycle.Launching)
	if err != nil {
		h.Log.Warn("Auto Scaling did not say whether the instance waits in a hook; its earlier interfaces stay",
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

// heartbeat keeps lifecycle actions from timing out until stop is called.
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

// runScheduled handles every instance with the tag of the trigger, and the interfaces of instances that no longer
// exist.
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

// networksOf counts the interfaces of networks, by instance and network.
func networksOf(cluster string, owned []eni.Interface) map[string]map[string]int {
	held := map[string]map[string]int{}
	for _, i := range owned {
		tagged, verdict := identity.Read(cluster, i.Tags)
		if verdict != identity.Owned || !tagged.UID.IsNetwork() {
			continue
		}
		if held[tagged.InstanceID] == nil {
			held[tagged.InstanceID] = map[string]int{}
		}
		held[tagged.InstanceID][tagged.NodeENI]++
	}
	return held
}

// groupOf returns the Auto Scaling group of an instance, or "". For a launch it is the group of the event, which Auto
// Scaling has confirmed; otherwise that of the tag, which only Auto Scaling can write.
func groupOf(event lifecycle.Event, instance eni.Instance) string {
	if event.Kind == lifecycle.Launching {
		return event.Hook.Group
	}
	return instance.Tags[groupTag]
}
