// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/podlease"
)

// withGrant is the state of a node whose pods may ask for addresses.
func withGrant() *v1alpha1.NodeENIState {
	state := withFloating(v1alpha1.PodAttachmentIPVLAN)
	i := &state.Status.Interfaces[0]
	i.IPv4Prefixes, i.Pods.IPv4Prefixes = []string{"10.0.4.16/28"}, 1
	return state
}

// grant writes the lease of an address, as the CNI program does.
func (n node) grant(address string, claim *podnet.Claim, freed time.Time) {
	n.Helper()
	boot, err := podlease.ThisBoot(time.Now())
	if err != nil {
		n.Fatal(err)
	}
	holder := podnet.Holder{ContainerID: "c-" + address, Interface: "net1", Config: "n3", PodNamespace: "upf", Pod: "upf-0", BootID: boot.ID}
	if err := podlease.RecordNetns(&holder, "/proc/self/ns/net"); err != nil {
		n.Fatal(err)
	}
	store, err := podlease.Open(n.leases, "n3")
	if err != nil {
		n.Fatal(err)
	}
	defer store.Close()
	l := podnet.Lease{Address: netip.MustParseAddr(address), Holder: holder, Since: time.Now(), Claim: claim, Freed: freed}
	if err := store.Put(l); err != nil {
		n.Fatal(err)
	}
}

// TestALeaseIsAClaim starts an agent that may not observe pods, on a node with a pod that asked for an address.
func TestALeaseIsAClaim(t *testing.T) {
	later := vip("node-2")
	later.Status.Holder.Since = metav1.NewTime(time.Now().Add(time.Hour))
	for name, tc := range map[string]struct {
		object            *v1alpha1.FloatingAddress
		claim             *podnet.Claim
		writes            int
		holder            string
		sequence          int64
		contender, claims string
	}{
		"it has no object":                            {nil, nil, 2, "node-1", 1, "", "upf/upf-0"},
		"nobody holds it":                             {vip(""), nil, 1, "node-1", 1, "", "upf/upf-0"},
		"the pod came while the agent was away":       {vip("node-2"), nil, 1, "node-1", 8, "", "upf/upf-0"},
		"the agent before ended before its write":     {vip("node-2"), &podnet.Claim{Object: "vip", Sequence: 8}, 1, "node-1", 8, "", "upf/upf-0"},
		"another node took it from this pod":          {vip("node-2"), &podnet.Claim{Object: "vip", Sequence: 6}, 1, "node-2", 7, "node-1", ""},
		"another node took it, and the object is new": {vip("node-2"), &podnet.Claim{Object: "old", Sequence: 8}, 1, "node-2", 7, "node-1", ""},
		"a later pod got it while the agent was away": {later, nil, 1, "node-2", 7, "node-1", ""},
		"another pod of the node had it":              {vip("node-1"), nil, 1, "node-1", 8, "", "upf/upf-0"},
	} {
		t.Run(name, func(t *testing.T) {
			book, n := bookOf(t), newNode(t, nil)
			if tc.object != nil {
				book.put(tc.object)
			}
			n.grant("10.0.4.200", tc.claim, time.Time{})
			n.runs(withGrant())
			book.writes(t, tc.writes)
			got := book.get(vipName)
			contender := ""
			if c := got.Status.Contender; c != nil {
				contender = c.NodeName
			}
			if got.Status.Holder.NodeName != tc.holder || got.Status.Sequence != tc.sequence || contender != tc.contender || got.Status.Holder.Pod != tc.claims {
				t.Errorf("the status is %+v, with contender %q", got.Status, contender)
			}
		})
	}
}

