// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the settings of the commands: their flags, the environment variables that set the flags, and
// their defaults. A flag takes precedence over its variable, and a variable over the default.
package options

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// Controller is the settings of `multieni controller`.
type Controller struct {
	Region, ClusterName string
	// InstanceTags are tags, KEY=VALUE or KEY. An instance gets interfaces if it has one of them; without InstanceTags
	// all instances do.
	InstanceTags []string

	MetricsAddress, ProbeAddress string
	// MetricsSecure serves the metrics by HTTPS, with the certificate in MetricsCertDir, to clients that the API server
	// allows to read them.
	MetricsSecure           bool
	MetricsCertDir          string
	LeaderElect             bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration

	// MaxConcurrentReconciles is the number of NodeENIs, and MaxConcurrentNodes that of nodes, reconciled concurrently.
	// MaxConcurrentENICleanup is the number of interfaces of one node that are detached or deleted concurrently.
	MaxConcurrentReconciles, MaxConcurrentENICleanup, MaxConcurrentNodes int
	// Taint is the key of the startup taint; ReapplyTaint adds it again when a required interface is lost.
	Taint        string
	ReapplyTaint bool

	ResyncPeriod, PollInterval time.Duration
	// SourceRefreshPeriod is the time between two reads of what AWSNodeTemplates refer to: $Latest, images by tags.
	SourceRefreshPeriod time.Duration
	// EC2RateShare is the part of EC2's token buckets to use at first.
	EC2RateShare float64
	// EC2Buckets are the sizes of buckets that differ from the documented ones, by action, as "capacity/refill".
	EC2Buckets map[string]string

	// PodServices keeps the EndpointSlices of Services that publish a pod network.
	PodServices bool

	// NodeCluster has the values of this cluster for user data: name, endpoint, certificateAuthority, serviceCIDR.
	NodeCluster map[string]string

	Features
	Logging
}

// Logging is the settings of the log.
type Logging struct {
	// Verbosity is 0 for what an operator needs; 4 and above shows plans, 5 every call.
	Verbosity int
	// Format is json or text.
	Format string
}

// variables are the environment variables that set flags, by flag.
var variables = map[string]string{
	"cluster-name":               "CLUSTER_NAME",
	"instance-tags":              "INSTANCE_TAGS",
	"max-concurrent-reconciles":  "MAX_CONCURRENT_RECONCILES",
	"max-concurrent-eni-cleanup": "MAX_CONCURRENT_ENI_CLEANUP",
	"node-name":                  "NODE_NAME",
	"check-interval":             "CHECK_INTERVAL",
	"default-mtu":                "DEFAULT_MTU",
	"eni-pattern":                "ENI_PATTERN",
	"ignore-interfaces":          "IGNORE_INTERFACES",
	"primary-interface":          "PRIMARY_INTERFACE",
	"sriov-config":               "SRIOV_DP_CONFIG_PATH",
	"sysfs":                      "SYSFS",
	"networkd-dir":               "NETWORKD_DIR",
	"pods-dir":                   "PODS_DIR",
	"pod-networks":               "POD_NETWORKS",
	"cni-dir":                    "CNI_DIR",
	"wait-for-cni":               "WAIT_FOR_CNI",
	"observe-pod-addresses":      "OBSERVE_POD_ADDRESSES",
	"state-dir":                  "STATE_DIR",
}

