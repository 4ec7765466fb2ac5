// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/podlease"
)

// addressBook is the API server of a test, as far as it has FloatingAddresses. Its watches report nothing.
type addressBook struct {
	mu      sync.Mutex
	objects map[string]*v1alpha1.FloatingAddress
	version int
	// written receives the name of each object that an agent writes.
	written chan string
	// lagging makes the watches begin with the object as it was created, but only once it has a holder: held is closed then,
	// and watched once a watch has begun.
	lagging       bool
	held, watched chan struct{}
	made          *v1alpha1.FloatingAddress
	// meeting, if set, answers requests for new objects once as many have come as it counts.
	meeting *sync.WaitGroup
}

var books sync.Map

func bookOf(t *testing.T) *addressBook {
	t.Helper()
	book, known := books.LoadOrStore(t, &addressBook{objects: map[string]*v1alpha1.FloatingAddress{}, written: make(chan string, 100)})
	if !known {
		t.Cleanup(func() { books.Delete(t) })
	}
	return book.(*addressBook)
}

// put stores an object.
func (b *addressBook) put(object *v1alpha1.FloatingAddress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store(object)
}

func (b *addressBook) store(object *v1alpha1.FloatingAddress) {
	b.version++
	object.ResourceVersion = strconv.Itoa(b.version)
	object.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "FloatingAddress"}
	b.objects[object.Name] = object
}

func (b *addressBook) get(name string) v1alpha1.FloatingAddress {
	b.mu.Lock()
	defer b.mu.Unlock()
	if object := b.objects[name]; object != nil {
		return *object.DeepCopy()
	}
	return v1alpha1.FloatingAddress{}
}

// ServeHTTP implements [http.Handler].
func (b *addressBook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Query().Has("sendInitialEvents"): // the client then requests a list
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	case r.URL.Query().Has("watch"):
		if b.lagging && strings.HasPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=") {
			close(b.watched)
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	if b.lagging && strings.HasPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=") {
		<-b.held
	}
	if b.meeting != nil && r.Method == http.MethodPost {
		b.meeting.Done()
		b.meeting.Wait()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	name := path.Base(strings.TrimSuffix(r.URL.Path, "/status"))
	switch object := b.objects[name]; {
	case r.Method == http.MethodPost:
		made := &v1alpha1.FloatingAddress{}
		_ = json.NewDecoder(r.Body).Decode(made)
		if b.objects[made.Name] != nil {
			exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "floatingaddresses"}, made.Name)
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(exists.Status())
			return
		}
		b.store(made)
		b.made = made.DeepCopy()
		b.written <- made.Name
		_ = json.NewEncoder(w).Encode(made)
	case name == "floatingaddresses":
		_ = json.NewEncoder(w).Encode(b.list(r.URL.Query().Get("fieldSelector")))
	case object == nil:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(apierrors.NewNotFound(schema.GroupResource{Resource: "floatingaddresses"}, name).Status())
	case r.Method == http.MethodPatch:
		b.patch(w, r, object)
	default:
		_ = json.NewEncoder(w).Encode(object)
	}
}

func (b *addressBook) list(selector string) *v1alpha1.FloatingAddressList {
	list := &v1alpha1.FloatingAddressList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "FloatingAddressList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(max(1, b.version))},
	}
	field, value, _ := strings.Cut(selector, "=")
	if b.lagging && field == "metadata.name" {
		list.Items = append(list.Items, *b.made)
		return list
	}
	for _, object := range b.objects {
		fits := map[string]bool{
			"metadata.name":             object.Name == value,
			"status.holder.nodeName":    object.Status.Holder != nil && object.Status.Holder.NodeName == value,
			"status.contender.nodeName": object.Status.Contender != nil && object.Status.Contender.NodeName == value,
		}
		if fits[field] {
			list.Items = append(list.Items, *object)
		}
	}
	return list
}

// patch merges a patch over the version that it names.
func (b *addressBook) patch(w http.ResponseWriter, r *http.Request, object *v1alpha1.FloatingAddress) {
	var change json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&change)
	var lock struct {
		Metadata struct{ ResourceVersion string }
	}
	_ = json.Unmarshal(change, &lock)
	if lock.Metadata.ResourceVersion != object.ResourceVersion {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(apierrors.NewConflict(schema.GroupResource{Resource: "floatingaddresses"}, object.Name, nil).Status())
		return
	}
	before, _ := json.Marshal(object)
	after, _ := jsonpatch.MergePatch(before, change)
	changed := &v1alpha1.FloatingAddress{}
	_ = json.Unmarshal(after, changed)
	b.store(changed)
	if b.lagging && changed.Status.Sequence == 1 {
		close(b.held)
	}
	b.written <- changed.Name
	_ = json.NewEncoder(w).Encode(changed)
}

