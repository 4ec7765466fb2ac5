// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/cli/telemetry"
	"github.com/multieni/multieni/internal/controller/assembly"
	"github.com/multieni/multieni/internal/controller/awsnodetemplate"
	"github.com/multieni/multieni/internal/core/userdata"
)

// wireNodeTemplates adds the AWSNodeTemplate controller to the manager. It makes no call to EC2 while there is no
// AWSNodeTemplate.
func (p process) wireNodeTemplates(c *assembly.Controllers) error {
	mgr, aws, o := p.manager, p.aws, p.options
	version, err := kubernetesVersion(mgr)
	if err != nil {
		return err
	}
	settings := awsnodetemplate.Options{
		Client: mgr.GetClient(), Events: mgr.GetEventRecorder("multieni"), Observer: c.Observer, Resolver: c.Resolver,
		Launches: resolver.NewLaunches(aws.ec2, o.SourceRefreshPeriod, time.Now), EC2: aws.ec2,
		KubernetesVersion: version, NodeCluster: nodeCluster(mgr, o.NodeCluster),
		Repairs: c.InPlaceUpdates, References: aws.references, Cluster: o.ClusterName,
		SourceRefresh: o.SourceRefreshPeriod, Relist: o.ResyncPeriod, Concurrency: o.MaxConcurrentReconciles,
		Now: time.Now, Log: p.Log, Traces: p.Traces,
	}
	if o.LaunchTemplateOverride {
		settings.CheckOverride = awsec2.CheckLaunchTemplateData
	}
	nodeTemplates := awsnodetemplate.New(settings)
	telemetry.RegisterNodeTemplates(p.Metrics, func() map[string]telemetry.NodeTemplate {
		all := map[string]telemetry.NodeTemplate{}
		for name, s := range nodeTemplates.Counts() {
			all[name] = telemetry.NodeTemplate(s)
		}
		return all
	}, time.Now)
	return nodeTemplates.SetupWithManager(mgr)
}

// kubernetesVersion returns a function that reads the API server's version, such as 1.35. Some providers write 35+.
func kubernetesVersion(mgr manager.Manager) (func() (string, error), error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	return func() (string, error) {
		info, err := client.ServerVersion()
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s.%s", info.Major, strings.TrimRight(info.Minor, "+")), nil
	}, nil
}

// nodeCluster returns a function that reads the values of this cluster for user data; nil without settings. A pod knows
// neither the EKS name nor the public endpoint of its cluster, so they are settings. The function takes the certificate
// authority from the connection of mgr, and the service range from the API server (Kubernetes 1.33 and later); it
// leaves unknown values empty.
func nodeCluster(mgr manager.Manager, settings map[string]string) func(context.Context) (userdata.Cluster, error) {
	if len(settings) == 0 {
		return nil
	}
	return func(ctx context.Context) (userdata.Cluster, error) {
		c := userdata.Cluster{
			ClusterName: settings["name"], Endpoint: settings["endpoint"], CA: settings["certificateAuthority"],
			ServiceCIDR: settings["serviceCIDR"],
		}
		var err error
		if c.CA == "" {
			c.CA, err = certificateAuthority(mgr.GetConfig())
		}
		if err == nil && c.ServiceCIDR == "" {
			c.ServiceCIDR, err = serviceCIDR(ctx, mgr.GetAPIReader())
		}
		return c, err
	}
}

// certificateAuthority returns the certificate authority that config trusts, as base64 of PEM.
func certificateAuthority(config *rest.Config) (string, error) {
	pem := config.CAData
	if len(pem) == 0 && config.CAFile != "" {
		var err error
		if pem, err = os.ReadFile(config.CAFile); err != nil {
			return "", fmt.Errorf("read the certificate authority of the API server: %w", err)
		}
	}
	return base64.StdEncoding.EncodeToString(pem), nil
}

// serviceCIDR returns the primary service range of the cluster; empty if the API server has no ServiceCIDR kubernetes.
func serviceCIDR(ctx context.Context, reader client.Reader) (string, error) {
	var ranges networkingv1.ServiceCIDR
	err := reader.Get(ctx, client.ObjectKey{Name: "kubernetes"}, &ranges)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the ServiceCIDR kubernetes: %w", err)
	case len(ranges.Spec.CIDRs) == 0:
		return "", nil
	}
	return ranges.Spec.CIDRs[0], nil
}
