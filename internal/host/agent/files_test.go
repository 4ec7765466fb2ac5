// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/host/agent"
)

// TestFilesOutliveAStart starts an agent with files that an earlier process wrote, about an interface that has no other
// record. The agent removes them only after the controller has reported on the node: until then a pod may use that
// interface.
func TestFilesOutliveAStart(t *testing.T) {
	cases := map[string]struct {
		reported int64
		kept     bool
	}{
		"before the controller reported on the node": {0, true},
		"after": {1, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file, text, err := hostnet.Networkd(mac)
			if err != nil {
				t.Fatal(err)
			}
			networkd := filepath.Join(t.TempDir(), file)
			plugin := filepath.Join(t.TempDir(), "config.json")
			resources := string(hostpci.PluginConfig([]hostpci.Resource{{Name: "fast", Address: "0000:00:06.0", Driver: hostpci.VFIO}}))
			for path, content := range map[string]string{networkd: text, plugin: resources} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			state := &v1alpha1.NodeENIState{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeENIState"},
				ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"},
			}
			state.Status.ObservedGeneration = tc.reported
			firstPass(t, state, agent.Options{NetworkdDir: filepath.Dir(networkd), PluginConfig: plugin})

			_, err = os.Stat(networkd)
			if kept := err == nil; kept != tc.kept {
				t.Errorf("the file for systemd-networkd is kept: %t, want %t", kept, tc.kept)
			}
			now, err := os.ReadFile(plugin)
			if kept := string(now) == resources; err != nil || kept != tc.kept {
				t.Errorf("the configuration of the device plugin is kept: %t, want %t; %v", kept, tc.kept, err)
			}
		})
	}
}

// firstPass runs an agent for a whole pass against an API server with the state.
func firstPass(t *testing.T, state *v1alpha1.NodeENIState, o agent.Options) {
	t.Helper()
	server := serveNode(t, state, func(http.ResponseWriter, *http.Request) bool { return false })
	onePass(t, server, hostnet.Facts{}, o)
}

// onePass runs an agent on a host with the facts for a whole pass.
func onePass(t *testing.T, server *httptest.Server, facts hostnet.Facts, o agent.Options) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	var err error
	if o.API, err = agent.Connect(&rest.Config{Host: server.URL}, "node-1"); err != nil {
		t.Fatal(err)
	}
	host := &passing{paper{touched: map[int]int{}, events: make(chan struct{}), facts: facts}, make(chan struct{})}
	o.Node, o.Host, o.Resync, o.Log = "node-1", host, time.Millisecond, slog.New(slog.DiscardHandler)
	ended := make(chan error, 1)
	go func() { ended <- agent.New(o).Run(ctx) }()
	for range 2 { // the second read begins after all writes of the first pass
		select {
		case <-host.read:
		case <-ctx.Done():
			t.Error("the agent does not read its host")
		}
	}
	stop()
	for {
		select {
		case <-host.read:
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
}

// serveNode serves Node node-1 and its NodeENIState, which do not change. It passes patches to patched, which may
// answer them and reports whether it did.
func serveNode(t *testing.T, state *v1alpha1.NodeENIState, patched func(http.ResponseWriter, *http.Request) bool) *httptest.Server {
	t.Helper()
	return serve(t, state, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"}}, patched)
}

// serve is serveNode with a Node.
func serve(t *testing.T, state *v1alpha1.NodeENIState, node *corev1.Node, patched func(http.ResponseWriter, *http.Request) bool) *httptest.Server {
	t.Helper()
	state = state.DeepCopy()
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		if strings.Contains(r.URL.Path, "/floatingaddresses") {
			bookOf(t).ServeHTTP(w, r)
			return
		}
		revision := metav1.ListMeta{ResourceVersion: "1"}
		var object, list any = state, &v1alpha1.NodeENIStateList{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeENIStateList"}, ListMeta: revision, Items: []v1alpha1.NodeENIState{*state},
		}
		if strings.Contains(r.URL.Path, "/nodes") {
			object, list = node, &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: revision, Items: []corev1.Node{*node}}
		}
		switch {
		case r.Method == http.MethodPatch && patched(w, r):
		case r.Method == http.MethodPatch:
			_ = json.NewEncoder(w).Encode(object)
		case r.URL.Query().Has("sendInitialEvents"): // the client then requests a list
			w.WriteHeader(http.StatusUnprocessableEntity)
		case r.URL.Query().Has("watch"):
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(list)
		}
	}))
	t.Cleanup(server.Close)
	return server
}
