// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/clustername"
	"github.com/multieni/multieni/internal/core/eni"
)

// access has the flags of the connection to the cluster.
type access struct {
	kubeconfig, context string
}

func (a *access) bind(flags *pflag.FlagSet) {
	flags.StringVar(&a.kubeconfig, "kubeconfig", "",
		"path to the kubeconfig file; if empty, KUBECONFIG, ~/.kube/config, or the service account of the pod")
	flags.StringVar(&a.context, "context", "", "name of the kubeconfig context to use")
}

func (a *access) load() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: a.context})
}

// connect returns a client without a cache.
func (a *access) connect() (client.Client, error) {
	config, err := a.load().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API: %w; set KUBECONFIG or --kubeconfig", err)
	}
	config.UserAgent = "multieni/" + version.String()
	config.QPS = -1 // the API server limits the rate
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	return api, nil
}

// cloud has the flags of the connection to EC2.
type cloud struct {
	region, cluster string
	instanceTags    []string
}

func (c *cloud) bind(flags *pflag.FlagSet) {
	c.bindRegion(flags)
	flags.StringVar(&c.cluster, "cluster-name", "",
		"name of the cluster in the tags of its interfaces, as set for the controller; if empty, the name that the "+
			"controller recorded, or the UID of the kube-system namespace")
}

// bindRegion adds the flag of commands that read by ID, and need no name of the cluster.
func (c *cloud) bindRegion(flags *pflag.FlagSet) {
	flags.StringVar(&c.region, "region", "",
		"AWS region; if empty, from the SDK's configuration, instance metadata, or the nodes' topology label")
}

// bindInstanceTags adds the flag --instance-tags of the controller, for commands that predict or check its actions.
func (c *cloud) bindInstanceTags(flags *pflag.FlagSet) {
	options.BindInstanceTags(flags, &c.instanceTags)
}

// ec2 is the connection of a command to EC2.
type ec2 struct {
	*awsec2.Client
	instanceTags    []eni.InstanceTag
	clock           *controller.Clock
	cluster, region string
	regionFrom      awsec2.RegionSource
}

// connect determines the region and the cluster. It does not call EC2.
func (c *cloud) connect(ctx context.Context, api client.Client) (ec2, error) {
	cluster := c.cluster
	if cluster == "" {
		var err error
		if cluster, err = clusterName(ctx, api); err != nil {
			return ec2{}, err
		}
	}
	return c.open(ctx, api, cluster)
}

// open determines the region, and uses a name of the cluster; commands that read by ID need none.
func (c *cloud) open(ctx context.Context, api client.Client, cluster string) (ec2, error) {
	instanceTags, err := options.ParseInstanceTags(c.instanceTags)
	if err != nil {
		return ec2{}, err
	}
	region, source, err := awsec2.ClusterRegion(ctx, c.region, func() string { return nodeRegion(ctx, api) })
	if err != nil {
		return ec2{}, err
	}
	config, err := awsec2.Load(ctx, region, version.String(), slog.New(slog.DiscardHandler))
	if err != nil {
		return ec2{}, err
	}
	// This reports missing credentials in one sentence; the first call would do so in five.
	if _, err := config.Credentials.Retrieve(ctx); err != nil {
		return ec2{}, fmt.Errorf("find AWS credentials: set AWS_PROFILE, or log in with aws sso login: %w", err)
	}
	clock := &controller.Clock{Log: slog.New(slog.DiscardHandler)}
	note := func(call awsec2.Call) {
		if call.Dated {
			clock.Note(call.Ahead)
		}
	}
	return ec2{
		Client: awsec2.New(config, awsec2.Options{Cluster: cluster, Observe: note}), instanceTags: instanceTags,
		clock: clock, cluster: cluster, region: region, regionFrom: source,
	}, nil
}

func nodeRegion(ctx context.Context, api client.Reader) string {
	var nodes corev1.NodeList
	if err := api.List(ctx, &nodes, client.HasLabels{corev1.LabelTopologyRegion}, client.Limit(1)); err != nil ||
		len(nodes.Items) == 0 {
		return ""
	}
	return nodes.Items[0].Labels[corev1.LabelTopologyRegion]
}

// clusterName returns the name of the cluster in tags: the one that its controller recorded, or the default. A user who
// may not read the record gets the default.
func clusterName(ctx context.Context, api client.Reader) (string, error) {
	for _, namespace := range []string{controllerNamespace, clustername.DefaultNamespace} {
		record, err := clustername.Read(ctx, api, namespace)
		if name := clustername.Recorded(record); err == nil && name != "" {
			return name, nil
		}
	}
	return clusterUID(ctx, api)
}

func clusterUID(ctx context.Context, api client.Reader) (string, error) {
	var system corev1.Namespace
	if err := api.Get(ctx, client.ObjectKey{Name: "kube-system"}, &system); err != nil {
		return "", fmt.Errorf("read the UID of namespace kube-system, which names the cluster in EC2 tags: %w; or "+
			"set --cluster-name", err)
	}
	return string(system.UID), nil
}
