// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1ac "github.com/multieni/multieni/api/applyconfiguration/api/v1alpha1"
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	nodeagent "github.com/multieni/multieni/internal/host/agent"
)

// linkInPod is a node whose only link of multieni is in the namespace of a pod, so the agent has nothing to configure.
type linkInPod struct{ device string }

func (l linkInPod) Facts([]string) (hostnet.Facts, error) {
	return hostnet.Facts{Away: []string{l.device}}, nil
}
func (linkInPod) Apply(hostnet.Operation) error { return errors.New("nothing is to be configured") }
func (linkInPod) Events() <-chan struct{}       { return nil }

// The agent of a node, with the permissions of agents, writes the addresses of a pod network into the capacity of its
// Node, where the scheduler reads them, and removes them while the interface waits for its removal.
func TestTheNodeHasTheAddressesOfItsPodNetwork(t *testing.T) {
	const name, device, instance = "node-capacity", "0000:00:06.0", "i-0aaaaaaaaaaaaaaa1"
	admin := everything(t, server.Config)
	for _, file := range []string{"config/rbac/agent.yaml", "config/admission/agent.yaml"} {
		applyFile(t, admin, file)
	}
	provide(t, admin, name)
	node := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"providerID":"aws:///us-west-2a/`+instance+`"}}`))
	must(t, admin.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, node))
	declared := newInterface(name+"-pods", name)
	declared.Spec.InstanceID, declared.Labels[v1alpha1.InstanceLabel] = instance, instance
	declared.Spec.Pods.IPv4 = &v1alpha1.PodPrefixSettings{Min: 1, Max: 4}
	must(t, admin.Create(t.Context(), declared))
	t.Cleanup(func() { tear(admin, declared.Name) })
	attached := &anInterface{T: t, admin: admin, name: declared.Name, uid: declared.UID}
	attached.now(granted([]string{prefixA, prefixB}, nil).WithMACAddress("02:00:00:00:00:03").WithSubnetID(addressSubnet))
	must(t, attached.report(admin, attached.read().ResourceVersion, networkingv1alpha1ac.NodeReport().
		WithAgent(networkingv1alpha1ac.AgentProcess().WithBootID("b").WithProcessID("before")).
		WithLink(networkingv1alpha1ac.LinkReport().WithState(v1alpha1.LinkReady).WithReason("LinkReady").WithPCIAddress(device))))
	runAgent(t, agentToken(t, admin, name), nodeagent.Options{Node: name, Host: linkInPod{device}, CNIDir: programs(t)})

	capacity(t, admin, name, "32")
	must(t, attached.render(attached.uid, "/spec/pods/closed", "true"))
	capacity(t, admin, name, "")
	must(t, attached.render(attached.uid, "/spec/pods/closed", "false"))
	capacity(t, admin, name, "32")
}

// capacity waits until the Node has the capacity, and the same amount allocatable; empty for none.
func capacity(t *testing.T, c client.Client, name, want string) {
	t.Helper()
	const resource = corev1.ResourceName("addresses.networking.k8s.aws/n3")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		node := &corev1.Node{}
		node.Name = name
		node = get(t, c, node)
		quantity, has := node.Status.Capacity[resource]
		allocatable := node.Status.Allocatable[resource]
		if has == (want != "") && (!has || quantity.String() == want && allocatable.Cmp(quantity) == 0) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the Node has the capacity %v and allocatable %v, want %q", node.Status.Capacity, node.Status.Allocatable, want)
		}
	}
}

// runAgent runs an agent until the test ends.
func runAgent(t *testing.T, token string, o nodeagent.Options) {
	t.Helper()
	api, err := nodeagent.Connect(withToken(token), o.Node)
	if err != nil {
		t.Fatal(err)
	}
	o.API, o.Resync, o.DefaultMTU, o.Log = api, time.Second, 9001, slog.New(slog.NewTextHandler(t.Output(), nil))
	o.PodsDir, o.StateDir = t.TempDir(), t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- nodeagent.New(o).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// programs is a folder with the CNI programs of multieni.
func programs(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"multieni-ipam", "multieni-routes"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
