// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/host/agent"
)

// Many clients write to a Node. The agent retries after a conflict, and logs no error.
func TestAWriteConflictIsNoError(t *testing.T) {
	state := &v1alpha1.NodeENIState{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeENIState"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"},
		Status: v1alpha1.NodeENIStateStatus{Interfaces: []v1alpha1.InterfaceState{{
			Member: v1alpha1.Member{NodeENI: "web"}, ENIID: "eni-00000000000000001", MACAddress: mac, Phase: v1alpha1.PhaseAttached,
		}}},
	}
	tries := make(chan int, 100)
	var count atomic.Int32
	server := serveNode(t, state, func(w http.ResponseWriter, r *http.Request) bool {
		try := count.Add(1)
		tries <- int(try)
		if try > 1 {
			return false
		}
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "node-1", nil)
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(conflict.Status())
		return true
	})
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- agent.New(agent.Options{
			Node: "node-1", API: api, Host: &paper{touched: map[int]int{}, events: make(chan struct{})}, Resync: time.Minute,
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.Level(-1)})),
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
