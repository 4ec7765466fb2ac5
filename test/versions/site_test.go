// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/test/inputs"
)

const (
	// speed is how many times faster than AWS the simulated one runs.
	speed = 20
	// patience is how long to wait for steps that take seconds.
	patience = 90 * time.Second
	chart    = "charts/multieni"

	controllerNamespace = "eni-controller-system"
)

// site is a cluster of one release, with a simulated AWS.
type site struct {
	*testing.T
	*cluster.Cluster
	release assets.Release
	dir     string
}

func newSite(t *testing.T, release assets.Release) *site {
	t.Helper()
	s := &site{T: t, release: release, dir: t.TempDir()}
	s.must(inputs.Shipped(root))
	// Without a logger controller-runtime complains half a minute later.
	ctrllog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
	aws := awssim.Options{World: awssim.ExampleWorld(), Behavior: new(ec2.LaggingBehavior()), Clock: awssim.ScaledClock(speed), Seed: 1}
	var err error
	s.Cluster, err = cluster.Start(t.Context(), cluster.Options{
		Dir: s.dir, AWS: &aws, WithoutCRDs: true, Release: &release, Logger: slog.New(slog.DiscardHandler),
	})
	s.must(err)
	t.Cleanup(func() { s.must(s.Stop()) })
	var served struct{ ServerVersion, ClientVersion struct{ GitVersion string } }
	s.must(json.Unmarshal([]byte(s.mustKubectl("version", "-o", "json")), &served))
	if served.ServerVersion.GitVersion != release.Version || served.ClientVersion.GitVersion != release.Version {
		t.Fatalf("API server and kubectl are %+v, want %s", served, release.Version)
	}
	return s
}

// at returns the site for another test.
func (s *site) at(t *testing.T) *site {
	return &site{T: t, Cluster: s.Cluster, release: s.release, dir: s.dir}
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// command runs a program in the checkout, with a kubeconfig and the standard input.
func (s *site) command(kubeconfig, input, program string, args ...string) (string, error) {
	command := exec.CommandContext(s.Context(), program, args...)
	command.Dir, command.Stdin = root, strings.NewReader(input)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CONFIG_HOME="+s.dir, "HELM_CACHE_HOME="+s.dir, "HELM_DATA_HOME="+s.dir)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (s *site) kubectl(args ...string) (string, error) {
	return s.command(s.Kubeconfig, "", s.Kubectl, args...)
}

func (s *site) mustKubectl(args ...string) string {
	s.Helper()
	out, err := s.kubectl(args...)
	if err != nil {
		s.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// apply applies a manifest. Without the first line, kubectl would read flow mappings as JSON.
func (s *site) apply(manifest string, args ...string) (string, error) {
	return s.command(s.Kubeconfig, "---\n"+manifest, s.Kubectl, append([]string{"apply", "-f", "-"}, args...)...)
}

// helmProgram builds helm, once, from its module, and returns its path.
var helmProgram = sync.OnceValues(func() (string, error) {
	command := exec.Command("go", "tool", "-modfile=tools/helm/go.mod", "-n", "helm")
	command.Dir, command.Stderr = root, os.Stderr
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
})

func (s *site) helm(args ...string) (string, error) {
	s.Helper()
	program, err := helmProgram()
	if err != nil {
		s.Fatalf("build helm: %v", err)
	}
	return s.command(s.Kubeconfig, "", program, args...)
}

// as writes a kubeconfig with a token of the service account, bound to the pod if there is one.
func (s *site) as(namespace, account, pod string) string {
	s.Helper()
	args := []string{"create", "token", account, "--namespace", namespace}
	if pod != "" {
		args = append(args, "--bound-object-kind=Pod", "--bound-object-name="+pod)
	}
	token := s.mustKubectl(args...)
	settings, err := clientcmd.LoadFromFile(s.Kubeconfig)
	s.must(err)
	for _, user := range settings.AuthInfos {
		user.Token, user.ClientCertificateData, user.ClientKeyData = token, nil, nil
	}
	file := filepath.Join(s.TempDir(), "kubeconfig")
	s.must(clientcmd.WriteToFile(*settings, file))
	return file
}

// runController runs the controller as its service account, until the end of the test of the site.
func (s *site) runController() *child.Process {
	s.Helper()
	p, err := child.Start(child.Options{
		Program: "multieni", Args: append(child.Flags(speed), "--leader-election-namespace="+controllerNamespace), Log: filepath.Join(s.dir, "controller.log"),
		Env: append(s.Env(), "KUBECONFIG="+s.as(controllerNamespace, "eni-controller", "")),
	})
	s.must(err)
	return p
}

// eventually waits for what the API server does after a write and announces by no event.
func (s *site) eventually(what string, so func() (said string, done bool)) {
	s.Helper()
	var said string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var done bool
		if said, done = so(); done {
			return
		}
	}
	s.Fatalf("still not so after %s: %s\n%s", patience, what, said)
}
