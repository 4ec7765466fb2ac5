// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/multieni/multieni/internal/cli/telemetry"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

// meters are the metrics of a process that keeps running.
type meters struct {
	registry *prometheus.Registry
	calls    *telemetry.EC2Calls
	events   *telemetry.LifecycleEvents
}

func newMeters() *meters {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &meters{registry, telemetry.NewEC2Calls(registry), telemetry.NewLifecycleEvents(registry)}
}

var _ lifecyclehook.Observer = (*meters)(nil)

// Handled implements [lifecyclehook.Observer].
func (m *meters) Handled(h lifecyclehook.Handled) {
	m.events.Handled(string(h.Kind), string(h.Result), h.Took)
}

// Prepared implements [lifecyclehook.Observer].
func (m *meters) Prepared(p lifecyclehook.Prepared) { m.events.Prepared(p.Attached, p.Failure) }

// watch counts the requests of clients with this configuration, each once, regardless of the SDK's retries.
func (m *meters) watch(cfg aws.Config) aws.Config {
	cfg.APIOptions = append(slices.Clip(cfg.APIOptions), func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("CountRequests",
			func(ctx context.Context, in middleware.InitializeInput,
				next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				out, metadata, err := next.HandleInitialize(ctx, in)
				m.events.Requested(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), codeOf(err))
				return out, metadata, err
			}), middleware.After)
	})
	return cfg
}

func codeOf(err error) string {
	if answer := smithy.APIError(nil); errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	if err != nil {
		return "none"
	}
	return ""
}

// serve serves /metrics until the context ends; with address "0" it does not listen.
func (m *meters) serve(ctx context.Context, address string, log *slog.Logger) error {
	if address == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve metrics at --metrics-bind-address=%s: %w", address, err)
	}
	log.Info("serving metrics", "address", listener.Addr().String())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // clients with a pending request retry elsewhere
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics at %s: %w", listener.Addr(), err)
	}
	return nil
}
