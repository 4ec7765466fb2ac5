// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package enibootstrap is the command that creates the interfaces of a node while it boots.
package enibootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/imds"
	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/userdata"
	"github.com/multieni/multieni/internal/host/netlink"
	"github.com/multieni/multieni/internal/host/networkd"
	"github.com/multieni/multieni/internal/join/bootstrap"
	"github.com/multieni/multieni/internal/join/join"
	"github.com/multieni/multieni/internal/join/joinconfig"
)

// The exit codes other than 0, which means that every network is attached, and 1, which means invalid usage of the
// command.
const (
	// Partial means that an optional network is missing.
	Partial = 10
	// Missing means that a required one is.
	Missing = 20
)

// ExitError is an error with an exit code.
type ExitError struct {
	Code int
	Why  string
}

// Error implements error.
func (e *ExitError) Error() string { return e.Why }

type options struct {
	config, ssmParameter, region, dir, nodeConfig, environment, onFailure string
	parameters                                                            []string
	instanceTags                                                          bool
	patience, linkTimeout                                                 time.Duration
	mtu                                                                   int
}

// New returns the command.
func New() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:     "eni-bootstrap",
		Short:   "Create the interfaces of a node while it boots",
		Version: version.String(),
		Long: `Create the network interfaces of a node while it boots, before the kubelet starts: create or
adopt them, attach them, wait for their links, and configure these.

The command identifies its instance with instance metadata (version 2). It takes the networks
from one of these sources:
  --parameter NAME=VALUE, or environment variables of the same names
  --config         a file
  --ssm-parameter  a parameter of the SSM Parameter Store
  --instance-tags  tags of the instance with the names of the parameters; the instance must show
                   its tags in instance metadata

The parameters can name subnets of all zones: the node uses those of its own zone, so one launch
template is enough for a node group in any number of zones.

At a reboot, the command verifies the interfaces with instance metadata, and does not call EC2.

Exit codes: 0 if every network is attached; 10 if an optional network is missing; 20 if a
required network is missing.`,
		Example: `  eni-bootstrap --config /etc/multieni/networks.yaml --on-failure=taint
  eni-bootstrap --instance-tags --node-config /etc/eks/nodeadm.d/40-multieni.yaml
  eni-bootstrap --parameter ClusterName=c --parameter MultusSubnets=subnet-0a1,subnet-0b1 --parameter MultusSecurityGroupIds=sg-01`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := command.Flags()
	f.StringArrayVar(&o.parameters, "parameter", nil, "parameter as NAME=VALUE; may be repeated")
	f.StringVar(&o.config, "config", "", "file with the networks of the node, in YAML or JSON")
	f.StringVar(&o.ssmParameter, "ssm-parameter", "", "name of an SSM parameter with the content of such a file")
	f.BoolVar(&o.instanceTags, "instance-tags", false,
		"read the parameters from the instance's tags in instance metadata")
	f.StringVar(&o.region, "region", "", "AWS region; by default AWS_REGION, then instance metadata")
	f.StringVar(&o.dir, "state-dir", "/var/lib/multieni", "folder for the checkpoint")
	f.StringVar(&o.nodeConfig, "node-config", "",
		"file for labels, taint and the number of pods, in the format of nodeadm, for example "+
			"/etc/eks/nodeadm.d/40-multieni.yaml")
	f.StringVar(&o.environment, "environment", "",
		"file for labels, taint and the number of pods, in the format of EnvironmentFile= of a systemd unit")
	f.StringVar(&o.onFailure, "on-failure", userdata.Fail,
		"action without a required network: fail (exit 20), taint (register the node with a taint, exit 0) or "+
			"continue (exit 0)")
	f.DurationVar(&o.patience, "patience", 3*time.Minute, "how long to wait for interfaces that cannot be created yet")
	f.DurationVar(&o.linkTimeout, "link-timeout", time.Minute, "how long to wait for links")
	f.IntVar(&o.mtu, "mtu", 0, "MTU of the links in bytes; 0 for the largest inside a VPC")
	command.MarkFlagsMutuallyExclusive("config", "ssm-parameter", "parameter", "instance-tags")
	return command
}

func run(ctx context.Context, o options, out, errOut io.Writer) error {
	switch o.onFailure {
	case userdata.Fail, userdata.Taint, userdata.Continue:
	default:
		return fmt.Errorf("--on-failure=%s: it can be %s, %s or %s", o.onFailure, userdata.Fail, userdata.Taint,
			userdata.Continue)
	}
	log := slog.New(slog.NewTextHandler(errOut, nil))
	host, err := netlink.Open(netlink.Options{})
	if err != nil {
		return err
	}
	defer host.Close()
	metadata, err := imds.New()
	if err != nil {
		return err
	}
	manager := networkd.Manager{Run: "/run/systemd", Log: log}
	report, err := bootstrap.Run(ctx, bootstrap.Options{
		Metadata: metadata.Read, Host: host, LeaveOnly: manager.LeaveOnly, Dir: o.dir, MTU: o.mtu,
		LinkTimeout: o.linkTimeout, Log: log,
		Ensure: func(ctx context.Context, instanceID string, unused bool) (join.Result, error) {
			return o.ensure(ctx, metadata, manager, join.Request{
				InstanceID: instanceID, NothingRunning: func(context.Context) bool { return unused }, Timeout: o.patience,
			}, log)
		},
	})
	if err != nil {
		report.Failed = err.Error()
	}
	if err := o.tellKubelet(report); err != nil {
		return err
	}
	for _, i := range report.Interfaces {
		fmt.Fprintf(out, "%s: %s %s at card %d device %d\n", i.Network, i.ENIID, i.MACAddress,
			i.NetworkCardIndex, i.DeviceIndex)
	}
	return o.conclude(report, log)
}

