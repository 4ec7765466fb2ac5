// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/clock"
	"github.com/multieni/multieni/internal/core/identity"
)

// startup checks that this process can do the work of a leader: its cluster name is the one in use, and EC2 answers it.
// Every replica does, so that a rollout of a configuration that does not work ends before it replaces the leader.
type startup struct {
	Name interface {
		Check(context.Context) (*corev1.ConfigMap, error)
	}
	EC2 interface{ Ping(context.Context) error }
	// Events receives an Event about this pod for each failure; nil emits none.
	Events events.EventRecorder
	Log    *slog.Logger

	// mu guards found.
	mu    sync.Mutex
	found *startupStatus
}

// startupStatus has the errors of the checks; nil for success.
type startupStatus struct{ name, ec2 error }

// err returns the errors of both checks as one.
func (s startupStatus) err() error { return errors.Join(s.name, s.ec2) }

var errUnchecked = errors.New("not checked yet")

// status returns the results of the last checks.
func (s *startup) status() startupStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		return startupStatus{errUnchecked, errUnchecked}
	}
	return *s.found
}

// NeedLeaderElection is false: a standby replica checks, too.
func (s *startup) NeedLeaderElection() bool { return false }

// The times between two failed checks.
const (
	firstStartupRetry   = time.Second
	longestStartupRetry = 30 * time.Second
)

// Start checks until both checks have succeeded once.
func (s *startup) Start(ctx context.Context) error {
	for retry := firstStartupRetry; ; retry = min(2*retry, longestStartupRetry) {
		now := s.check(ctx)
		before := s.status()
		s.mu.Lock()
		s.found = &now
		s.mu.Unlock()
		if now.err() == nil {
			return nil
		}
		if ctx.Err() == nil && now.err().Error() != before.err().Error() {
			s.report(ctx, now)
		}
		if !clock.Sleep(ctx, retry) {
			return nil
		}
	}
}

// check makes both checks. The name in use may have to be read from EC2.
func (s *startup) check(ctx context.Context) startupStatus {
	now := startupStatus{ec2: s.EC2.Ping(ctx)}
	_, now.name = s.Name.Check(ctx)
	return now
}

// report logs why this replica is not ready, and emits an Event about its pod.
func (s *startup) report(ctx context.Context, now startupStatus) {
	err, reason := now.ec2, v1alpha1.ReasonUnreadable
	switch {
	case errors.As(now.name, new(*identity.OtherNameError)):
		err, reason = now.name, v1alpha1.ReasonOtherClusterName
	case err == nil:
		err = now.name
	}
	s.Log.LogAttrs(ctx, slog.LevelError, "this replica is not ready", slog.String("reason", reason), slog.Any("err", err))
	pod := ownPod()
	if s.Events == nil || pod == nil {
		return
	}
	s.Events.Eventf(pod, nil, corev1.EventTypeWarning, reason, "Start", "the controller is not ready: %v", err)
}

// ownPod refers to the pod of this process; nil outside of a pod.
func ownPod() *corev1.ObjectReference {
	namespace, err := os.ReadFile(ownNamespace)
	name, errName := os.Hostname()
	if err != nil || errName != nil {
		return nil
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: strings.TrimSpace(string(namespace)),
		Name: name}
}
