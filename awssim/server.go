// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Server serves a simulator, or the metadata of an instance, at a TCP address.
type Server struct {
	http     *http.Server
	listener net.Listener
	served   chan error
	// functions runs the programs of Lambda, until stop is called.
	functions sync.WaitGroup
	stop      context.CancelFunc
}

// Listen serves the simulator at an address such as 127.0.0.1:0, until Close or until the context ends. Meanwhile it
// runs the programs of the account's functions.
func Listen(ctx context.Context, address string, s *Simulator) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for AWS calls: %w", err)
	}
	server := &Server{
		http:     &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second},
		listener: listener,
		served:   make(chan error, 1),
	}
	go func() { server.served <- server.http.Serve(listener) }()
	running, stop := context.WithCancel(ctx)
	server.stop = stop
	at, err := url.Parse(server.URL())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for AWS calls: %w", err), server.Close())
	}
	server.functions.Go(func() { s.runFunctions(running, at) })
	context.AfterFunc(ctx, func() { _ = server.http.Close() })
	return server, nil
}

// ListenMetadata serves the metadata of one instance at an address, until Close or until the context ends. It is for
// clients that cannot name the instance in a URL.
func ListenMetadata(ctx context.Context, address string, s *Simulator, instanceID string) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for metadata requests of %s: %w", instanceID, err)
	}
	server := &Server{
		http:     &http.Server{Handler: s.Metadata(instanceID), ReadHeaderTimeout: 10 * time.Second},
		listener: listener,
		served:   make(chan error, 1),
		stop:     func() {},
	}
	go func() { server.served <- server.http.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.http.Close() })
	return server, nil
}

// URL returns the value for AWS_ENDPOINT_URL, or for AWS_EC2_METADATA_SERVICE_ENDPOINT.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// closeTimeout is how long Close waits for calls to end.
const closeTimeout = 5 * time.Second

// Close kills the programs of functions, stops listening, lets the calls in progress end, and returns when nothing runs
// any more.
func (s *Server) Close() error {
	s.stop()
	s.functions.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
