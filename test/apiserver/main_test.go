// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver_test tests our kinds with a real API server: the examples, the errors that a user sees, status,
// columns and server-side apply.
package apiserver_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/config/crd"
	"github.com/multieni/multieni/internal/dev/assets"
)

// server is started once for all tests of the package. Each test uses objects of its own name.
var server *envtest.Environment

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = server.Stop() }()
	return m.Run()
}

func start() error {
	programs, err := assets.Dir(context.Background(), os.Stderr)
	if err != nil {
		return err
	}
	definitions, err := crd.Definitions()
	if err != nil {
		return err
	}
	server = &envtest.Environment{
		BinaryAssetsDirectory:    programs,
		CRDs:                     definitions,
		ControlPlaneStartTimeout: 2 * time.Minute, // seconds on an idle machine, much longer while a compiler runs
	}
	if _, err := server.Start(); err != nil {
		return fmt.Errorf("start an API server: %w", err)
	}
	return nil
}

// connect returns a client that knows our kinds.
func connect(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get[T client.Object](t *testing.T, c client.Client, object T) T {
	t.Helper()
	stored := object.DeepCopyObject().(T)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

// applyStatus applies the status of an owner. The client writes the server's whole answer into status, so a second
// apply of the same value would claim the fields of all owners: build the value again each time.
func applyStatus(t *testing.T, c client.Client, status runtime.ApplyConfiguration, owner client.FieldOwner) {
	t.Helper()
	if err := c.Status().Apply(t.Context(), status, owner); err != nil {
		t.Fatal(err)
	}
}

// remove deletes the object after a test, when the test's own context has ended.
func remove(t *testing.T, c client.Client, object client.Object, options ...client.DeleteOption) {
	t.Helper()
	if err := c.Delete(context.Background(), object, options...); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
