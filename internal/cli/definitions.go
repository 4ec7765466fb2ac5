// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multieni/multieni/api/v1alpha1"
)

// definitionsPoll is the time between two checks for missing definitions.
const definitionsPoll = 2 * time.Second

// waitForCRDs returns once the API server knows all kinds that a controller watches. A manager cannot be created before
// that, and a process that ends instead is restarted with growing backoff. Meanwhile the process is live, but not
// ready.
func waitForCRDs(ctx context.Context, access *rest.Config, probeAddress string, log *slog.Logger) error {
	api, err := discovery.NewDiscoveryClientForConfig(access)
	if err != nil {
		return fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	missing, err := missingCRDs(ctx, api)
	if err != nil || len(missing) == 0 {
		return err
	}
	ended, err := waitInProbes(ctx, probeAddress, log)
	if err != nil {
		return err
	}
	defer ended()
	said := ""
	err = wait.PollUntilContextCancel(ctx, definitionsPoll, true, func(ctx context.Context) (bool, error) {
		missing, err := missingCRDs(ctx, api)
		if what := strings.Join(missing, ", "); what != said && what != "" {
			log.LogAttrs(ctx, slog.LevelWarn,
				"definitions are missing in the API server; the controller waits until they are applied: "+
					"helm upgrade, or kubectl apply --server-side -f deploy/crds", slog.String("missing", what))
			said = what
		}
		return len(missing) == 0, err
	})
	if err == nil {
		log.LogAttrs(ctx, slog.LevelInfo, "all definitions exist")
	}
	return err
}

// missingCRDs returns which of our kinds the API server does not know.
func missingCRDs(ctx context.Context, api *discovery.DiscoveryClient) ([]string, error) {
	served, err := api.ServerResourcesForGroupVersionWithContext(ctx, v1alpha1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		served, err = &metav1.APIResourceList{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the Kubernetes API for the kinds of %s: %w", v1alpha1.SchemeGroupVersion, err)
	}
	kinds := []string{"NodeENI", "NetworkInterface", "AWSNodeTemplate", "SubnetReservation", "FloatingAddress"}
	return slices.DeleteFunc(kinds, func(kind string) bool {
		return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
	}), nil
}

// waitInProbes answers the probes of a process that is live and not ready, until ended is called.
func waitInProbes(ctx context.Context, address string, log *slog.Logger) (ended func(), err error) {
	if address == "0" {
		return func() {}, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	probes := http.NewServeMux()
	probes.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	probes.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "definitions are missing; see the log", http.StatusServiceUnavailable)
	})
	server := manager.Server{Name: "health probe",
		Server: &http.Server{Handler: probes, ReadHeaderTimeout: time.Second}, Listener: listener}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := server.Start(ctx); err != nil {
			log.LogAttrs(ctx, slog.LevelWarn, "probes are not answered", slog.Any("err", err))
		}
	}()
	return func() {
		cancel()
		<-stopped
	}, nil
}