// TestALeaseThatComesAndGoes writes leases while the agent runs. An address that an earlier agent observed stays: this
// one cannot tell whether a pod still has it.
func TestALeaseThatComesAndGoes(t *testing.T) {
	book, n := bookOf(t), newNode(t, nil)
	observed := vip("node-1")
	observed.Name, observed.UID, observed.Spec.Address = "subnet-00000000000000001-10.0.4.222", "observed", "10.0.4.222"
	book.put(observed)
	n.grant("10.0.4.201", nil, time.Time{})
	n.runs(withGrant())
	book.writes(t, 2)
	n.grant("10.0.4.200", nil, time.Time{})
	book.writes(t, 2)
	if got := book.get(vipName).Status; got.Holder == nil || got.Holder.Pod != "upf/upf-0" || got.Sequence != 1 {
		t.Errorf("the status is %+v", got)
	}
	n.grant("10.0.4.200", nil, time.Now())
	book.writes(t, 1)
	if got := book.get(vipName).Status; got.Holder != nil || got.Sequence != 2 {
		t.Errorf("after the end of the lease the status is %+v", got)
	}
	if got := book.get(observed.Name).Status; got.Sequence != 7 {
		t.Errorf("the agent wrote about an address that it may not observe: %+v", got)
	}
}

// TestADamagedLeaseClaimsNothing damages the file of a lease. Nothing says whether its pod is newer than that of another
// node.
func TestADamagedLeaseClaimsNothing(t *testing.T) {
	book, n := bookOf(t), newNode(t, nil)
	book.put(vip("node-2"))
	n.grant("10.0.4.200", nil, time.Time{})
	file := filepath.Join(n.leases, "n3", "10.0.4.200.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.grant("10.0.4.201", nil, time.Time{})
	n.runs(withGrant())
	book.writes(t, 2) // of the other address, which comes behind
	if got := book.get(vipName).Status; got.Holder.NodeName != "node-2" || got.Sequence != 7 {
		t.Errorf("the status is %+v", got)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "{" {
		t.Errorf("the agent wrote the damaged file: %s, %v", content, err)
	}
}

// claimed is the object of an address that a pod of the node asked for.
func claimed() *v1alpha1.FloatingAddress {
	object := vip("node-1")
	object.Status.Holder.Pod = "upf/upf-0"
	return object
}

// TestAHolderEndsWithItsNetwork starts an agent after the NodeENI stopped being a network for pods, and the pods ended.
func TestAHolderEndsWithItsNetwork(t *testing.T) {
	book, n, state := bookOf(t), newNode(t, nil), withGrant()
	book.put(claimed())
	if err := os.Mkdir(n.networks, 0o700); err != nil {
		t.Fatal(err)
	}
	n.write(agent.PodNetwork(state.Status.Interfaces[0], "node-1", 9001))
	state.Status.Interfaces[0].Pods = nil
	n.runs(state)
	book.writes(t, 1)
	if got := book.get(vipName).Status; got.Holder != nil || got.Sequence != 8 {
		t.Errorf("the status is %+v", got)
	}
}

// TestAHolderStaysUntilTheStateIsKnown starts an agent with a state that the controller has just made again, and that
// does not list all interfaces yet.
func TestAHolderStaysUntilTheStateIsKnown(t *testing.T) {
	book, n, state := bookOf(t), newNode(t, nil), withGrant()
	book.put(claimed())
	state.Status.ObservedGeneration, state.Status.Interfaces[0].ENIID = 0, "eni-2"
	n.grant("10.0.4.201", nil, time.Time{})
	n.runs(state)
	book.writes(t, 2) // of the other address, which comes behind
	if got := book.get(vipName).Status; got.Holder == nil || got.Sequence != 7 {
		t.Errorf("the status is %+v", got)
	}
}

// TestNoLeaseWaitsForTheWriteOfAnother starts an agent on a node with the leases of several pods. The API server answers
// none of its requests for new objects before all have come.
func TestNoLeaseWaitsForTheWriteOfAnother(t *testing.T) {
	const pods = 4
	book, n := bookOf(t), newNode(t, nil)
	book.meeting = &sync.WaitGroup{}
	book.meeting.Add(pods)
	for i := range pods {
		n.grant(fmt.Sprintf("10.0.4.%d", 200+i), nil, time.Time{})
	}
	n.runs(withGrant())
	book.writes(t, 2*pods)
	for i := range pods {
		name := fmt.Sprintf("subnet-00000000000000001-10.0.4.%d", 200+i)
		if got := book.get(name).Status; got.Holder == nil || got.Sequence != 1 {
			t.Errorf("the status of %s is %+v", name, got)
		}
	}
}
