// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// givingUp is how long a request waits for a network that does not answer.
const givingUp = 30 * time.Second

var errNoNetwork = errors.New("the network does not answer")

// Link is the connection between a controller and a server. It can be cut, and it can lose requests and replies.
type Link struct {
	server http.RoundTripper
	// latency is the time from a request to its answer, in addition to that of the server.
	latency time.Duration
	// passed receives every request that gets through; the function that it returns runs at the answer.
	passed func(*http.Request) (answered func())

	mu     sync.Mutex
	isCut  bool
	open   map[*parcel]bool
	losses float64
	// stops reports whether a request is lost; nil loses none.
	stops  func(*http.Request) bool
	random *rand.Rand
}

func newLink(server http.RoundTripper, seed uint64, latency time.Duration, passed func(*http.Request) func()) *Link {
	return &Link{server: server, latency: latency, passed: passed, open: map[*parcel]bool{},
		random: rand.New(rand.NewPCG(seed, 1))}
}

// Cut makes requests wait until they time out, and aborts responses that are being read.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	l.breakOff()
}

// Lose makes the link lose a part of all requests and replies, and aborts responses that are being read.
func (l *Link) Lose(part float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses = part
	l.breakOff()
}

// Stop makes the link lose some requests; nil ends that.
func (l *Link) Stop(some func(*http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops = some
}

func (l *Link) breakOff() {
	for p := range l.open {
		// Closing a body in memory does not fail.
		_ = p.ReadCloser.Close()
	}
	clear(l.open)
}

// fate decides whether the link is cut for a request, or loses it or its reply.
func (l *Link) fate(r *http.Request) (isCut, requestLost, replyLost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isStopped := l.stops != nil && l.stops(r)
	return l.isCut, isStopped || l.random.Float64() < l.losses, l.random.Float64() < l.losses
}

// RoundTrip is part of [http.RoundTripper].
func (l *Link) RoundTrip(r *http.Request) (*http.Response, error) {
	isCut, requestLost, replyLost := l.fate(r)
	if isCut {
		return nil, inVain(r.Context())
	}
	if requestLost {
		return nil, errNoNetwork
	}
	answered := l.passed(r)
	latency := l.latencyOf(r)
	time.Sleep(latency / 2)
	response, err := l.server.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	time.Sleep(latency / 2)
	answered()
	p := &parcel{response.Body, l}
	if replyLost {
		return nil, errors.Join(errNoNetwork, p.Close())
	}
	response.Body = p
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[p] = true
	return response, nil
}

// latencyOf is how long a request takes. Events and discovery take no time: client-go's broadcaster and
// controller-runtime's REST mapper hold a mutex during these requests, and virtual time stops forever if another
// goroutine waits for that.
func (l *Link) latencyOf(r *http.Request) time.Duration {
	if strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/") || isDiscovery(r.URL.Path) {
		return 0
	}
	return l.latency
}

// isDiscovery reports whether a path lists groups, versions or kinds: /api/v1, /apis, /apis/GROUP, /apis/GROUP/VERSION.
func isDiscovery(path string) bool {
	root, rest, _ := strings.Cut(strings.Trim(path, "/"), "/")
	return root == "api" && !strings.Contains(rest, "/") || root == "apis" && strings.Count(rest, "/") < 2
}

func inVain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(givingUp):
		return errNoNetwork
	}
}

// parcel is the body of a response that is being read.
type parcel struct {
	io.ReadCloser
	link *Link
}

// Close is part of [io.Closer].
func (p *parcel) Close() error {
	p.link.mu.Lock()
	delete(p.link.open, p)
	p.link.mu.Unlock()
	return p.ReadCloser.Close()
}
