// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package imds

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
)

// The headers of tokens.
const (
	headerToken = "X-Aws-Ec2-Metadata-Token"
	headerTTL   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
)

const maxTTL = 21600 // seconds

// Source is the data source of the service of one instance.
type Source interface {
	// Metadata is the current metadata of the instance; an error means that no instance answers.
	Metadata() (*ec2.Metadata, error)
	// Now is the simulated time.
	Now() time.Time
}

// Tokens are the tokens that a service has issued. They are safe for concurrent use; the zero value is ready.
type Tokens struct {
	mu      sync.Mutex
	expires map[string]time.Time // by instance ID and token
}

// Save returns when each token expires, by instance ID and token.
func (t *Tokens) Save() map[string]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.expires)
}

// Load replaces the tokens with saved ones.
func (t *Tokens) Load(saved map[string]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expires = maps.Clone(saved)
}

func (t *Tokens) issue(instanceID string, until time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expires == nil {
		t.expires = map[string]time.Time{}
	}
	token := rand.Text()
	t.expires[instanceID+"|"+token] = until
	return token
}

func (t *Tokens) isValid(instanceID, token string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Before(t.expires[instanceID+"|"+token])
}

// Handler serves the metadata of one instance to clients that are some hops away (1: on the instance itself).
func Handler(source Source, tokens *Tokens, hops int) http.Handler {
	return handler{source, tokens, hops}
}

type handler struct {
	source Source
	tokens *Tokens
	hops   int
}

// version matches the beginning of a path: latest, or the date of a version.
var version = regexp.MustCompile(`^(latest|\d{4}-\d{2}-\d{2}|1\.0)$`)

// ServeHTTP is part of http.Handler.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	md, err := h.source.Metadata()
	if err != nil {
		// Without an instance there is no service: the connection ends without an answer.
		panic(http.ErrAbortHandler)
	}
	options := md.Instance.MetadataOptions
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case options.HTTPEndpoint == ec2.Disabled:
		answer(w, http.StatusForbidden, "Forbidden")
	case rest == "api/token":
		h.serveToken(w, r, md, first)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		answer(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	case !h.isAllowed(r, md):
		answer(w, http.StatusUnauthorized, "Unauthorized")
	case first == "":
		answer(w, http.StatusOK, "1.0\nlatest")
	case !version.MatchString(first):
		answer(w, http.StatusNotFound, "Not Found")
	default:
		h.serveTree(w, md, rest)
	}
}

// isAllowed checks the lifetime of a token, and requires one if the instance does.
func (h handler) isAllowed(r *http.Request, md *ec2.Metadata) bool {
	token := r.Header.Get(headerToken)
	if token == "" {
		return md.Instance.MetadataOptions.HTTPTokens != ec2.Required
	}
	return h.tokens.isValid(md.Instance.InstanceID, token, h.source.Now())
}

func (h handler) serveTree(w http.ResponseWriter, md *ec2.Metadata, at string) {
	text, ok := NewTree(md, h.source.Now()).Look(at)
	if !ok {
		answer(w, http.StatusNotFound, "Not Found")
		return
	}
	answer(w, http.StatusOK, text)
}

// serveToken issues a token. Its answer does not reach a client that is more hops away than the instance allows.
func (h handler) serveToken(w http.ResponseWriter, r *http.Request, md *ec2.Metadata, first string) {
	ttl, err := strconv.Atoi(r.Header.Get(headerTTL))
	switch {
	case r.Method != http.MethodPut:
		answer(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	case first != "latest" || r.Header.Get("X-Forwarded-For") != "":
		answer(w, http.StatusForbidden, "Forbidden")
		return
	case err != nil || ttl < 1 || ttl > maxTTL:
		answer(w, http.StatusBadRequest, "Bad Request")
		return
	case h.hops > *md.Instance.MetadataOptions.HTTPPutResponseHopLimit:
		wait(r.Context())
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(headerTTL, strconv.Itoa(ttl))
	answer(w, http.StatusOK, h.tokens.issue(md.Instance.InstanceID, h.source.Now().Add(time.Duration(ttl)*time.Second)))
}

// wait waits until the client gives up.
func wait(ctx context.Context) { <-ctx.Done() }

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	// The client may have closed the connection.
	_, _ = w.Write([]byte(text))
}
