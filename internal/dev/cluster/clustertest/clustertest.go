// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustertest gives the tests of a package one shared API server, and each test its own simulated AWS:
//
//	var shared *cluster.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(clustertest.Run(m, func(c *cluster.Cluster) { shared = c }))
//	}
//
//	func TestX(t *testing.T) {
//		c := clustertest.Join(t, shared, cluster.Options{AWS: &awssim.Options{World: world}})
//		…
//	}
//
// Nodes and our kinds are not namespaced, so tests that join do not run in parallel, and each removes its objects.
package clustertest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multieni/multieni/internal/dev/cluster"
)

// Run starts an API server, passes it to share, runs the tests and stops it. It returns the exit code for os.Exit. If a
// test fails, it keeps the server's logs and prints their path.
func Run(m *testing.M, share func(*cluster.Cluster)) (code int) {
	// Without a logger controller-runtime complains half a minute later.
	ctrllog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
	dir, err := os.MkdirTemp("", "multieni-test-")
	if err != nil {
		return failed(err)
	}
	c, err := cluster.Start(context.Background(), cluster.Options{Dir: dir})
	if err != nil {
		return failed(err)
	}
	share(c)
	code = m.Run()
	if err := c.Stop(); err != nil {
		return failed(err)
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "logs of kube-apiserver and etcd are in %s\n", dir)
		return code
	}
	if err := os.RemoveAll(dir); err != nil {
		return failed(err)
	}
	return 0
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Join is [cluster.Start] on the API server of shared, for one test: it sets folder, kubeconfig and logger, and stops
// the cluster at the end.
func Join(t *testing.T, shared *cluster.Cluster, opts cluster.Options) *cluster.Cluster {
	t.Helper()
	opts.Dir = t.TempDir()
	opts.Kubeconfig = shared.Kubeconfig
	opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	c, err := cluster.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl = shared.Kubectl
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}
