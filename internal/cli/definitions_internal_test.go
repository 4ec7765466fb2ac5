// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// knows is an API server that knows some kinds at each request; the last entry is repeated.
func knows(t *testing.T, looks ...[]string) *rest.Config {
	t.Helper()
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		look := looks[min(int(n.Add(1)), len(looks))-1]
		if look == nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var list metav1.APIResourceList
		for _, kind := range look {
			list.APIResources = append(list.APIResources, metav1.APIResource{Kind: kind})
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestAControllerWaitsForItsDefinitions(t *testing.T) {
	all := []string{"NodeENI", "NetworkInterface", "AWSNodeTemplate", "SubnetReservation", "FloatingAddress"}
	for name, tc := range map[string]struct {
		looks [][]string
		says  string
	}{
		"all are there":                     {looks: [][]string{all}},
		"none is there":                     {looks: [][]string{nil, nil, all}, says: `missing="NodeENI, NetworkInterface, AWSNodeTemplate, SubnetReservation, FloatingAddress"`},
		"NetworkInterfaces are not defined": {looks: [][]string{{all[0], all[2], all[3], all[4]}, {all[0], all[2], all[3], all[4]}, all}, says: "missing=NetworkInterface"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			if err := waitForCRDs(t.Context(), knows(t, tc.looks...), "127.0.0.1:0", slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), tc.says) || tc.says == "" && log.Len() > 0 {
				t.Errorf("the log says\n%s", log.String())
			}
		})
	}
}

func TestAProcessThatWaitsIsLiveAndNotReady(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	ended, err := waitInProbes(t.Context(), address, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer ended()
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if reply.Body.Close(); reply.StatusCode != want {
			t.Errorf("%s answers %d, want %d", path, reply.StatusCode, want)
		}
	}
}

func TestAControllerThatWaitsForDefinitionsCanBeStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := waitForCRDs(ctx, knows(t, nil), "0", slog.New(slog.DiscardHandler))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
