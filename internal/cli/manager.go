// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/podservice"
	"github.com/multieni/multieni/internal/core/era"
)

// leadership is the part of a process in leader election.
type leadership struct {
	// lock is the leader lease, and permit returns an error unless the process certainly holds it. Both are nil without
	// leader election.
	lock   resourcelock.Interface
	permit func() error
	// era returns the era of the process. Without leader election it begins now: another process may have run before.
	era func() era.Era
}

func newLeadership(access *rest.Config, o options.Controller) (leadership, error) {
	if !o.LeaderElect {
		now := era.Era{Since: time.Now()}
		return leadership{era: func() era.Era { return now }}, nil
	}
	namespace, err := leaseNamespace(o)
	if err != nil {
		return leadership{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return leadership{}, err
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, identity, access,
		renewDeadline(o))
	if err != nil {
		return leadership{}, fmt.Errorf("set up the leader lease: %w", err)
	}
	fence := &controller.Fence{Deadline: o.LeaseDuration, Now: time.Now}
	return leadership{lock: fence.Wrap(lock), permit: fence.Check, era: fence.Era}, nil
}

// leaseNamespace returns the namespace of the leader lease.
func leaseNamespace(o options.Controller) (string, error) {
	if o.LeaderElectionNamespace != "" {
		return o.LeaderElectionNamespace, nil
	}
	own, err := os.ReadFile(ownNamespace)
	if err != nil {
		return "", fmt.Errorf("find the namespace of the leader lease: %w; outside of a pod set "+
			"--leader-election-namespace, or --leader-elect=false for a single process", err)
	}
	return strings.TrimSpace(string(own)), nil
}

func renewDeadline(o options.Controller) time.Duration { return o.LeaseDuration * 2 / 3 }

// newScheme returns the types of Kubernetes and of multieni.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

func newManager(access *rest.Config, o options.Controller, lock resourcelock.Interface) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	renew := renewDeadline(o)
	retry := o.LeaseDuration / 8
	grace := drain
	kept := map[client.Object]cache.ByObject{
		&corev1.Node{}: {Transform: controller.TrimNode}, &v1alpha1.NetworkInterface{}: {Transform: controller.TrimInterface},
	}
	if o.PodServices {
		maps.Copy(kept, podservice.Caches())
	}
	restore := controller.NewRestore()
	mgr, err := ctrl.NewManager(access, manager.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			NewInformer:      restore.NewInformer,
			ByObject:         kept,
		},
		Metrics:                             metricsOptions(o),
		HealthProbeBindAddress:              o.ProbeAddress,
		LeaderElection:                      o.LeaderElect,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &o.LeaseDuration,
		RenewDeadline:                       &renew,
		RetryPeriod:                         &retry,
		GracefulShutdownTimeout:             &grace,
		Controller: ctrlcontroller.Controller{
			ReconciliationTimeout: reconcileTimeout,
			// Names are unique within a manager; a process may run several.
			SkipNameValidation: ptr.To(true),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	return mgr, mgr.Add(restore)
}

// metricsOptions returns options that serve the metrics by HTTP to every client or, if secure, by HTTPS to clients that
// the API server allows to get /metrics. Without a configured certificate the endpoint signs its own.
func metricsOptions(o options.Controller) metricsserver.Options {
	served := metricsserver.Options{BindAddress: o.MetricsAddress}
	if o.MetricsSecure {
		served.SecureServing, served.CertDir = true, o.MetricsCertDir
		served.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return served
}

// addProbes makes the process live while it answers, and ready once its caches are filled, its cluster name is the one
// in use, and EC2 has answered it once. Later answers of EC2 matter to neither probe: a restart of the controller does
// not help a throttled account, and an outage must not make the replicas flap.
func addProbes(mgr manager.Manager, started *startup) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("cluster-name", func(*http.Request) error { return started.status().name }); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ec2", func(*http.Request) error { return started.status().ec2 }); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return fmt.Errorf("the caches of Kubernetes objects are not filled yet")
		}
		return nil
	})
}
