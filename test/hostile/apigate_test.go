// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// apiGate is a proxy between controllers and the API server. It forwards everything, as an administrator, until an
// interference is set.
type apiGate struct {
	*httptest.Server
	forward *httputil.ReverseProxy

	mu        sync.Mutex
	interfere interference
	requests  map[permission]bool
}

// interference may answer a request in the API server's place, and reports whether it did.
type interference func(http.ResponseWriter, *http.Request) bool

func newAPIGate(t *testing.T, config *rest.Config) *apiGate {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	g := &apiGate{requests: map[permission]bool{}}
	g.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches are streams
		ErrorLog:      log.New(io.Discard, "", 0),
		// A server that cannot be reached does not answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { hangUp() },
	}
	g.Server = httptest.NewUnstartedServer(g)
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.Start()
	t.Cleanup(func() {
		g.set(nil)
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

// ServeHTTP is part of http.Handler.
func (g *apiGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	interfere := g.interfere
	if p, ok := permissionOf(r); ok {
		g.requests[p] = true
	}
	g.mu.Unlock()
	if interfere == nil || !interfere(w, r) {
		g.forward.ServeHTTP(w, r)
	}
}

// set makes the gate interfere from now on; nil ends that.
func (g *apiGate) set(i interference) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.interfere = i
}

// asked returns the permissions that requests have needed so far.
func (g *apiGate) asked() map[permission]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := make(map[permission]bool, len(g.requests))
	for p := range g.requests {
		asked[p] = true
	}
	return asked
}

// outage cuts every connection, watches too, and refuses new ones until the gate is set to something else.
func (g *apiGate) outage() {
	g.set(func(http.ResponseWriter, *http.Request) bool { hangUp(); return true })
	g.CloseClientConnections()
}

// kubeconfig writes a kubeconfig for the gate. The user is impersonated; "" is the administrator.
func (g *apiGate) kubeconfig(t *testing.T, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: gate, cluster: {server: %q}}]
users: [{name: user, user: {as: %q}}]
contexts: [{name: gate, context: {cluster: gate, user: user}}]
current-context: gate
`, g.URL, user)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hangUp closes the connection of the request being served without an answer.
func hangUp() { panic(http.ErrAbortHandler) }

// conflict answers as the API server does when an object has changed since it was read.
func conflict(w http.ResponseWriter) {
	refuse(w, http.StatusConflict, "Conflict")
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":%q,"code":%d,"message":"a test refuses this"}`, reason, code)
}

// failingStatusWrites fails every write of a status, in turn with a conflict, an internal error, and no answer for
// three seconds.
func failingStatusWrites() interference {
	next := counter()
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/status") {
			return false
		}
		switch next() % 3 {
		case 0:
			refuse(w, http.StatusInternalServerError, "InternalError")
		case 1:
			conflict(w)
		default:
			select {
			case <-r.Context().Done():
			case <-time.After(3 * time.Second):
			}
			hangUp()
		}
		return true
	}
}

// conflicts answers a third of the writes of our kinds with a conflict, and loses the answers to a fifth of the others.
// Chance decides, since retries could fall into step with every third write.
func (g *apiGate) conflicts() interference {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Float64()
	}
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "networking.k8s.aws") {
			return false
		}
		switch {
		case draw() < 1.0/3:
			conflict(w)
		case draw() < 0.2:
			g.forward.ServeHTTP(httptest.NewRecorder(), r)
			hangUp()
		default:
			return false
		}
		return true
	}
}

// counter returns a function that counts its calls.
func counter() func() int {
	var (
		mu sync.Mutex
		n  int
	)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}
