// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ship_test tests what a release ships, in its final form: the chart with the real helm and a real API server,
// the program from the container image, permissions and documents, and the installation, upgrade and removal of all of
// it.
package ship_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/internal/dev/cluster/clustertest"
	"github.com/multieni/multieni/test/inputs"
)

// root is the folder of the checkout.
const root = "../.."

// shared is the API server of all tests.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, func(c *cluster.Cluster) { shared = c }))
}

// connect returns a client that knows our kinds and those of Kubernetes.
func connect(t *testing.T) client.Client {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(shared.Config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// recordInputs records what helm, kubectl and scripts read of the checkout.
func recordInputs(t *testing.T) {
	t.Helper()
	if err := inputs.Shipped(root); err != nil {
		t.Fatal(err)
	}
}

// helmProgram builds helm, once, from its module, and returns its path.
var helmProgram = sync.OnceValues(func() (string, error) {
	command := exec.Command("go", "tool", "-modfile=tools/helm/go.mod", "-n", "helm")
	command.Dir, command.Stderr = root, os.Stderr
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs the real helm on the shared API server.
func helm(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	return helmOn(t, shared, args...)
}

// helmOn runs the real helm with a cluster's kubeconfig and settings of its own.
func helmOn(t *testing.T, c *cluster.Cluster, args ...string) (out string, err error) {
	t.Helper()
	recordInputs(t)
	program, err := helmProgram()
	if err != nil {
		t.Fatalf("build helm: %v", err)
	}
	command := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig,
		"HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	command.Dir = root
	both, err := command.CombinedOutput()
	return string(both), err
}

// mustHelm runs helm, and fails the test if that fails.
func mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// kubectl runs the cluster's kubectl in the checkout, and fails the test if that fails.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	recordInputs(t)
	command := exec.CommandContext(t.Context(), shared.Kubectl, args...)
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
