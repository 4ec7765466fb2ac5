// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane makes sure that kube-apiserver, etcd and kubectl are on this machine, downloads or builds them
// if necessary, and prints their folder:
//
//	export KUBEBUILDER_ASSETS=$(go run ./hack/controlplane)
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/multieni/multieni/internal/dev/assets"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := assets.Dir(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
