// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/join/join"
)

// slowCreate delays the create calls for one subnet, and records when attach calls were sent.
type slowCreate struct {
	http.RoundTripper
	subnetID string
	delay    time.Duration
	mu       sync.Mutex // guards attached
	attached []time.Time
}

// RoundTrip implements [http.RoundTripper].
func (s *slowCreate) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case bytes.Contains(body, []byte("Action=CreateNetworkInterface&")) && bytes.Contains(body, []byte(s.subnetID)):
		time.Sleep(s.delay)
	case bytes.Contains(body, []byte("Action=AttachNetworkInterface&")):
		s.mu.Lock()
		s.attached = append(s.attached, time.Now())
		s.mu.Unlock()
	}
	return s.RoundTripper.RoundTrip(r)
}

// TestAnInterfaceIsAttachedWhileAnotherIsCreated delays the create call for one of two networks by 5 s.
func TestAnInterfaceIsAttachedWhileAnotherIsCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		slow := &slowCreate{RoundTripper: s.sim.Transport(), subnetID: subnetA, delay: 5 * time.Second}
		s.cfg.HTTPClient = &http.Client{Transport: slow}
		time.Sleep(time.Minute) // the instance runs
		begun := time.Now()
		s.ensure(t.Context(), s.joiner(), join.Request{})
		if len(slow.attached) != 2 {
			t.Fatalf("%d attach calls were sent, want 2", len(slow.attached))
		}
		if first := slow.attached[0].Sub(begun); first >= slow.delay {
			t.Errorf("the first attach call was sent after %s, want less than the %s of the other interface's create call", first, slow.delay)
		}
	})
}
