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
// Nodes and our kinds are not namespaced, so tests that join one server do not run in parallel, and each removes its
// objects.
package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multieni/multieni/internal/dev/cluster"
)

// Run starts an API server, passes it to share, runs the tests and stops it. It returns the exit code for os.Exit. If a
// test fails, it keeps the server's logs and prints their path.
func Run(m *testing.M, share func(*cluster.Cluster)) (code int) {
	return RunPool(m, 1, func(pool chan *cluster.Cluster) {
		share(<-pool)
	})
}

// RunPool is [Run] with several API servers, for tests that run at the same time and have Nodes and our kinds: each
// takes a server from the pool, and returns it without its objects.
func RunPool(m *testing.M, size int, share func(pool chan *cluster.Cluster)) (code int) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: tests with an API server wait, and -short leaves out what waits")
		return 0
	}
	// Without a logger controller-runtime complains half a minute later.
	ctrllog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
	dir, err := os.MkdirTemp("", "multieni-test-")
	if err != nil {
		return failed(err)
	}
	pool := make(chan *cluster.Cluster, size)
	var starts errgroup.Group
	for n := range size {
		starts.Go(func() error {
			c, err := cluster.Start(context.Background(), cluster.Options{Dir: filepath.Join(dir, strconv.Itoa(n))})
			if err == nil {
				pool <- c
			}
			return err
		})
	}
	err = starts.Wait()
	var started []*cluster.Cluster
	for range len(pool) {
		c := <-pool
		started = append(started, c)
		pool <- c
	}
	if err == nil {
		share(pool)
		code = m.Run()
	}
	for _, c := range started {
		err = errors.Join(err, c.Stop())
	}
	if err != nil {
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
