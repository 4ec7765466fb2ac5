// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane is a Kubernetes control plane in one executable: it is
// kube-apiserver, etcd or kubectl, whichever name it is called by.
//
// Tests and the demo need a real API server of a known version on machines
// that have nothing but Go. Kubernetes publishes its programs as binaries for
// a few platforms and as a Go module for all of them; this is the main package
// that makes programs of that module. One executable under three names shares
// what the three have in common, which is most of it.
//
// It is a module of its own because k8s.io/kubernetes must not become a
// dependency of multieni. Package internal/dev/assets builds it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	switch name := programName(os.Args[0]); name {
	case "kube-apiserver":
		endWithParent()
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "etcd":
		endWithParent()
		etcdmain.Main(os.Args)
	case "kubectl":
		kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	default:
		fmt.Fprintf(os.Stderr, "%s: call this program as kube-apiserver, etcd or kubectl\n", name)
		os.Exit(2)
	}
}

// endWithParent ends this process once the one that started it is gone. A test
// that is killed, or that runs into its time limit, cannot stop its servers.
func endWithParent() {
	parent := os.Getppid()
	go func() {
		for range time.Tick(time.Second) {
			if os.Getppid() != parent {
				os.Exit(1)
			}
		}
	}()
}

// programName is the name a program was called by, without folder and ".exe".
func programName(argv0 string) string {
	return strings.TrimSuffix(filepath.Base(argv0), ".exe")
}