// Bind adds the flags to a flag set.
func (c *Controller) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.Region, "region", "",
		"AWS region; if empty, from the SDK's configuration, instance metadata, or the nodes' topology label")
	flags.StringVar(&c.ClusterName, "cluster-name", "",
		"name of this cluster in the tags of its interfaces; the UID of the kube-system namespace if empty. The "+
			"controller records it, and changes nothing in EC2 under another name")
	BindInstanceTags(flags, &c.InstanceTags)
	flags.StringVar(&c.MetricsAddress, "metrics-bind-address", ":8080",
		"address of the Prometheus endpoint /metrics; 0 for none")
	flags.BoolVar(&c.MetricsSecure, "metrics-secure", false,
		"serve the metrics by HTTPS, to clients that the API server authenticates by token and allows to get /metrics")
	flags.StringVar(&c.MetricsCertDir, "metrics-cert-dir", "",
		"folder with tls.crt and tls.key for --metrics-secure, reloaded when they change; self-signed if empty")
	flags.StringVar(&c.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.BoolVar(&c.LeaderElect, "leader-elect", true,
		"reconcile only while holding the leader lease, so that several replicas can run")
	flags.StringVar(&c.LeaderElectionNamespace,
		"leader-election-namespace", "", "namespace of the lease; the pod's own if empty")
	flags.DurationVar(&c.LeaseDuration, "leader-election-lease-duration", 15*time.Second,
		"time after which a leader lease that is not renewed expires")
	flags.IntVar(&c.MaxConcurrentReconciles, "max-concurrent-reconciles", 5, "number of NodeENIs reconciled concurrently")
	flags.IntVar(&c.MaxConcurrentENICleanup, "max-concurrent-eni-cleanup", 3,
		"number of interfaces of one node detached or deleted concurrently; EC2's request rates limit those of all nodes")
	flags.IntVar(&c.MaxConcurrentNodes, "max-concurrent-nodes", 32, "number of nodes reconciled concurrently")
	flags.StringVar(&c.Taint, "not-ready-taint", v1alpha1.NotReadyTaint,
		"key of the startup taint, which the controller removes from a Node once its required interfaces are ready")
	flags.BoolVar(&c.ReapplyTaint, "reapply-taint", false, "add the startup taint again when a required interface is lost")
	flags.DurationVar(&c.ResyncPeriod, "resync-period", 5*time.Minute,
		"time between two lists of all interfaces of the cluster, which detect manual changes in EC2")
	flags.DurationVar(&c.PollInterval, "poll-interval", 300*time.Millisecond,
		"time between two reads of the interfaces that EC2 is changing")
	flags.DurationVar(&c.SourceRefreshPeriod, "source-refresh-period", time.Minute,
		"time between two reads of what AWSNodeTemplates refer to and other clients can change: $Latest and $Default "+
			"of launch templates, images by tags")
	flags.Float64Var(&c.EC2RateShare, "ec2-rate-share", ratelimit.InitialShare,
		"initial share of EC2's request rates; the rest is left to other clients in the account, such as the VPC CNI. "+
			"The share rises to 1 while EC2 throttles no request, and falls when it does")
	flags.BoolVar(&c.PodServices, "pod-services", false,
		"keep the EndpointSlices of Services with the annotation networking.k8s.aws/pod-network; the chart value "+
			"pods.services sets the flag and gives the permissions")
	flags.StringToStringVar(&c.NodeCluster, "node-cluster", nil, "name and endpoint of the EKS cluster, as "+
		"name=NAME,endpoint=URL, for the user data of AWSNodeTemplates that do not set them in spec.cluster; the "+
		"controller takes certificateAuthority and serviceCIDR from the API server if they are not given")
	flags.StringToStringVar(&c.EC2Buckets, "ec2-bucket", nil,
		"size of the token bucket of an EC2 action in this account, as ACTION=CAPACITY/REFILL in requests and "+
			"requests per second, for example AttachNetworkInterface=200/20; may be repeated. Other actions have the sizes "+
			"that EC2 documents")
	c.Features.Bind(flags)
	c.Logging.Bind(flags)
}

// BindInstanceTags adds the flag that names the tags of the cluster's instances.
func BindInstanceTags(flags *pflag.FlagSet, tags *[]string) {
	flags.StringSliceVar(tags, "instance-tags", nil, "tags, KEY=VALUE or KEY; an instance needs one of them to get "+
		"interfaces, for example kubernetes.io/cluster/NAME. A Node whose instance has none of them keeps its "+
		"interfaces and gets no more. Without this flag every instance gets interfaces")
}

