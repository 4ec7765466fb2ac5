// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/host/agent"
)

// The controller writes the same objects. The agent reads the object again after a conflict, and logs no error.
func TestAWriteConflictIsNoError(t *testing.T) {
	object := attached()
	object.Status.Node = &v1alpha1.NodeReport{Agent: v1alpha1.AgentProcess{BootID: "earlier", ProcessID: "earlier"},
		Link: &v1alpha1.LinkReport{State: "Ready", Reason: "LinkReady"}}
	server := serve(t, object)
	tries := make(chan int, 100)
	var count atomic.Int32
	server.patched = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if !strings.Contains(r.URL.Path, interfaces) {
			return false
		}
		try := count.Add(1)
		tries <- int(try)
		if try > 1 {
			return false
		}
		refuse(w, apierrors.NewConflict(resourceOf(), "web", nil))
		return true
	}
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	pods := filepath.Join(t.TempDir(), "pods")
	var log bytes.Buffer
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- agent.New(agent.Options{
			Node: "node-1", API: api, Host: &paper{touched: map[int]int{}, events: make(chan struct{})}, Resync: time.Minute,
			PodsDir: pods,
			Log:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.Level(-1)})),
		}).Run(ctx)
	}()
	for try := 0; try < 2; {
		select {
		case try = <-tries:
		case <-ctx.Done():
			t.Fatal("it is not tried again")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "another client changed the object") {
		t.Errorf("the log:\n%s", log.String())
	}
}
