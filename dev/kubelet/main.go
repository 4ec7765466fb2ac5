// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubelet is Kubernetes' kubelet, for the test of a whole node.
//
// It is a module of its own because k8s.io/kubernetes must not become a dependency of multieni. The versions are those
// of dev/controlplane, whose compiled packages the kubelet shares. Package internal/dev/assets builds it.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(app.NewKubeletCommand(context.Background())))
}
