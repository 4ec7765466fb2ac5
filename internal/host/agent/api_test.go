// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/internal/host/agent"
)

// TestAnAgentWatchesItsOwnObjects: the API server must not send all nodes of a fleet to each agent.
func TestAnAgentWatchesItsOwnObjects(t *testing.T) {
	requests := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case requests <- r.Method + " " + r.URL.Path + " " + r.URL.Query().Get("fieldSelector"):
		default:
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.New(agent.Options{
			Node: "node-1", API: api, Host: &paper{touched: map[int]int{}, events: make(chan struct{})}, Resync: time.Minute, Log: slog.New(slog.DiscardHandler),
		}).Run(ctx)
	}()
	var seen []string
	for range 4 { // a client first tries one request, then two
		seen = append(seen, <-requests)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	slices.Sort(seen)
	want := []string{
		"GET /api/v1/nodes metadata.name=node-1",
		"GET /apis/networking.k8s.aws/v1alpha1/nodeenistates metadata.name=node-1",
	}
	if diff := gocmp.Diff(want, slices.Compact(seen)); diff != "" {
		t.Error(diff)
	}
}
