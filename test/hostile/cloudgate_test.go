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

// cloudGate stands between one controller and EC2 and records the calls that change something. With a gate each, it is
// known which of several controllers made a call.
type cloudGate struct {
	*httptest.Server
	cloud *awssim.Simulator
	// targets makes the gate note what a call is about, which takes a look at all of EC2.
	targets bool

	mu    sync.Mutex
	calls []call
	// interrupts are what is to happen at calls, by how many there were before.
	interrupts map[int]interruption
}

// interruption happens when a call comes in. It returns whether EC2 hears of the call.
type interruption func() (passes bool)

// call is one that changes something in EC2, as it was asked for.
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
	if action := r.Form.Get("Action"); !strings.HasPrefix(action, "Describe") {
		if interrupt := g.record(action, r.Form); interrupt != nil && !interrupt() {
			hangUp()
		}
	}
	g.cloud.ServeHTTP(w, r)
}

// at makes something happen at the nth call from now.
func (g *cloudGate) at(n int, interrupt interruption) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.interrupts = map[int]interruption{len(g.calls) + n - 1: interrupt}
}

func (g *cloudGate) record(action string, form url.Values) interruption {
	c := call{at: time.Now(), action: action, form: form}
	if g.targets && action != "CreateNetworkInterface" {
		c.target = targetOf(g.cloud.State(), form)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, c)
	return g.interrupts[len(g.calls)-1]
}

// recorded returns the calls so far.
func (g *cloudGate) recorded() []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[:len(g.calls):len(g.calls)]
}

// removes tells whether the call takes an interface away.
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