// seen is the observation of a test: a pod with an address, or none.
type seen struct {
	mu         sync.Mutex
	address    string
	incomplete bool
	events     chan struct{}
}

func (s *seen) Events() <-chan struct{} { return s.events }

// becomes changes the address of the pod.
func (s *seen) becomes(address string) { s.shows(address, true) }

// shows changes the address of the pod, and whether the observation has all namespaces. It returns once the agent
// receives the event, after the end of its last pass.
func (s *seen) shows(address string, all bool) {
	s.mu.Lock()
	s.address, s.incomplete = address, !all
	s.mu.Unlock()
	s.events <- struct{}{}
}

// Namespaces returns the namespace of a pod that has the link of the interface.
func (s *seen) Namespaces() ([]podaddress.Namespace, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	link := podaddress.Link{Index: 3, MAC: mac, Physical: true}
	if s.address != "" {
		link.Addresses = []netip.Addr{netip.MustParseAddr(s.address)}
	}
	eth0 := podaddress.Link{Index: 2, OnNode: true, MAC: "0a:00:00:00:00:01", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}
	return []podaddress.Namespace{{ID: 1, Links: []podaddress.Link{eth0, link}}}, !s.incomplete
}

const vipName = "subnet-00000000000000001-10.0.4.200"

// withFloating is an object with floating ranges.
func withFloating(attachment v1alpha1.PodAttachment) *v1alpha1.NetworkInterface {
	n := withPods()
	n.Spec.Pods = &v1alpha1.PodSettings{Attachment: attachment, Floating: []string{"10.0.4.192/26"}}
	n.Status.Pods, n.Status.Addresses.IPv4Prefixes = nil, nil
	return n
}

// vip is the object of an address that a node holds.
func vip(holder string) *v1alpha1.FloatingAddress {
	f := &v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: vipName, UID: "vip"},
		Spec:       v1alpha1.FloatingAddressSpec{SubnetID: "subnet-00000000000000001", Address: "10.0.4.200"},
	}
	if holder != "" {
		f.Status.Sequence, f.Status.Holder = 7, &v1alpha1.AddressHolder{NodeName: holder, ENIID: withPods().Status.ENIID}
	}
	return f
}

// runs runs an agent until the test ends, against an API server with the object. The argument addresses is nil if the
// agent may not observe them.
func (n *node) runs(addresses *seen) *apiServer {
	n.Helper()
	server := serve(n.T, n.objects...)
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		n.Fatal(err)
	}
	o := n.Options
	o.Host = &paper{touched: map[int]int{}, events: make(chan struct{}), facts: hostnet.Facts{Away: []string{device}}}
	if err := os.MkdirAll(n.PodsDir, 0o755); err != nil {
		n.Fatal(err)
	}
	leases, err := podlease.OpenWatch(n.PodsDir)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(leases.Close)
	o.API, o.Resync, o.LeaseEvents, o.Now, o.Process, o.Addresses = api, time.Minute, leases, nil, podnet.Process{}, nil
	if addresses != nil {
		o.PodAddresses = addresses
	}
	ctx, stop := context.WithCancel(n.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.New(o).Run(ctx) }()
	n.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			n.Error(err)
		}
	})
	return server
}

// writes waits for a number of writes of agents.
func (b *addressBook) writes(t *testing.T, number int) {
	t.Helper()
	for n := range number {
		select {
		case <-b.written:
		case <-time.After(10 * time.Second):
			t.Fatalf("the agent wrote %d times, want %d", n, number)
		}
	}
}