// ParseInstanceTags parses the values of --instance-tags.
func ParseInstanceTags(texts []string) ([]eni.InstanceTag, error) {
	tags := make([]eni.InstanceTag, 0, len(texts))
	for _, text := range texts {
		tag, err := eni.ParseInstanceTag(text)
		if err != nil {
			return nil, fmt.Errorf("--instance-tags: %w", err)
		}
		tags = append(tags, tag)
	}
	return tags, nil
}

// Bind adds the flags to a flag set.
func (l *Logging) Bind(flags *pflag.FlagSet) {
	flags.IntVar(&l.Verbosity, "v", 0, "log verbosity: 0 for operators, 4 for plans, 5 for every EC2 call")
	flags.StringVar(&l.Format, "log-format", "text", "log format: text or json")
}

// FromEnvironment sets the flags that are not on the command line from their environment variables.
func FromEnvironment(flags *pflag.FlagSet) error {
	for name, variable := range variables {
		flag := flags.Lookup(name)
		value, set := os.LookupEnv(variable)
		if flag == nil || flag.Changed || !set || value == "" {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("environment variable %s=%s: %w", variable, strconv.Quote(value), err)
		}
	}
	return nil
}

// checkNodeCluster returns an error that names the missing or unknown key of --node-cluster.
func (c *Controller) checkNodeCluster() error {
	if len(c.NodeCluster) == 0 {
		return nil
	}
	for key := range c.NodeCluster {
		if !slices.Contains([]string{"name", "endpoint", "certificateAuthority", "serviceCIDR"}, key) {
			return fmt.Errorf("--node-cluster has no key %s: use name, endpoint, certificateAuthority or serviceCIDR",
				strconv.Quote(key))
		}
	}
	if c.NodeCluster["name"] == "" || !strings.HasPrefix(c.NodeCluster["endpoint"], "https://") {
		return errors.New("--node-cluster needs the name of the EKS cluster and its endpoint, which begins with " +
			"https:// (aws eks describe-cluster shows both)")
	}
	return nil
}

// Validate returns an error that names each invalid setting.
func (c *Controller) Validate() error {
	var faults []error
	positive := func(flag string, value int) {
		if value < 1 {
			faults = append(faults, fmt.Errorf("--%s is %d and must be at least 1", flag, value))
		}
	}
	positive("max-concurrent-reconciles", c.MaxConcurrentReconciles)
	positive("max-concurrent-eni-cleanup", c.MaxConcurrentENICleanup)
	positive("max-concurrent-nodes", c.MaxConcurrentNodes)
	if c.Taint == "" {
		faults = append(faults, errors.New("--not-ready-taint must not be empty"))
	}
	if c.ResyncPeriod < time.Second || c.PollInterval < 10*time.Millisecond {
		faults = append(faults, errors.New("--resync-period must be at least 1s, --poll-interval at least 10ms"))
	}
	if c.SourceRefreshPeriod < time.Second {
		faults = append(faults, fmt.Errorf("--source-refresh-period is %s and must be at least 1s", c.SourceRefreshPeriod))
	}
	if c.EC2RateShare < ratelimit.MinShare || c.EC2RateShare > ratelimit.MaxShare {
		faults = append(faults, fmt.Errorf("--ec2-rate-share is %g and must be from %g to %g", c.EC2RateShare,
			ratelimit.MinShare, ratelimit.MaxShare))
	}
	if c.MetricsCertDir != "" && !c.MetricsSecure {
		faults = append(faults, errors.New("--metrics-cert-dir requires --metrics-secure"))
	}
	faults = append(faults, c.checkNodeCluster())
	if c.LeaseDuration < 3*time.Second {
		faults = append(faults, errors.New("--leader-election-lease-duration must be at least 3s"))
	}
	_, err := ParseInstanceTags(c.InstanceTags)
	return errors.Join(append(faults, err, c.Logging.validate())...)
}

func (l *Logging) validate() error {
	if l.Format != "text" && l.Format != "json" {
		return fmt.Errorf("--log-format is %q and must be text or json", l.Format)
	}
	return nil
}
