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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/host/agent"
)

func TestCapacityOfANode(t *testing.T) {
	const resourceName = v1alpha1.AddressesResourcePrefix + "n3"
	is := func(capacity string) corev1.ResourceList {
		return corev1.ResourceList{resourceName: resource.MustParse(capacity)}
	}
	stale := corev1.ResourceList{"cpu": resource.MustParse("64"), resourceName: resource.MustParse("4"), v1alpha1.AddressesResourcePrefix + "gone": resource.MustParse("16")}
	for name, c := range map[string]struct {
		before   corev1.ResourceList
		change   func(*v1alpha1.NetworkInterface)
		programs []string
		want     map[string]any
	}{
		"a new network":          {nil, nil, bothPlugins, map[string]any{resourceName: "32"}},
		"a kubelet zeroed it":    {is("0"), nil, bothPlugins, map[string]any{resourceName: "32"}},
		"others stay":            {stale, nil, bothPlugins, map[string]any{resourceName: "32", v1alpha1.AddressesResourcePrefix + "gone": nil}},
		"as it is":               {is("32"), nil, bothPlugins, nil},
		"no CNI program":         {is("32"), nil, nil, map[string]any{resourceName: nil}},
		"a part of the program":  {nil, nil, bothPlugins[:1], nil},
		"the interface is to go": {is("32"), func(n *v1alpha1.NetworkInterface) { n.Spec.Pods.Closed = true }, bothPlugins, map[string]any{resourceName: nil}},
		"the interface has no pods any more": {
			is("32"), func(n *v1alpha1.NetworkInterface) { n.Spec.Pods = nil }, bothPlugins, map[string]any{resourceName: nil},
		},
		"the interface is not attached": {
			is("32"), func(n *v1alpha1.NetworkInterface) { n.Status = v1alpha1.NetworkInterfaceStatus{} }, bothPlugins, map[string]any{resourceName: nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := withPods()
			n := opened(t, object)
			if c.change != nil {
				c.change(object)
			}
			server := serve(t, object)
			server.node.Status.Capacity = c.before
			var lock sync.Mutex // a request can outlive the agent that sent it
			var last map[string]any
			server.patched = func(_ http.ResponseWriter, r *http.Request, content []byte) bool {
				if !strings.HasSuffix(r.URL.Path, "/nodes/node-1/status") {
					return false
				}
				var raw struct {
					Status struct{ Capacity map[string]any }
				}
				if err := json.Unmarshal(content, &raw); err != nil {
					t.Error(err)
				}
				lock.Lock()
				defer lock.Unlock()
				last = raw.Status.Capacity
				return false
			}
			onePass(t, server, hostnet.Facts{Away: []string{device}}, agent.Options{DefaultMTU: 9001, PodsDir: n.PodsDir, CNIDir: install(t, c.programs...)})
			lock.Lock()
			defer lock.Unlock()
			if diff := cmp.Diff(c.want, last); diff != "" {
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
			n := newNode(t, attached())
			n.CNIConfigDir = t.TempDir()
			n.restart()
			for file, content := range c.config {
				if err := os.WriteFile(filepath.Join(n.CNIConfigDir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, n.settle().CNI); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