// TestAnAgentHoldsTheAddressesOfItsPods starts an agent with an address in its pod and an object, and lets the pod change.
func TestAnAgentHoldsTheAddressesOfItsPods(t *testing.T) {
	eni := withPods().Status.ENIID
	for name, tc := range map[string]struct {
		object    *v1alpha1.FloatingAddress
		addresses []string // of the pod: at the start, then after each change
		writes    int
		holder    string
		sequence  int64
		contender string
	}{
		"it is up, and has no object":                 {nil, []string{"10.0.4.200"}, 2, "node-1", 1, ""},
		"it comes up, and has no object":              {nil, []string{"", "10.0.4.200"}, 2, "node-1", 1, ""},
		"it is up, and nobody holds it":               {vip(""), []string{"10.0.4.200"}, 1, "node-1", 1, ""},
		"it is up, and another node holds it":         {vip("node-2"), []string{"10.0.4.200"}, 1, "node-2", 7, "node-1"},
		"it comes up, and another node holds it":      {vip("node-2"), []string{"", "10.0.4.200"}, 1, "node-1", 8, ""},
		"an earlier agent held it, and it is gone":    {vip("node-1"), []string{""}, 1, "", 8, ""},
		"an earlier agent held it, and it comes back": {vip("node-1"), []string{"", "10.0.4.200"}, 2, "node-1", 9, ""},
		"it comes up and goes":                        {nil, []string{"", "10.0.4.200", ""}, 3, "", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			book, addresses := bookOf(t), &seen{address: tc.addresses[0], events: make(chan struct{})}
			if tc.object != nil {
				book.put(tc.object)
			}
			newNode(t, withFloating(v1alpha1.PodAttachmentObserved)).runs(addresses)
			for n, address := range tc.addresses[1:] {
				if n > 0 || tc.object != nil && tc.object.Status.Holder != nil && tc.object.Status.Holder.NodeName == "node-1" {
					book.writes(t, tc.writes-1)
					tc.writes = 1
				}
				addresses.becomes("")
				addresses.becomes(address)
			}
			book.writes(t, tc.writes)
			got := book.get(vipName)
			holder, contender := v1alpha1.AddressHolder{}, v1alpha1.AddressHolder{}
			if got.Status.Holder != nil {
				holder = *got.Status.Holder
			}
			if got.Status.Contender != nil {
				contender = *got.Status.Contender
			}
			if holder.NodeName != tc.holder || got.Status.Sequence != tc.sequence || contender.NodeName != tc.contender {
				t.Errorf("the holder is %q (%d), the contender %q, want %q (%d) and %q", holder.NodeName, got.Status.Sequence,
					contender.NodeName, tc.holder, tc.sequence, tc.contender)
			}
			if holder.NodeName == "node-1" && (holder.ENIID != eni || holder.PodIP != "10.1.0.1" || holder.Since.IsZero()) {
				t.Errorf("the holder is %+v", holder)
			}
		})
	}
}

// TestAnAgentKnowsItsWriteWhileTheWatchLags lets the pod of an address end while the watch has the object without a holder.
func TestAnAgentKnowsItsWriteWhileTheWatchLags(t *testing.T) {
	book, addresses := bookOf(t), &seen{events: make(chan struct{})}
	book.lagging, book.held, book.watched = true, make(chan struct{}), make(chan struct{})
	newNode(t, withFloating(v1alpha1.PodAttachmentObserved)).runs(addresses)
	addresses.becomes("")
	addresses.becomes("10.0.4.200")
	book.writes(t, 2)
	<-book.watched
	addresses.becomes("")
	book.writes(t, 1)
	if got := book.get(vipName).Status; got.Holder != nil || got.Sequence != 2 {
		t.Errorf("the holder is %+v after %d changes, want none after 2", got.Holder, got.Sequence)
	}
}

// TestAnAddressThatTheAgentCannotSeeIsHeld lets an address come up while a namespace is not read: another address,
// which may be there, stays with the node.
func TestAnAddressThatTheAgentCannotSeeIsHeld(t *testing.T) {
	book, addresses := bookOf(t), &seen{address: "10.0.4.200", events: make(chan struct{})}
	newNode(t, withFloating(v1alpha1.PodAttachmentObserved)).runs(addresses)
	book.writes(t, 2)
	addresses.shows("10.0.4.201", false)
	book.writes(t, 2)
	if got := book.get(vipName).Status; got.Holder == nil || got.Sequence != 1 {
		t.Errorf("the holder is %+v after %d changes, want the node after 1", got.Holder, got.Sequence)
	}
	addresses.becomes("10.0.4.201")
	book.writes(t, 1)
	if got := book.get(vipName).Status; got.Holder != nil || got.Sequence != 2 {
		t.Errorf("the holder is %+v after %d changes, want none after 2", got.Holder, got.Sequence)
	}
}

