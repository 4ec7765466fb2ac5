// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netns_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/host/agent"
)

// An agent that restarts finds everything unchanged and changes nothing. After a reboot it configures the links again,
// regardless of what the state contains.
func TestRestart(t *testing.T) {
	n := newNode(t, "restart")
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.promise(attached(1))
	n.becomes(patience, ready)
	n.peace()
	n.stopAgent()
	version := n.objects()[0].ResourceVersion
	looks, changes := n.looks.Load(), n.changes.Load()
	n.startAgent()
	n.becomes(patience, func(objects []v1alpha1.NetworkInterface) string {
		if n.looks.Load() < looks+3 {
			return "the agent has not looked at the network thrice"
		}
		if now := objects[0].ResourceVersion; now != version || n.changes.Load() != changes {
			t.Errorf("the agent made %d changes, and the object went from %v to %v", n.changes.Load()-changes, version, now)
		}
		return ""
	})

	n.stopAgent()
	n.IP("link del ens6")
	n.Attach("eth3", mac(1), n.vpc, "peer1")
	n.startAgent()
	n.becomes(patience, func(objects []v1alpha1.NetworkInterface) string {
		if reportOf(&objects[0]).Name != "eth3" || !strings.Contains(n.IP("link show eth3"), "altname net-web") {
			return "the new link is not configured"
		}
		return ready(objects)
	})
}

// A node that boots without an API server gets the links of its checkpoint, as far as instance metadata shows the same
// interfaces, and no others. Once the API server is back, the agent applies what has changed meanwhile.
func TestBootWithoutAPIServer(t *testing.T) {
	const cni = 3
	n := newNamespaces(t, "boot-without-api")
	dir := t.TempDir()
	shown := []eni.Interface{{ID: attached(1).Status.ENIID, MAC: mac(1)}, {ID: "eni-other", MAC: mac(2)}, {ID: "eni-cni", MAC: mac(cni)}}
	n.configure = func(o *agent.Options) {
		o.StateDir = dir
		o.Metadata = func(context.Context) (eni.Metadata, error) {
			return eni.Metadata{InstanceID: n.instance, Interfaces: shown}, nil
		}
	}
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.Attach("ens7", mac(2), n.vpc, "peer2")
	n.Attach("ens8", mac(cni), n.vpc, "peer3")
	n.startAgent()
	n.promise(attached(1), attached(2))
	n.becomes(patience, ready)
	n.stopAgent()

	for _, link := range []string{"ens6", "ens7", "ens8"} { // the kernel forgets
		n.IP("link del " + link)
	}
	n.Attach("eth1", mac(1), n.vpc, "peer1")
	n.Attach("eth2", mac(2), n.vpc, "peer2")
	n.Attach("eth3", mac(cni), n.vpc, "peer3")
	foreign := n.IP("link show eth2") + n.IP("link show eth3")
	before := n.configure
	n.configure = func(o *agent.Options) {
		before(o)
		var err error
		if o.API, err = agent.Connect(&rest.Config{Host: "127.0.0.1:1"}, n.name); err != nil {
			t.Fatal(err)
		}
	}
	n.startAgent()
	n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
		if link := n.IP("link show eth1"); !strings.Contains(link, "altname net-web") || !strings.Contains(link, "LOWER_UP") {
			return "the link is " + link
		}
		return ""
	})
	if diff := cmp.Diff(foreign, n.IP("link show eth2")+n.IP("link show eth3")); diff != "" {
		t.Errorf("a link was touched that metadata shows to be of another interface, or that was never promised:\n%s", diff)
	}
	n.stopAgent()

	n.configure = before
	n.startAgent()
	n.order(attached(1))
	n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
		if one, two := n.IP("link show eth1"), n.IP("link show eth2"); strings.Contains(one, "net-web") || !strings.Contains(two, "net-web") {
			return "the links are " + one + two
		}
		return ""
	})
}
