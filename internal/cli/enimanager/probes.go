// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package enimanager

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// serveProbes answers /healthz, and /readyz once the objects are read from the API server, until stop is called. With
// address "0" it does not listen.
func serveProbes(ctx context.Context, address string, synced func() bool) (stop func(), err error) {
	if address == "0" || address == "" {
		return func() {}, nil
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !synced() {
			http.Error(w, "the objects of the node are not read from the API server yet", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return func() { _ = server.Close() }, nil
}