// TestAnAgentThatStartsWritesOnceItHasSeenAllNamespaces starts an agent on a node that contends for an address of
// another node. While a namespace is not read, the pod with the address may be there.
func TestAnAgentThatStartsWritesOnceItHasSeenAllNamespaces(t *testing.T) {
	book, addresses := bookOf(t), &seen{incomplete: true, events: make(chan struct{})}
	contended := vip("node-2")
	contended.Status.Contender = &v1alpha1.AddressHolder{NodeName: "node-1", ENIID: withPods().Status.ENIID}
	book.put(contended)
	newNode(t, withFloating(v1alpha1.PodAttachmentObserved)).runs(addresses)
	addresses.shows("10.0.4.201", false)
	addresses.shows("10.0.4.201", false)
	if got := book.get(vipName).Status; got.Contender == nil {
		t.Error("the node no longer contends, and the agent has not seen all namespaces")
	}
	addresses.becomes("")
	book.writes(t, 1)
	if got := book.get(vipName).Status; got.Contender != nil || got.Holder == nil || got.Sequence != 7 {
		t.Errorf("the status is %+v, want the former holder and no contender", got)
	}
}

func TestAnInterfaceIsHeldWhileAPodHasAnAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		addresses *seen
		attached  v1alpha1.PodAttachment
		held      bool
	}{
		"a pod brought up an address":          {&seen{address: "10.0.4.200"}, v1alpha1.PodAttachmentObserved, true},
		"also on an interface of its own":      {&seen{address: "10.0.4.200"}, v1alpha1.PodAttachmentHostDevice, true},
		"no pod has an address":                {&seen{}, v1alpha1.PodAttachmentObserved, false},
		"an address that the agent cannot see": {&seen{incomplete: true}, v1alpha1.PodAttachmentObserved, true},
		"so may one with an interface":         {&seen{incomplete: true}, v1alpha1.PodAttachmentHostDevice, true},
		"the agent may not observe":            {nil, v1alpha1.PodAttachmentObserved, false},
	} {
		t.Run(name, func(t *testing.T) {
			object := withFloating(tc.attached)
			object.Status.Node = &v1alpha1.NodeReport{Open: true, Agent: v1alpha1.AgentProcess{BootID: "earlier", ProcessID: "earlier"},
				Link: &v1alpha1.LinkReport{PCIAddress: device}}
			object.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			server := newNode(t, object).runs(tc.addresses)
			for first := true; ; first = false {
				select {
				case report := <-server.written:
					if report.Open == tc.held && (!report.Open || first) {
						if report.Open {
							continue // it stays
						}
						return
					}
				case <-time.After(500 * time.Millisecond):
					if open := server.get(objectName).Status.Node.Open; open != tc.held {
						t.Errorf("open is %t, want %t", open, tc.held)
					}
					return
				}
			}
		})
	}
}

func TestAnAgentThatMayNotObserveSaysSo(t *testing.T) {
	for attachment, ready := range map[v1alpha1.PodAttachment]bool{v1alpha1.PodAttachmentObserved: false, v1alpha1.PodAttachmentHostDevice: true} {
		report := newNode(t, withFloating(attachment)).settle().Pods
		if report.Ready != ready || report.Reason != v1alpha1.ReasonAddressesNotObserved || !strings.Contains(report.Message, "pods.observeAddresses") {
			t.Errorf("%s: reported %+v", attachment, report)
		}
	}
}

// TestOtherPodsCauseNoPass sends the events of pods that start and stop without an address of ours: there are many on a node.
func TestOtherPodsCauseNoPass(t *testing.T) {
	addresses := &seen{address: "10.0.4.200", events: make(chan struct{})}
	n := newNode(t, withFloating(v1alpha1.PodAttachmentObserved))
	server := serve(t, n.objects...)
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	host := &passes{paper: &paper{touched: map[int]int{}, events: make(chan struct{}), facts: hostnet.Facts{Away: []string{device}}}}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	a := agent.New(agent.Options{
		Node: "node-1", API: api, Host: host, Resync: time.Minute, DefaultMTU: 9001, PodsDir: n.PodsDir,
		PodAddresses: addresses, Log: slog.New(slog.DiscardHandler),
	})
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	const events = 20
	for range events {
		select {
		case addresses.events <- struct{}{}:
		case <-ctx.Done():
			t.Fatal("the agent receives no events")
		}
	}
	if looks := host.looks.Load(); looks >= events/2 {
		t.Errorf("%d events led to %d passes", events, looks)
	}
	<-server.written // the address was seen
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// passes is a host that counts the reads of the agent.
type passes struct {
	*paper
	looks atomic.Int32
}

func (p *passes) Facts(devices []string) (hostnet.Facts, error) {
	p.looks.Add(1)
	return p.paper.Facts(devices)
}
