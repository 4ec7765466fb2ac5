// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/podlease"
)

// withGrant is an object whose pods may ask for addresses. An earlier agent opened it.
func withGrant() *v1alpha1.NetworkInterface {
	n := withPods()
	n.Spec.Pods.Floating = []string{"10.0.4.192/26"}
	n.Status.Pods.Prefixes, n.Status.Addresses.IPv4Prefixes = []string{"10.0.4.16/28"}, []string{"10.0.4.16/28"}
	return n
}

// grants is a node with a network whose pods may ask for addresses, and that an earlier agent opened.
func grants(t *testing.T) *node {
	t.Helper()
	return opened(t, withGrant())
}

// opened is a node with an object whose network an earlier agent opened.
func opened(t *testing.T, object *v1alpha1.NetworkInterface) *node {
	t.Helper()
	n := newNode(t, object)
	network, _ := agent.Network(object, "node-1", 9001)
	network.UID, network.Phase = string(object.UID), podnet.Open
	store, err := podlease.Open(n.PodsDir, "n3")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.WriteNetwork(network); err != nil {
		t.Fatal(err)
	}
	object.Status.Node = &v1alpha1.NodeReport{Open: true, Agent: v1alpha1.AgentProcess{BootID: "earlier", ProcessID: "earlier"},
		Link: &v1alpha1.LinkReport{State: "Moved", Reason: "InOtherNamespace", PCIAddress: device}}
	return n
}

// grant writes the lease of an address, as the CNI program does.
func (n *node) grant(address string, claim *podnet.Claim, freed time.Time) {
	n.Helper()
	n.lease(address, func(l *podnet.Lease) {
		l.ContainerID, l.Claim, l.Freed = "c-"+address, claim, freed
		if err := podlease.RecordNetns(&l.Holder, "/proc/self/ns/net"); err != nil {
			n.Fatal(err)
		}
	})
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
			book, n := bookOf(t), grants(t)
			if tc.object != nil {
				book.put(tc.object)
			}
			n.grant("10.0.4.200", tc.claim, time.Time{})
			n.runs(nil)
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

// following is an API server that is asked for the objects of addresses.
type following struct {
	noAddresses
	asked []string
}

func (f *following) FollowAddresses(_ context.Context, names []string) []string {
	f.asked = append(f.asked, names...)
	return nil
}

// TestAReplacedInstanceHoldsNoAddress lets another instance have the Node of the agent's name: its agent says which
// addresses pods of the node have.
func TestAReplacedInstanceHoldsNoAddress(t *testing.T) {
	for is, holds := range map[string]bool{instance: true, "i-0fedcba9876543210": false} {
		n, book := grants(t), &following{}
		n.Options.Addresses, n.known = book, &eni.Metadata{InstanceID: instance}
		n.node.Spec.ProviderID = "aws:///us-east-1a/" + is
		n.grant("10.0.4.200", nil, time.Time{})
		n.restart()
		n.settle()
		p, err := n.tryPass()
		if err == nil {
			err = p.Hold(n.Context())
		}
		if err != nil || len(book.asked) > 0 != holds {
			t.Errorf("the Node is %s: %v, holds %v", is, err, book.asked)
		}
	}
}

// TestALeaseThatComesAndGoes writes leases while the agent runs. An address that an earlier agent observed stays: this
// one cannot tell whether a pod still has it.
func TestALeaseThatComesAndGoes(t *testing.T) {
	book, n := bookOf(t), grants(t)
	observed := vip("node-1")
	observed.Name, observed.UID, observed.Spec.Address = "subnet-00000000000000001-10.0.4.222", "observed", "10.0.4.222"
	book.put(observed)
	n.grant("10.0.4.201", nil, time.Time{})
	n.runs(nil)
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
	book, n := bookOf(t), grants(t)
	book.put(vip("node-2"))
	n.grant("10.0.4.200", nil, time.Time{})
	file := n.path("10.0.4.200.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.grant("10.0.4.201", nil, time.Time{})
	n.runs(nil)
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
	book, n := bookOf(t), grants(t)
	book.put(claimed())
	n.objects[0].Spec.Pods = nil
	n.runs(nil)
	book.writes(t, 1)
	if got := book.get(vipName).Status; got.Holder != nil || got.Sequence != 8 {
		t.Errorf("the status is %+v", got)
	}
}

// TestNoLeaseWaitsForTheWriteOfAnother starts an agent on a node with the leases of several pods. The API server answers
// none of its requests for new objects before all have come.
func TestNoLeaseWaitsForTheWriteOfAnother(t *testing.T) {
	const pods = 4
	book, n := bookOf(t), grants(t)
	book.meeting = &sync.WaitGroup{}
	book.meeting.Add(pods)
	for i := range pods {
		n.grant(fmt.Sprintf("10.0.4.%d", 200+i), nil, time.Time{})
	}
	n.runs(nil)
	book.writes(t, 2*pods)
	for i := range pods {
		name := fmt.Sprintf("subnet-00000000000000001-10.0.4.%d", 200+i)
		if got := book.get(name).Status; got.Holder == nil || got.Sequence != 1 {
			t.Errorf("the status of %s is %+v", name, got)
		}
	}
}
