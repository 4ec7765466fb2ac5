// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/test/size"
)

// noticed is how long a restore of etcd may go unnoticed after the API server is back: a failed watch is repeated after
// half a minute at the latest.
const noticed = time.Minute

// TestARestoreOfEtcd puts etcd back to a copy from before the NodeENI and the labels of the nodes, while a controller
// and an agent run. The controller has no lease to lose, like a replica that waits for the lease. Watches wait for
// revisions that etcd lost, so the controller must end and say why, and the next one serves the restored objects. The
// agent keeps running, and reports the present state.
func TestARestoreOfEtcd(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	copied := filepath.Join(t.TempDir(), "copy")
	s.must(s.Restart(func(data string) error { return os.CopyFS(copied, os.DirFS(data)) }))
	r := s.run()
	s.apply(both())
	s.label(names("node", 0, 4)...)
	s.holds(afterwards, wanted(names("node", 0, 4)))
	s.startAgent("node-0")
	s.agentTells("node-0")
	s.age("node-4")

	s.must(s.Restart(func(data string) error {
		s.must(os.RemoveAll(data))
		return os.CopyFS(data, os.DirFS(copied))
	}))
	begun := time.Now()
	select {
	case <-r.Exited():
		t.Logf("the controller ended after %s", time.Since(begun).Round(100*time.Millisecond))
	case <-time.After(noticed):
		t.Fatal("the controller lives on with what it knew before the restore")
	}
	if r.Err() == nil {
		t.Error("the controller ended as if it was asked to, so that nothing starts it again")
	}
	log, err := os.ReadFile(r.log)
	s.must(err)
	if !strings.Contains(string(log), "etcd was restored") {
		t.Error("the log does not say that etcd was restored")
		s.keep(r.log)
	}

	s.apply(both())
	s.label(names("node", 0, 4)...)
	s.run()
	s.eventually(afterwards, "the NodeENI is judged", func() string {
		var n v1alpha1.NodeENI
		s.must(s.kube.Get(s.Context(), client.ObjectKey{Name: "both"}, &n))
		if n.Status.Desired != 8 {
			return fmt.Sprintf("%+v", n.Status)
		}
		return ""
	})
	s.madeOnce(8)
	s.holds(afterwards, wanted(names("node", 0, 4)))
	s.agentTells("node-0")
}

// startAgent runs an agent of a node whose links do not exist.
func (s *stage) startAgent(node string) {
	s.Helper()
	api, err := agent.Connect(s.Config, node)
	s.must(err)
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.New(agent.Options{
			Node: node, API: api, Host: noLinks{}, Resync: time.Minute, Log: slog.New(slog.NewTextHandler(s.Output(), nil)),
		}).Run(ctx)
	}()
	s.Cleanup(func() {
		stop()
		s.must(<-ended)
	})
}

type noLinks struct{}

func (noLinks) Facts([]string) (hostnet.Facts, error) { return hostnet.Facts{}, nil }
func (noLinks) Apply(hostnet.Operation) error         { return errors.New("there are no links") }
func (noLinks) Events() <-chan struct{}               { return nil }

// agentTells waits until the node's agent reports that the links of the node's interfaces are missing.
func (s *stage) agentTells(node string) {
	s.Helper()
	s.eventually(2*noticed, "the agent says what the node lacks", func() string {
		var n corev1.Node
		s.must(s.kube.Get(s.Context(), client.ObjectKey{Name: node}, &n))
		for _, c := range n.Status.Conditions {
			if c.Type == v1alpha1.NodeConditionInterfacesReady && c.Status == corev1.ConditionFalse {
				return ""
			}
		}
		return fmt.Sprintf("%+v", n.Status.Conditions)
	})
}

// age makes as many writes to etcd as a cluster makes in minutes.
func (s *stage) age(node string) {
	s.Helper()
	for n := range 300 {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"age":"%d"}}}`, n))
		s.persist(func() error {
			return s.kube.Patch(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch)
		})
	}
}
