// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the settings of the commands: their flags, the environment variables that set the flags, and
// their defaults. A flag wins over its variable, a variable over the default.
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
	// MetricsSecure has the metrics served by HTTPS to whom the API server lets read them, with the certificate of
	// MetricsCertDir.
	MetricsSecure           bool
	MetricsCertDir          string
	LeaderElect             bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration

	// MaxConcurrentReconciles is how many NodeENIs, MaxConcurrentNodes how many nodes are worked on at the same time;
	// MaxConcurrentENICleanup is how many interfaces of one node are being detached or deleted at the same time.
	MaxConcurrentReconciles, MaxConcurrentENICleanup, MaxConcurrentNodes int

	ResyncPeriod, PollInterval time.Duration
	// SourceRefreshPeriod is how often what node templates refer to is looked at: $Latest, images by tags.
	SourceRefreshPeriod time.Duration
	// EC2RateShare is the part of EC2's token buckets to use at first.
	EC2RateShare float64
	// EC2Buckets are the sizes of buckets that differ from the documented ones, by action, as "capacity/refill".
	EC2Buckets map[string]string

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
	"networks-dir":               "NETWORKS_DIR",
	"leases-dir":                 "LEASES_DIR",
	"cni-dir":                    "CNI_DIR",
	"wait-for-cni":               "WAIT_FOR_CNI",
	"observe-pod-addresses":      "OBSERVE_POD_ADDRESSES",
	"state-dir":                  "STATE_DIR",
}

// Bind adds the flags to a flag set.
func (c *Controller) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.Region, "region", "",
		"AWS region; else the SDK's configuration, instance metadata, or the nodes' topology label")
	flags.StringVar(&c.ClusterName, "cluster-name", "",
		"name of this cluster in the tags of its interfaces; the UID of the kube-system namespace if empty. Never "+
			"change it while interfaces exist")
	BindInstanceTags(flags, &c.InstanceTags)
	flags.StringVar(&c.MetricsAddress, "metrics-bind-address", ":8080",
		"address of the Prometheus endpoint /metrics; 0 for none")
	flags.BoolVar(&c.MetricsSecure, "metrics-secure", false,
		"serve the metrics by HTTPS, to whom the API server authenticates by a token and grants get on /metrics")
	flags.StringVar(&c.MetricsCertDir, "metrics-cert-dir", "",
		"folder with tls.crt and tls.key for --metrics-secure, read again when they change; self-signed if empty")
	flags.StringVar(&c.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.BoolVar(&c.LeaderElect, "leader-elect", true,
		"work only while holding the lease, so that several replicas can run")
	flags.StringVar(&c.LeaderElectionNamespace,
		"leader-election-namespace", "", "namespace of the lease; the pod's own if empty")
	flags.DurationVar(&c.LeaseDuration, "leader-election-lease-duration", 15*time.Second,
		"how long a lease lasts that is not renewed")
	flags.IntVar(&c.MaxConcurrentReconciles, "max-concurrent-reconciles", 5, "NodeENIs worked on at the same time")
	flags.IntVar(&c.MaxConcurrentENICleanup, "max-concurrent-eni-cleanup", 3,
		"interfaces of one node being detached or deleted at the same time; EC2's request rates say how fast those "+
			"of all nodes go")
	flags.IntVar(&c.MaxConcurrentNodes, "max-concurrent-nodes", 32, "nodes worked on at the same time")
	flags.DurationVar(&c.ResyncPeriod, "resync-period", 5*time.Minute,
		"time between two listings of the cluster's interfaces, which find changes made by hand in EC2")
	flags.DurationVar(&c.PollInterval, "poll-interval", 300*time.Millisecond,
		"time between two readings of the interfaces EC2 is at work on")
	flags.DurationVar(&c.SourceRefreshPeriod, "source-refresh-period", time.Minute,
		"time between two looks at what AWSNodeTemplates refer to and others can change: $Latest and $Default of "+
			"launch templates, images by tags")
	flags.Float64Var(&c.EC2RateShare, "ec2-rate-share", ratelimit.InitialShare,
		"part of EC2's request rates to use at first; the rest is left to others in the account, such as the VPC "+
			"CNI. It climbs to 1 while EC2 refuses nothing, and falls when it does")
	flags.StringToStringVar(&c.NodeCluster, "node-cluster", nil, "name and endpoint of the EKS cluster, as "+
		"name=NAME,endpoint=URL, for the user data of AWSNodeTemplates that do not set them in spec.cluster; the "+
		"controller takes certificateAuthority and serviceCIDR from the API server if they are not given")
	flags.StringToStringVar(&c.EC2Buckets, "ec2-bucket", nil,
		"size of the token bucket of an EC2 action in this account, as ACTION=CAPACITY/REFILL, requests and requests "+
			"per second, for example AttachNetworkInterface=200/20; may be repeated. Others have the sizes that EC2 documents")
	c.Features.Bind(flags)
	c.Logging.Bind(flags)
}

// BindInstanceTags adds the flag that names the tags of the cluster's instances.
func BindInstanceTags(flags *pflag.FlagSet, tags *[]string) {
	flags.StringSliceVar(tags, "instance-tags", nil, "tags, KEY=VALUE or KEY; an instance needs one of them to get "+
		"interfaces, for example kubernetes.io/cluster/NAME. A Node that names another instance keeps its interfaces "+
		"and gets no more. Without this flag every instance gets interfaces")
}

// ParseInstanceTags reads what the flag says.
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
	flags.IntVar(&l.Verbosity, "v", 0, "how much to log: 0 what an operator needs, 4 plans, 5 every EC2 call")
	flags.StringVar(&l.Format, "log-format", "text", "form of the log: text or json")
}

// FromEnvironment sets the flags that the command line does not have from their environment variables.
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
			return fmt.Errorf("--node-cluster has no key %s: say name, endpoint, certificateAuthority or serviceCIDR",
				strconv.Quote(key))
		}
	}
	if c.NodeCluster["name"] == "" || !strings.HasPrefix(c.NodeCluster["endpoint"], "https://") {
		return errors.New("--node-cluster needs the name of the EKS cluster and its endpoint, which begins with " +
			"https:// (aws eks describe-cluster shows both)")
	}
	return nil
}

// Validate reports settings that make no sense.
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
		faults = append(faults, errors.New("--metrics-cert-dir is given without --metrics-secure"))
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
