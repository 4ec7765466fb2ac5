// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// cloudGate is a proxy between one controller and EC2. It records the calls that change something. Each controller has
// its own gate, which shows which of them made a call.
type cloudGate struct {
	*httptest.Server
	cloud *awssim.Simulator
	// targets makes the gate record the target of a call, which reads the whole state of EC2.
	targets bool

	mu    sync.Mutex
	calls []call
	// interrupts are the interruptions of calls, by the number of calls before them. first are those of the next call of
	// an action.
	interrupts map[int]interruption
	first      map[string]interruption
}

// interruption runs when a call arrives. It returns whether the gate forwards the call to EC2.
type interruption func() (passes bool)

// call is a request that changes something in EC2.
type call struct {
	at     time.Time
	action string
	form   url.Values
	// target is the interface that the call is about, as it was just before; nil when EC2 has none.
	target *ec2.NetworkInterface
}

func newCloudGate(t *testing.T, cloud *awssim.Simulator, targets bool) *cloudGate {
	t.Helper()
	g := &cloudGate{cloud: cloud, targets: targets}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

// ServeHTTP is part of http.Handler.
func (g *cloudGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if action := r.Form.Get("Action"); !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get") {
		if interrupt := g.record(action, r.Form); interrupt != nil && !interrupt() {
			hangUp()
		}
	}
	g.cloud.ServeHTTP(w, r)
}

// at sets an interruption of the nth call from now.
func (g *cloudGate) at(n int, interrupt interruption) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.interrupts = map[int]interruption{len(g.calls) + n - 1: interrupt}
}

// atNext sets an interruption of the next call of an action.
func (g *cloudGate) atNext(action string, interrupt interruption) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = map[string]interruption{}
	}
	g.first[action] = interrupt
}

func (g *cloudGate) record(action string, form url.Values) interruption {
	c := call{at: time.Now(), action: action, form: form}
	if g.targets && action != "CreateNetworkInterface" {
		c.target = targetOf(g.cloud.State(), form)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, c)
	if interrupt := g.first[action]; interrupt != nil {
		delete(g.first, action)
		return interrupt
	}
	return g.interrupts[len(g.calls)-1]
}

// recorded returns the calls so far.
func (g *cloudGate) recorded() []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[:len(g.calls):len(g.calls)]
}

// removes reports whether the call detaches or deletes an interface.
func (c call) removes() bool {
	return c.action == "DetachNetworkInterface" || c.action == "DeleteNetworkInterface"
}

func targetOf(state ec2.State, form url.Values) *ec2.NetworkInterface {
	for _, eni := range state.NetworkInterfaces {
		if slices.Contains([]string{form.Get("NetworkInterfaceId"), form.Get("ResourceId.1")}, eni.NetworkInterfaceID) ||
			eni.Attachment != nil && eni.Attachment.AttachmentID == form.Get("AttachmentId") {
			return eni
		}
	}
	return nil
}
