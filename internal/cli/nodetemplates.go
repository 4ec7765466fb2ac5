// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multieni/multieni/internal/awsec2"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/awsnodetemplate"
	"github.com/multieni/multieni/internal/observer"
	"github.com/multieni/multieni/internal/options"
	"github.com/multieni/multieni/internal/resolver"
	"github.com/multieni/multieni/internal/telemetry"
)

// parts are what the controllers share.
type parts struct {
	aws     *services
	watch   *observer.Observer
	resolve *resolver.Resolver
	repairs *controller.InPlaceUpdates
}

// wireNodeTemplates connects what keeps launch templates. It asks nothing of EC2 while there is no AWSNodeTemplate.
func wireNodeTemplates(mgr manager.Manager, p parts, o options.Controller, s Environment) error {
	version, err := kubernetesVersion(mgr)
	if err != nil {
		return err
	}
	settings := awsnodetemplate.Options{
		Client: mgr.GetClient(), Events: mgr.GetEventRecorder("multieni"), Observer: p.watch, Resolver: p.resolve,
		Launches: resolver.NewLaunches(p.aws.ec2, o.SourceRefreshPeriod, time.Now), EC2: p.aws.ec2, KubernetesVersion: version, Repairs: p.repairs, References: p.aws.references,
		Cluster: o.ClusterName, Follow: o.SourceRefreshPeriod, Relist: o.ResyncPeriod, Concurrency: o.MaxConcurrentReconciles, Now: time.Now, Log: s.Log, Traces: s.Traces,
	}
	if o.LaunchTemplateOverride {
		settings.CheckOverride = awsec2.CheckLaunchTemplateData
	}
	nodeTemplates := awsnodetemplate.New(settings)
	telemetry.RegisterNodeTemplates(s.Metrics, func() map[string]telemetry.NodeTemplate {
		all := map[string]telemetry.NodeTemplate{}
		for name, s := range nodeTemplates.Counts() {
			all[name] = telemetry.NodeTemplate(s)
		}
		return all
	}, time.Now)
	return nodeTemplates.SetupWithManager(mgr)
}

// kubernetesVersion returns what tells the API server's minor version, such as 1.35. Some providers write 35+.
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
