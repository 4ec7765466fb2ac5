// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/cli/simulate"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/internal/dev/nodenet"
)

// playground has the settings of up.
type playground struct {
	simulate.Settings
	dir          string
	kubeconfig   string
	noController bool
}

func newUp() *cobra.Command {
	var p playground
	command := &cobra.Command{
		Use:   "up --dir DIR",
		Short: "Run a playground: API server, simulated AWS, nodes, controller",
		Long: `Run a playground until it is interrupted: a Kubernetes API server with the definitions of
NodeENI and NetworkInterface, a simulated AWS, a Node for each of its instances, and the
controller. As root on Linux, three of the nodes also have a network namespace, in which a
link appears for each attached interface, and an agent. Pods with the annotation of Multus start
on these nodes, without containers, and get their networks (examples/pods.yaml). DIR/env leads a
shell there, DIR/kubeconfig any other program.

Outside a checkout of multieni it needs the program multieni in its own folder (or --no-controller),
and the programs of a control plane: from the internet, or in the folder that KUBEBUILDER_ASSETS
names (or --kubeconfig).`,
		Example: `  multieni-dev up --dir .cache/up

  # in another shell
  . .cache/up/env
  kubectl apply -f examples/single-subnet.yaml
  kubectl label node node-a1 ng=multi-eni
  kubectl get eni --watch

  # a node more, a node less
  curl $AWS_ENDPOINT_URL/_sim/instances -d \
    '{"name":"node-d1","instanceType":"m5.xlarge","availabilityZone":"us-east-1a"}'
  curl -X DELETE $AWS_ENDPOINT_URL/_sim/instances/i-…

  # with a controller of your own: a debugger's, or one just built
  multieni-dev up --dir .cache/up --no-controller
  . .cache/up/env && go run ./cmd/multieni controller --leader-elect=false`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringVar(&p.dir, "dir", "", "folder for kubeconfig, env and logs; made if missing (required)")
	flags.StringVar(&p.kubeconfig, "kubeconfig", "", "use this cluster instead of an API server of our own")
	flags.BoolVar(&p.noController, "no-controller", false, "leave the controller out")
	p.Bind(flags, 1)
	if err := command.MarkFlagRequired("dir"); err != nil {
		panic(err) // a flag of that name was defined a few lines above
	}
	return command
}

func (p *playground) run(ctx context.Context, out, progress io.Writer) (err error) {
	aws, err := p.Options()
	if err != nil {
		return err
	}
	var controller child.Options
	if !p.noController {
		if controller, err = child.Controller(ctx, p.Speed, progress); err != nil {
			return err
		}
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: p.dir, AWS: &aws, Kubeconfig: p.kubeconfig, Networks: true, Progress: progress,
		Logger: slog.New(slog.NewTextHandler(progress, nil)),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	var ended <-chan struct{}
	if !p.noController {
		controller.Env, controller.Log = c.Env(), p.log()
		process, startErr := child.Start(controller)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, process.Stop()) }()
		ended = process.Exited()
	}
	p.greet(out, c)
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
		return fmt.Errorf("the controller ended by itself; its log is %s", p.log())
	}
}

func (p *playground) log() string { return filepath.Join(p.dir, "controller.log") }

// greet prints what is running and the next steps.
func (p *playground) greet(out io.Writer, c *cluster.Cluster) {
	fmt.Fprintf(out, "API server     %s\nsimulated AWS  %s, %g times as fast as EC2\n", c.Config.Host, c.Endpoint, p.Speed)
	if p.noController {
		fmt.Fprintf(out, "controller     none; start one with: multieni controller --leader-elect=false\n")
	} else {
		fmt.Fprintf(out, "controller     running; its log is %s\n", p.log())
	}
	nodes, agents := c.Nodes()
	node := slices.Concat(agents, nodes, []string{"NODE"})[0]
	switch {
	case c.NoNetworks != nil:
		fmt.Fprintf(out, "node agents    none: %v\n", c.NoNetworks)
	case len(agents) == 0:
		fmt.Fprintf(out, "node agents    none: no instance is called %s\n",
			strings.Join(slices.Sorted(maps.Keys(nodenet.Nodes())), " or "))
	default:
		fmt.Fprintf(out, "node agents    on %s; look with: nsenter --net=%s/%s ip -d link\n", strings.Join(agents, ", "),
			c.Networks, node)
		if c.NoPods != nil {
			fmt.Fprintf(out, "pods           without networks: %v\n", c.NoPods)
		} else {
			fmt.Fprintf(out, "pods           with networks, on the same nodes; look with: nsenter --net=%s/pods/NAMESPACE/NAME "+
				"ip address\n", c.Networks)
		}
	}
	fmt.Fprintf(out, `
In another shell:

  . %s
  kubectl get nodes -L topology.kubernetes.io/zone,node.kubernetes.io/instance-type
  kubectl apply -f examples/single-subnet.yaml
  kubectl label node %s ng=multi-eni
  kubectl get eni --watch
  curl $AWS_ENDPOINT_URL/_sim/state

Interrupt with Ctrl-C to stop and forget everything.
`, filepath.Join(p.dir, "env"), node)
}
