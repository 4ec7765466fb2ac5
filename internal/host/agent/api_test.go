// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// TestAnAgentWatchesItsOwnObjects: the API server dispatches only watches by name without work for each agent. The names
// of the interfaces come from one list.
func TestAnAgentWatchesItsOwnObjects(t *testing.T) {
	server := serve(t, withPods(), attached())
	requests := make(chan string, 1000)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.URL.Query(); !query.Has("sendInitialEvents") && r.Method == http.MethodGet {
			kind := "list"
			if query.Has("watch") {
				kind = "watch"
			}
			selector, _ := url.QueryUnescape(query.Get("fieldSelector") + query.Get("labelSelector"))
			requests <- kind + " " + r.URL.Path + " " + selector
		}
		server.answer(w, r)
	}))
	t.Cleanup(proxy.Close)
	runAgent(t, proxy.URL, &paper{touched: map[int]int{}, events: make(chan struct{})})
	const interfaces = "/apis/networking.k8s.aws/v1alpha1/networkinterfaces "
	want := []string{
		"list /api/v1/nodes metadata.name=node-1",
		"list " + interfaces + "metadata.name=" + objectName,
		"list " + interfaces + "metadata.name=web-" + instance + "-0",
		"list " + interfaces + v1alpha1.InstanceLabel + "=" + instance,
		"watch /api/v1/nodes metadata.name=node-1",
		"watch " + interfaces + "metadata.name=" + objectName,
		"watch " + interfaces + "metadata.name=web-" + instance + "-0",
	}
	var seen []string
	for len(seen) < len(want) {
		select {
		case request := <-requests:
			if !slices.Contains(seen, request) {
				seen = append(seen, request)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("requested %v", seen)
		}
	}
	slices.Sort(seen)
	if diff := gocmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// runAgent runs an agent until the test ends.
func runAgent(t *testing.T, url string, host agent.Host) {
	t.Helper()
	api, err := agent.Connect(&rest.Config{Host: url}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	pods := filepath.Join(t.TempDir(), "pods")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.New(agent.Options{Node: "node-1", API: api, Host: host, Resync: time.Minute, PodsDir: pods, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// growing is a host that gets a link.
type growing struct {
	paper
	mu sync.Mutex
}

func (g *growing) Facts(devices []string) (hostnet.Facts, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paper.Facts(devices)
}

func (g *growing) get(link hostnet.LinkFacts) {
	g.mu.Lock()
	g.facts.Links = append(g.facts.Links, link)
	g.mu.Unlock()
	g.events <- struct{}{}
}

// TestALinkTellsOfAnotherObject: a link appears whose object was made after the agent listed those of its instance.
func TestALinkTellsOfAnotherObject(t *testing.T) {
	server := serve(t, attached())
	host := &growing{paper: paper{touched: map[int]int{}, events: make(chan struct{})}}
	runAgent(t, server.URL, host)
	server.next() // about the object that was there
	later := withPods()
	later.Status.ENIID, later.Status.MACAddress = "eni-2", "02:00:00:00:00:0b"
	server.put(later)
	host.get(hostnet.LinkFacts{Index: 9, Name: "ens7", MAC: later.Status.MACAddress, Device: device})
	for server.get(later.Name).Status.Node == nil {
		server.next()
	}
}

// TestANodeNamesAnotherObject: an interface without a link that is being deleted waits for the answer of the agent.
func TestANodeNamesAnotherObject(t *testing.T) {
	first := attached()
	server := serve(t, first)
	server.name(first.Name)
	runAgent(t, server.URL, &growing{paper: paper{touched: map[int]int{}, events: make(chan struct{})}})
	server.next() // about the object that was there
	later := withPods()
	later.Status.ENIID, later.Status.MACAddress, later.Status.Evidence = "eni-2", "02:00:00:00:00:0b", v1alpha1.EvidenceTakenOver
	later.DeletionTimestamp = new(metav1.Now())
	server.put(later)
	server.name(first.Name + "," + later.Name)
	for server.get(later.Name).Status.Node == nil {
		server.next()
	}
	if server.get(later.Name).Status.Node.Open {
		t.Error("the agent opens an interface that is being deleted")
	}
	if lists := server.lists(); lists > 0 {
		t.Errorf("the agent lists objects %d times that its Node names", lists)
	}
}
