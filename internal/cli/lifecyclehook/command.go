// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecyclehook is the command of the lifecycle hook's handler. It does not depend on Kubernetes, so that it
// can be a small program of its own in AWS Lambda.
package lifecyclehook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/cli/telemetry"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
	"github.com/multieni/multieni/internal/join/joinconfig"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

// lambdaRuntime is the variable with the address at which a custom runtime of AWS Lambda receives its invocations.
const lambdaRuntime = "AWS_LAMBDA_RUNTIME_API"

// options are the flags of the command.
type options struct {
	account                        string
	config, region, queue, event   string
	metrics                        string
	parameters                     []string
	patience, heartbeat, tickEvery time.Duration
	atOnce                         int
}

// New returns the command.
func New() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:     "lifecycle-hook",
		Short:   "Create the interfaces of instances when they join an Auto Scaling group",
		Version: version.String(),
		Long: `Create the network interfaces of instances when they join an Auto Scaling group or a managed
node group, or when they start, and clean up after instances that terminate.

It runs in one of three ways:
  in AWS Lambda       when ` + lambdaRuntime + ` is set; events come from EventBridge,
                      or from a queue whose mapping reports failed items of a batch
  with a queue        with --queue-url; messages are deleted only after they were handled
  once                with --event FILE, or - for standard input

The parameters are in a file (--config), in --parameter NAME=VALUE, or in environment
variables of the same names. They are those of the CloudFormation template:
MultusSubnetsAz1, MultusSubnetsAz2 and so on, or MultusSubnets for all zones in one list,
MultusSecurityGroupIds, EksNodeGroupTagKey, useIPsFromStartOfSubnet, MultusInterfaceTags,
ClusterName, LifecycleHooks, OnFailure.
Invalid parameters end the command at its start.

With a queue, the command serves metrics at --metrics-bind-address. In AWS Lambda, it writes
them to the log in CloudWatch's embedded metric format.

The command completes only the lifecycle hooks that LifecycleHooks names, and never those that
EKS has on every managed node group.`,
		Example: `  multieni lifecycle-hook --config networks.yaml --queue-url https://sqs.us-west-2.amazonaws.com/123456789012/multus
  multieni lifecycle-hook --config networks.yaml --event launch.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), o, c.InOrStdin(), c.ErrOrStderr()) },
	}
	shared := command.PersistentFlags()
	shared.StringVar(&o.config, "config", "", "file with the networks of the instances, in YAML or JSON")
	shared.StringArrayVar(&o.parameters, "parameter", nil, "parameter as NAME=VALUE; may be repeated")
	shared.StringVar(&o.region, "region", "", "AWS region; by default AWS_REGION, then instance metadata")
	f := command.Flags()
	f.StringVar(&o.queue, "queue-url", "", "URL of the queue with the events")
	f.StringVar(&o.event, "event", "", "file with one event to handle, or - for standard input")
	f.DurationVar(&o.patience, "patience", 4*time.Minute,
		"how long to wait for interfaces that cannot be created yet, for example in a full subnet")
	f.DurationVar(&o.heartbeat, "heartbeat", 20*time.Second, "time between two heartbeats of a lifecycle action")
	f.DurationVar(&o.tickEvery, "tick", 5*time.Minute,
		"with a queue, time between two checks of all instances, because events can get lost; 0 for none")
	f.IntVar(&o.atOnce, "concurrency", 50, "with a queue, number of events handled concurrently")
	f.StringVar(&o.account, "account", "",
		"AWS account whose events are handled; if empty, that of the function in AWS Lambda, else any")
	f.StringVar(&o.metrics, "metrics-bind-address", ":8080",
		"with a queue, address of the Prometheus endpoint /metrics; 0 for none")
	command.MarkFlagsMutuallyExclusive("config", "parameter")
	command.MarkFlagsMutuallyExclusive("queue-url", "event")
	command.AddCommand(newImport(&o))
	return command
}

func run(ctx context.Context, o options, in io.Reader, errOut io.Writer) error {
	log := slog.New(slog.NewJSONHandler(errOut, nil))
	want, err := o.load()
	if err == nil {
		err = want.CheckTrigger()
	}
	if err != nil {
		return err
	}
	m, inLambda := newMeters(), os.Getenv(lambdaRuntime) != "" && o.event == "" && o.queue == ""
	var observer lifecyclehook.Observer = m
	if inLambda {
		observer = lifecyclehook.EmbeddedMetrics{To: errOut}
	}
	h, cfg, err := o.handler(ctx, want, m, observer, log)
	if err != nil {
		return err
	}
	switch {
	case o.event != "":
		return once(ctx, h, o.event, in)
	case o.queue != "":
		return o.serve(ctx, h, cfg, m, log)
	case inLambda:
		lambda.StartWithOptions(h.Lambda, lambda.WithContext(ctx))
		return nil
	default:
		return errors.New("no source of events: set --queue-url or --event, or run the command in AWS Lambda")
	}
}

// load reads the parameters.
func (o options) load() (lifecycle.Parameters, error) {
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return lifecycle.Parameters{}, err
		}
		return joinconfig.Document("--config="+o.config, text)
	}
	if len(o.parameters) > 0 {
		values, err := joinconfig.Pairs(o.parameters)
		if err != nil {
			return lifecycle.Parameters{}, err
		}
		return lifecycle.ParseParameters(values)
	}
	return lifecycle.ParseParameters(joinconfig.Environment(os.Environ()))
}

func (o options) handler(
	ctx context.Context, want lifecycle.Parameters, m *meters, observer lifecyclehook.Observer, log *slog.Logger,
) (*lifecyclehook.Handler, aws.Config, error) {
	region, err := awsec2.Region(ctx, o.region)
	if err != nil {
		return nil, aws.Config{}, err
	}
	cfg, err := awsec2.Load(ctx, region, version.String(), log)
	if err != nil {
		return nil, aws.Config{}, err
	}
	cloud := awsec2.New(cfg, awsec2.Options{Cluster: want.Cluster, Observe: m.calls.Observe})
	telemetry.RegisterBuckets(m.registry, cloud.Buckets)
	cfg = m.watch(cfg)
	if err := joinconfig.Check(ctx, want, cloud); err != nil {
		return nil, aws.Config{}, fmt.Errorf("check the parameters: %w", err)
	}
	return lifecyclehook.New(lifecyclehook.Options{
		Config: want.Config, Account: o.account, Region: region, Instances: cloud,
		AutoScaling: lifecyclehook.Scaling{API: autoscaling.NewFromConfig(cfg)},
		Joiner: join.New(join.Options{
			Config: want.Config, Cloud: cloud, Addresses: join.NewQueue(want.Config, cloud, time.Now), Now: time.Now, Log: log,
		}),
		Patience: o.patience, Heartbeat: o.heartbeat, Observer: observer, Log: log,
	}), cfg, nil
}

func once(ctx context.Context, h *lifecyclehook.Handler, path string, in io.Reader) error {
	read := func() ([]byte, error) { return os.ReadFile(path) }
	if path == "-" {
		read = func() ([]byte, error) { return io.ReadAll(in) }
	}
	body, err := read()
	if err != nil {
		return err
	}
	return h.Handle(ctx, body)
}

// tick is the event of a schedule in EventBridge.
const tick = `{"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}`

// serve handles the messages of the queue, runs the scheduled checks, and serves the metrics.
func (o options) serve(
	ctx context.Context, h *lifecyclehook.Handler, cfg aws.Config, m *meters, log *slog.Logger,
) error {
	log.Info("taking events", "queue", o.queue, "version", version.String())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.serve(ctx, o.metrics, log) })
	group.Go(func() error {
		consumer := lifecyclehook.Consumer{Queue: sqs.NewFromConfig(cfg), URL: o.queue, Handle: h.Handle,
			AtOnce: o.atOnce, Log: log}
		return consumer.Serve(ctx)
	})
	if o.tickEvery > 0 {
		group.Go(func() error {
			for {
				// Handle logs its errors. The next tick tries again.
				_ = h.Handle(ctx, []byte(tick))
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(o.tickEvery):
				}
			}
		})
	}
	return group.Wait()
}
