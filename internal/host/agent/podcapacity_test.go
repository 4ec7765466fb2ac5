// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// statusPatch is the part of a Node's status, or of a NodeENIState's, that the agent writes.
type statusPatch struct {
	Status struct {
		Capacity map[string]any     `json:"capacity"`
		CNI      *v1alpha1.CNIState `json:"cni"`
	} `json:"status"`
}

// statusOf runs an agent for a whole pass, and returns the last status that it wrote of an object; the zero value if it
// wrote none.
func (n node) statusOf(path string, state *v1alpha1.NodeENIState, object *corev1.Node, o agent.Options) statusPatch {
	n.Helper()
	var lock sync.Mutex // a request can outlive the agent that sent it
	var last statusPatch
	server := serve(n.T, state, object, func(_ http.ResponseWriter, r *http.Request) bool {
		var patch statusPatch
		if strings.HasSuffix(r.URL.Path, path) {
			if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
				n.Error(err)
			}
			lock.Lock()
			defer lock.Unlock()
			last = patch
		}
		return false
	})
	o.DefaultMTU, o.NetworksDir, o.LeasesDir = 9001, n.networks, n.leases
	onePass(n.T, server, hostnet.Facts{Away: []string{device}}, o)
	lock.Lock()
	defer lock.Unlock()
	return last
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
			patch := n.statusOf("/nodes/node-1/status", state, object, agent.Options{CNIDir: install(t, c.programs...)})
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

// TestTheAgentReportsTheCNIConfiguration has folders of configurations: the container runtime uses the first one.
func TestTheAgentReportsTheCNIConfiguration(t *testing.T) {
	const multus, vpc = `{"type":"multus-shim"}`, `{"plugins":[{"type":"aws-cni"}]}`
	for name, c := range map[string]struct {
		config map[string]string
		want   *v1alpha1.CNIState
	}{
		"none": {nil, &v1alpha1.CNIState{Message: "there is no configuration yet"}},
		"another configuration comes first": {
			map[string]string{"10-aws.conflist": vpc, "90-multus.conf": multus},
			&v1alpha1.CNIState{Message: "the first configuration, which the runtime uses, is 10-aws.conflist"},
		},
		"Multus comes first": {map[string]string{"00-multus.conf": multus, "10-aws.conflist": vpc}, &v1alpha1.CNIState{Ready: true}},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
			o := agent.Options{CNIConfigDir: t.TempDir()}
			for file, content := range c.config {
				if err := os.WriteFile(filepath.Join(o.CNIConfigDir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"}}
			got := n.statusOf("/nodeenistates/node-1/status", withPods(), object, o)
			if diff := cmp.Diff(c.want, got.Status.CNI); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
