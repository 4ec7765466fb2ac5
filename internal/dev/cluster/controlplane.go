// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/multieni/multieni/config/crd"
	"github.com/multieni/multieni/internal/dev/assets"
)

// serverTimeout is the time limit for etcd and kube-apiserver each to start or to stop: three seconds on an idle
// machine, much longer while a compiler runs.
const serverTimeout = 2 * time.Minute

// controlPlane is a Kubernetes API: a new or an existing one.
type controlPlane struct {
	config     *rest.Config
	kubeconfig string // path
	kubectl    string // path, or a name to look up in PATH
	stop       func() error
	env        *envtest.Environment // of a new API server
}

// startControlPlane starts kube-apiserver and etcd, with all their files below dir.
func startControlPlane(ctx context.Context, dir string, opts Options) (*controlPlane, error) {
	obtain := assets.Dir
	if opts.Release != nil {
		obtain = opts.Release.Dir
	}
	programs, err := obtain(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "controlplane-") // never shared: certificates and data belong to one run
	if err != nil {
		return nil, err
	}
	env, stop, err := startEnvironment(programs, data, dir, opts.Audit)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the Kubernetes API server (its log is %s): %w",
			logFile(dir, assets.APIServer), err), stop())
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		return nil, errors.Join(err, stop())
	}
	return &controlPlane{
		config:     env.Config,
		kubeconfig: kubeconfig,
		kubectl:    filepath.Join(programs, assets.Kubectl),
		stop:       func() error { return errors.Join(os.Remove(kubeconfig), stop()) },
		env:        env,
	}, nil
}

// restart stops both servers, calls change with the folder of etcd's data, and starts them again under their addresses.
func (p *controlPlane) restart(change func(data string) error) error {
	if p.env == nil {
		return errors.New("this API server was not started here")
	}
	server, etcd := p.env.ControlPlane.GetAPIServer(), p.env.ControlPlane.Etcd
	for _, step := range []func() error{
		server.Stop, etcd.Stop, func() error { return change(etcd.DataDir) }, etcd.Start, server.Start,
	} {
		if err := step(); err != nil {
			return fmt.Errorf("restart the Kubernetes API server: %w", err)
		}
	}
	return nil
}

// auditPolicy logs an event for each changing request, once it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
`

// startEnvironment starts the two servers. The stop function is never nil, and must be called after an error too.
func startEnvironment(programs, data, logs, audit string) (*envtest.Environment, func() error, error) {
	env := &envtest.Environment{
		ControlPlaneStartTimeout: serverTimeout,
		ControlPlaneStopTimeout:  serverTimeout,
	}
	var opened []io.Closer
	stop := func() error {
		errs := []error{env.Stop()}
		for _, file := range opened {
			errs = append(errs, file.Close())
		}
		return errors.Join(append(errs, os.RemoveAll(data))...)
	}
	server, etcd := env.ControlPlane.GetAPIServer(), &envtest.Etcd{}
	env.ControlPlane.Etcd = etcd
	env.ControlPlane.KubectlPath = filepath.Join(programs, assets.Kubectl)
	server.Path, server.CertDir = filepath.Join(programs, assets.APIServer), data
	if audit != "" {
		policy := filepath.Join(data, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return env, stop, err
		}
		server.Configure().Set("audit-policy-file", policy).Set("audit-log-path", audit)
	}
	etcd.Path, etcd.DataDir = filepath.Join(programs, assets.Etcd), filepath.Join(data, "etcd")
	for name, output := range map[string]*io.Writer{assets.APIServer: &server.Err, assets.Etcd: &etcd.Err} {
		file, err := os.Create(logFile(logs, name))
		if err != nil {
			return nil, stop, err
		}
		opened = append(opened, file)
		*output = file
	}
	_, err := env.Start()
	return env, stop, err
}

func logFile(dir, program string) string { return filepath.Join(dir, program+".log") }

// useControlPlane returns the cluster of a kubeconfig. It uses the kubectl in PATH, which users of a cluster have.
func useControlPlane(kubeconfig string) (*controlPlane, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 1000, 2000 // as envtest has it
	path, err := filepath.Abs(kubeconfig)
	if err != nil {
		return nil, err
	}
	return &controlPlane{config: config, kubeconfig: path, kubectl: assets.Kubectl, stop: func() error { return nil }}, nil
}

// installCRDs creates or updates the definitions of our kinds and waits until
// the API server serves them.
func installCRDs(config *rest.Config) error {
	definitions, err := crd.Definitions()
	if err != nil {
		return err
	}
	return installDefinitions(config, definitions...)
}
