// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// statusPatch is the part of a Node's status that the agent writes.
type statusPatch struct {
	Status struct {
		Capacity   map[string]any         `json:"capacity"`
		Conditions []corev1.NodeCondition `json:"conditions"`
	} `json:"status"`
}

// nodeStatus runs an agent until it writes the status of its Node, and returns what it wrote.
func (n node) nodeStatus(state *v1alpha1.NodeENIState, object *corev1.Node, o agent.Options) statusPatch {
	n.Helper()
	patches := make(chan statusPatch, 100)
	server := serve(n.T, state, object, func(_ http.ResponseWriter, r *http.Request) bool {
		var patch statusPatch
		if strings.HasSuffix(r.URL.Path, "/nodes/node-1/status") {
			if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
				n.Error(err)
			}
			patches <- patch
		}
		return false
	})
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		n.Fatal(err)
	}
	ctx, stop := context.WithTimeout(n.Context(), 10*time.Second)
	defer stop()
	o.Node, o.API, o.Resync, o.DefaultMTU, o.Log = "node-1", api, time.Minute, 9001, slog.New(slog.DiscardHandler)
	o.Host = &paper{touched: map[int]int{}, events: make(chan struct{}), facts: hostnet.Facts{Away: []string{device}}}
	o.NetworksDir, o.LeasesDir, o.Taint = n.networks, n.leases, v1alpha1.NotReadyTaint
	ended := make(chan error, 1)
	go func() { ended <- agent.New(o).Run(ctx) }()
	var patch statusPatch
	select {
	case patch = <-patches:
	case <-ctx.Done():
		n.Error("the agent has not written the status of its Node")
	}
	stop()
	if err := <-ended; err != nil {
		n.Error(err)
	}
	return patch
}

func TestCapacityOfANode(t *testing.T) {
	const resourceName = v1alpha1.AddressesResourcePrefix + "n3"
	stale := corev1.ResourceList{"cpu": resource.MustParse("64"), resourceName: resource.MustParse("4"), v1alpha1.AddressesResourcePrefix + "gone": resource.MustParse("16")}
	for name, c := range map[string]struct {
		before   corev1.ResourceList
		change   func(*v1alpha1.NodeENIState)
		programs []string
		want     map[string]any
	}{
		"a new network":         {nil, nil, bothPlugins, map[string]any{resourceName: "32"}},
		"a kubelet zeroed it":   {corev1.ResourceList{resourceName: resource.MustParse("0")}, nil, bothPlugins, map[string]any{resourceName: "32"}},
		"others stay":           {stale, nil, bothPlugins, map[string]any{resourceName: "32", v1alpha1.AddressesResourcePrefix + "gone": nil}},
		"as it is":              {corev1.ResourceList{resourceName: resource.MustParse("32")}, nil, bothPlugins, nil},
		"no CNI program":        {corev1.ResourceList{resourceName: resource.MustParse("32")}, nil, nil, map[string]any{resourceName: nil}},
		"a part of the program": {nil, nil, bothPlugins[:1], nil},
		"the interface is to go": {
			corev1.ResourceList{resourceName: resource.MustParse("32")},
			func(s *v1alpha1.NodeENIState) { s.Status.Interfaces[0].Pods.Draining = true }, bothPlugins, map[string]any{resourceName: nil},
		},
		"the API server has no report": {
			corev1.ResourceList{resourceName: resource.MustParse("32")},
			func(s *v1alpha1.NodeENIState) { s.Status.PodNetworks = nil }, bothPlugins, map[string]any{resourceName: nil},
		},
		"the interface is gone": {
			corev1.ResourceList{resourceName: resource.MustParse("32")},
			func(s *v1alpha1.NodeENIState) { s.Status.Interfaces = nil }, bothPlugins, map[string]any{resourceName: nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
			n.lease("10.0.4.17")
			state := withPods()
			if c.change != nil {
				c.change(state)
			}
			object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"}}
			object.Status.Capacity = c.before
			patch := n.nodeStatus(state, object, agent.Options{CNIDir: install(t, c.programs...)})
			if diff := cmp.Diff(c.want, patch.Status.Capacity); diff != "" {
				t.Errorf("the patch of the capacity (-want +got):\n%s", diff)
			}
		})
	}
}

var bothPlugins = []string{"multieni-ipam", "multieni-routes"}

// install creates a folder with programs.
func install(t *testing.T, programs ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheStartupTaintWaitsForPodNetworks(t *testing.T) {
	const multus, vpc = `{"type":"multus-shim"}`, `{"plugins":[{"type":"aws-cni"}]}`
	taint := []corev1.Taint{{Key: v1alpha1.NotReadyTaint, Effect: corev1.TaintEffectNoSchedule}}
	for name, c := range map[string]struct {
		programs []string
		waits    bool
		config   map[string]string
		taints   []corev1.Taint
		want     string
	}{
		"the network is there":                     {programs: bothPlugins, taints: taint, want: "InterfacesReady"},
		"no CNI program":                           {taints: taint, want: "CNIProgramMissing"},
		"no configuration of Multus":               {bothPlugins, true, nil, taint, "MultusNotConfigured"},
		"another configuration comes first":        {bothPlugins, true, map[string]string{"10-aws.conflist": vpc, "90-multus.conf": multus}, taint, "MultusNotConfigured"},
		"Multus comes first":                       {bothPlugins, true, map[string]string{"00-multus.conf": multus, "10-aws.conflist": vpc}, taint, "InterfacesReady"},
		"the node has started, and Multus is away": {bothPlugins, true, nil, nil, "InterfacesReady"},
		"the agent does not wait for Multus":       {programs: bothPlugins, config: map[string]string{"10-aws.conflist": vpc}, taints: taint, want: "InterfacesReady"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
			o := agent.Options{CNIDir: install(t, c.programs...)}
			config := t.TempDir()
			for file, content := range c.config {
				if err := os.WriteFile(filepath.Join(config, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.waits {
				o.CNIConfigDir = config
			}
			object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"}, Spec: corev1.NodeSpec{Taints: c.taints}}
			state := withPods()
			state.Spec.Members = []v1alpha1.Member{state.Status.Interfaces[0].Member}
			state.Generation = 1
			conditions := n.nodeStatus(state, object, o).Status.Conditions
			if len(conditions) != 1 || conditions[0].Reason != c.want {
				t.Errorf("the conditions are %+v, want one with %s", conditions, c.want)
			}
		})
	}
}