// conclude returns the error of the command for a report.
func (o options) conclude(report bootstrap.Report, log *slog.Logger) error {
	switch {
	case report.Failed != "" && o.onFailure == userdata.Fail:
		return &ExitError{Missing, "a required network is missing: " + report.Failed}
	case report.Failed != "":
		log.Error("a required network is missing; the node joins without it", "why", report.Failed,
			"onFailure", o.onFailure)
		return nil
	case len(report.Lacking) > 0:
		return &ExitError{Partial, fmt.Sprintf("optional networks are missing: %v", report.Lacking)}
	default:
		return nil
	}
}

// ensure gives the instance its interfaces in EC2.
func (o options) ensure(
	ctx context.Context, metadata *imds.Client, manager networkd.Manager, request join.Request, log *slog.Logger,
) (join.Result, error) {
	region, err := awsec2.Region(ctx, o.region)
	if err != nil {
		return join.Result{}, err
	}
	cfg, err := awsec2.Load(ctx, region, version.String(), log)
	if err != nil {
		return join.Result{}, err
	}
	want, err := o.load(ctx, cfg, metadata)
	if err != nil {
		return join.Result{}, err
	}
	cloud := awsec2.New(cfg, awsec2.Options{Cluster: want.Cluster})
	if err := joinconfig.Check(ctx, want, cloud); err != nil {
		return join.Result{}, err
	}
	joiner := join.New(join.Options{
		Config: want.Config, Cloud: cloud, Addresses: join.NewQueue(want.Config, cloud, time.Now),
		Attaching: manager.Leave, Now: time.Now, Log: log,
	})
	return joiner.Ensure(ctx, request)
}

// load reads the parameters.
func (o options) load(ctx context.Context, cfg aws.Config, metadata *imds.Client) (lifecycle.Parameters, error) {
	switch {
	case len(o.parameters) > 0:
		values, err := joinconfig.Pairs(o.parameters)
		if err != nil {
			return lifecycle.Parameters{}, err
		}
		return lifecycle.ParseParameters(values)
	case o.config != "":
		text, err := os.ReadFile(o.config)
		if err != nil {
			return lifecycle.Parameters{}, err
		}
		return joinconfig.Document("--config="+o.config, text)
	case o.ssmParameter != "":
		return fromSSM(ctx, cfg, o.ssmParameter)
	case o.instanceTags:
		return fromTags(ctx, metadata)
	default:
		return lifecycle.ParseParameters(joinconfig.Environment(os.Environ()))
	}
}

func fromSSM(ctx context.Context, cfg aws.Config, name string) (lifecycle.Parameters, error) {
	decrypt := true
	got, err := ssm.NewFromConfig(cfg).GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: &decrypt})
	if err != nil {
		return lifecycle.Parameters{}, fmt.Errorf("read SSM parameter %s: %w", name, err)
	}
	if got.Parameter == nil || got.Parameter.Value == nil {
		return lifecycle.Parameters{}, errors.New("SSM parameter " + name + " has no value")
	}
	return joinconfig.Document("SSM parameter "+name, []byte(*got.Parameter.Value))
}

func fromTags(ctx context.Context, metadata *imds.Client) (lifecycle.Parameters, error) {
	tags, err := metadata.Tags(ctx)
	if err != nil {
		return lifecycle.Parameters{}, err
	}
	values := joinconfig.Parameters(tags)
	if len(values) == 0 {
		return lifecycle.Parameters{}, fmt.Errorf(
			"instance metadata has no tag with the name of a parameter: tag the instance with %s1 and so on, and set "+
				"InstanceMetadataTags to enabled in its metadata options", lifecycle.ParameterSubnets)
	}
	p, err := lifecycle.ParseParameters(values)
	if err != nil {
		return lifecycle.Parameters{}, fmt.Errorf("the tags of the instance: %w", err)
	}
	return p, nil
}

// tellKubelet writes the files of --node-config and --environment.
func (o options) tellKubelet(report bootstrap.Report) error {
	taint := report.Failed != "" && o.onFailure == userdata.Taint
	for path, text := range map[string]string{o.nodeConfig: report.NodeConfig(taint),
		o.environment: report.Environment(taint, runtime.NumCPU())} {
		if path == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the settings of the kubelet: %w", err)
		}
	}
	return nil
}
