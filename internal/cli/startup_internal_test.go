// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// cloudAfter answers once the time has come.
type cloudAfter struct{ at time.Time }

var errNoAnswer = errors.New("EC2 does not answer")

func (c cloudAfter) Ping(context.Context) error {
	if time.Now().Before(c.at) {
		return errNoAnswer
	}
	return nil
}

// nameInUse is the result of the check of the cluster name.
type nameInUse struct{ err error }

func (n nameInUse) Check(context.Context) (*corev1.ConfigMap, error) { return nil, n.err }

func TestAReplicaIsReadyOnceEC2Answers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &startup{
			Name: nameInUse{}, EC2: cloudAfter{time.Now().Add(time.Minute)}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		if got := s.status(); got.name == nil || got.ec2 == nil {
			t.Errorf("before the first check the replica is ready: %+v", got)
		}
		ended := make(chan error)
		go func() { ended <- s.Start(t.Context()) }()
		time.Sleep(30 * time.Second)
		if got := s.status(); got.name != nil || !errors.Is(got.ec2, errNoAnswer) {
			t.Errorf("while EC2 does not answer: %+v", got)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if got := s.status(); got.name != nil || got.ec2 != nil {
			t.Errorf("once EC2 answers: %+v", got)
		}
		if lines := strings.Count(log.String(), errNoAnswer.Error()); lines != 1 {
			t.Errorf("the failure is logged %d times, want once:\n%s", lines, &log)
		}
	})
}

func TestAReplicaWithAnotherClusterNameIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := errors.New("the cluster has another name")
		s := &startup{Name: nameInUse{other}, EC2: cloudAfter{}, Log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Start(ctx) }()
		time.Sleep(time.Hour)
		if got := s.status(); !errors.Is(got.name, other) || got.ec2 != nil {
			t.Errorf("got %+v", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("a stop is no failure: %v", err)
		}
	})
}
