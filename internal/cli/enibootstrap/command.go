// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package enibootstrap is the command that gives a node its interfaces while it boots.
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

	"github.com/multieni/multieni/internal/awsec2"
	"github.com/multieni/multieni/internal/bootstrap"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/userdata"
	"github.com/multieni/multieni/internal/imds"
	"github.com/multieni/multieni/internal/join"
	"github.com/multieni/multieni/internal/joinconfig"
	"github.com/multieni/multieni/internal/netlink"
	"github.com/multieni/multieni/internal/networkd"
	"github.com/multieni/multieni/internal/version"
)

// The exit codes other than 0, which means that every network is attached, and 1, which means a wrong usage of the
// command.
const (
	// Partial means that an optional network is missing.
	Partial = 10
	// Missing means that a required one is.
	Missing = 20
)

// ExitError asks for an exit code.
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
		Short:   "Give a node its interfaces while it boots",
		Version: version.String(),
		Long: `Give a node its network interfaces while it boots, before the kubelet starts: create or
adopt them, attach them, wait for their links, and make these usable.

It asks instance metadata (version 2) who it is. What to do stands in --parameter
NAME=VALUE or environment variables of the same names, in a file (--config), in a parameter
of the SSM Parameter Store (--ssm-parameter), or in tags of the instance with the names of the
parameters (--instance-tags; the instance must show its tags in instance metadata). Subnets
of all zones can be named: the node takes those of its own, so one launch template does for
a node group of any number of zones.

At a reboot the interfaces are verified with instance metadata, and nothing is asked of EC2.

Exit codes: 0 all is there; 10 an optional network is missing; 20 a required one is.`,
		Example: `  eni-bootstrap --config /etc/multieni/networks.yaml --on-failure=taint
  eni-bootstrap --instance-tags --node-config /etc/eks/nodeadm.d/40-multieni.yaml
  eni-bootstrap --parameter ClusterName=c --parameter MultusSubnets=subnet-0a1,subnet-0b1 --parameter MultusSecurityGroupIds=sg-01`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := command.Flags()
	f.StringArrayVar(&o.parameters, "parameter", nil, "a parameter as NAME=VALUE; can be repeated")
	f.StringVar(&o.config, "config", "", "file that says which networks the node gets, in YAML or JSON")
	f.StringVar(&o.ssmParameter, "ssm-parameter", "", "name of an SSM parameter that holds such a file")
	f.BoolVar(&o.instanceTags, "instance-tags", false,
		"take the parameters from the instance's tags, as instance metadata shows them")
	f.StringVar(&o.region, "region", "", "AWS region; by default AWS_REGION, then instance metadata")
	f.StringVar(&o.dir, "state-dir", "/var/lib/multieni", "folder of the record of what was done")
	f.StringVar(&o.nodeConfig, "node-config", "",
		"write labels, taint and the number of pods to this file for nodeadm, such as /etc/eks/nodeadm.d/40-multieni.yaml")
	f.StringVar(&o.environment, "environment", "", "write them to this file for EnvironmentFile= of a systemd unit")
	f.StringVar(&o.onFailure, "on-failure", userdata.Fail,
		"what to do without a required network: fail (exit 20), taint (register the node with a taint, exit 0) or "+
			"continue (exit 0)")
	f.DurationVar(&o.patience, "patience", 3*time.Minute, "how long to wait for interfaces that may yet come")
	f.DurationVar(&o.linkTimeout, "link-timeout", time.Minute, "how long to wait for links")
	f.IntVar(&o.mtu, "mtu", 0, "MTU of the links; 0 for the largest inside a VPC")
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

// conclude turns a report into the command's end.
func (o options) conclude(report bootstrap.Report, log *slog.Logger) error {
	switch {
	case report.Failed != "" && o.onFailure == userdata.Fail:
		return &ExitError{Missing, "a required network is missing: " + report.Failed}
	case report.Failed != "":
		log.Error("a required network is missing, and the node joins all the same", "why", report.Failed,
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

// load reads what to do.
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
			"instance metadata shows no tag that is a parameter: tag the instance with %s1 and so on, and set "+
				"InstanceMetadataTags to enabled in its metadata options", lifecycle.ParameterSubnets)
	}
	p, err := lifecycle.ParseParameters(values)
	if err != nil {
		return lifecycle.Parameters{}, fmt.Errorf("the tags of the instance: %w", err)
	}
	return p, nil
}

// tellKubelet writes the kubelet's inputs where they are wanted.
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
			return fmt.Errorf("tell the kubelet: %w", err)
		}
	}
	return nil
}
