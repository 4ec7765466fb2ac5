// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/dev/nodekeeper"
)

// Options configure [Start].
type Options struct {
	// Dir is the folder for the kubeconfig, the env file and the servers' logs. Start creates it if necessary. Required.
	Dir string
	// AWS has the options of the simulated AWS. Nil means no AWS and no nodes, only a Kubernetes API.
	AWS *awssim.Options
	// Networks gives some nodes a network namespace with links and an agent, if that is possible here, and the pods on
	// them the networks of their annotation. These nodes register with the startup taint.
	Networks bool
	// Kubeconfig, if set, is that of an existing cluster, which is used instead of a new API server. Start adds the
	// definitions of our kinds to it and, until Stop, the simulated nodes.
	Kubeconfig string
	// WithoutCRDs leaves out the definitions of our kinds, for a user who installs them with the chart.
	WithoutCRDs bool
	// Release, if set, is the release of Kubernetes of a new API server and its kubectl. Nil means that of [assets.Dir].
	Release *assets.Release
	// Audit, if set, is the file to which a new API server writes an event for every changing request.
	Audit string
	// Logger receives events. Nil means silence.
	Logger *slog.Logger
	// Progress receives the progress of the first build of the API server. Nil means os.Stderr.
	Progress io.Writer
}

// A Cluster is a running Kubernetes API together with a running simulator.
type Cluster struct {
	Config     *rest.Config      // an administrator's access to the API server
	Kubeconfig string            // path of a file with the same access
	Kubectl    string            // path of a kubectl that fits, or its name in PATH
	Simulator  *awssim.Simulator // the simulated AWS, if there is one
	Endpoint   string            // its URL, for AWS_ENDPOINT_URL
	Region     string            // its region, for AWS_REGION
	Networks   string            // the folder of files that lead into the nodes' network namespaces, if there are any
	NoNetworks error             // why there are none
	NoPods     error             // why pods get no networks, even if nodes have them

	api   *controlPlane
	stops []func() error // undo Start, the latest step first
}

// Start starts everything and returns once each running instance has its Node. The context bounds only the start: the
// servers run until [Cluster.Stop].
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Progress == nil {
		opts.Progress = os.Stderr
	}
	c := &Cluster{}
	steps := []func(context.Context, Options) error{c.startAPI, c.startSimulator, c.startNetworks,
		c.startKeeper, c.writeFiles}
	if opts.AWS == nil {
		steps = steps[:1]
	}
	for _, step := range steps {
		if err := step(ctx, opts); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// Stop stops everything that Start started, and waits for it. It removes the simulated nodes from an existing cluster,
// but not the definitions of our kinds, because its users' objects depend on them.
func (c *Cluster) Stop() error {
	var errs []error
	for _, stop := range slices.Backward(c.stops) {
		errs = append(errs, stop())
	}
	c.stops = nil
	return errors.Join(errs...)
}

// Restart stops kube-apiserver and etcd, calls change with the folder of etcd's data while both are stopped, and starts
// them again under the same addresses, like the restore of a backup. It works only with a new API server.
func (c *Cluster) Restart(change func(data string) error) error { return c.api.restart(change) }

func (c *Cluster) onStop(stop func() error) { c.stops = append(c.stops, stop) }

func (c *Cluster) startAPI(ctx context.Context, opts Options) error {
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return err
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return err
	}
	var api *controlPlane
	if opts.Kubeconfig != "" {
		api, err = useControlPlane(opts.Kubeconfig)
	} else {
		api, err = startControlPlane(ctx, dir, opts)
	}
	if err != nil {
		return err
	}
	c.onStop(api.stop)
	c.api = api
	c.Config, c.Kubeconfig, c.Kubectl = api.config, api.kubeconfig, api.kubectl
	if opts.WithoutCRDs {
		return nil
	}
	return installCRDs(c.Config)
}

// startKeeper starts the keeper and waits for the first nodes.
func (c *Cluster) startKeeper(ctx context.Context, opts Options) error {
	keeper, err := nodekeeper.New(c.Config, c.instances, opts.Logger)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- keeper.Run(running) }()
	c.onStop(func() error {
		cancel()
		return errors.Join(<-ended, c.deleteNodes(opts))
	})
	select {
	case <-keeper.Synced():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the nodes of simulated instances: %w", context.Cause(ctx))
	}
}

// deleteNodes removes the simulated nodes from an existing cluster.
func (c *Cluster) deleteNodes(opts Options) error {
	if opts.Kubeconfig == "" {
		return nil
	}
	writer, err := client.New(c.Config, client.Options{})
	if err != nil {
		return err
	}
	// Stop has no context: it runs after the program's context has ended.
	return writer.DeleteAllOf(context.Background(), &corev1.Node{}, client.MatchingLabels{nodekeeper.Label: "true"})
}

func (c *Cluster) writeFiles(_ context.Context, opts Options) error {
	path := filepath.Join(opts.Dir, "env")
	c.onStop(func() error { return os.Remove(path) })
	return c.writeEnv(path)
}
