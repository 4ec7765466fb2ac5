// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with its plugin for Kubernetes alone. The argument is the address to serve at, such as
// 127.0.0.1:0, and KUBECONFIG names the API server. It prints its address once it has the objects of the API server, and
// ends together with its standard input.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

const corefile = `.:%s {
	bind %s
	kubernetes cluster.local {
		kubeconfig %q
		startup_timeout 60s
	}
}
`

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("the only argument is the address to serve at")
	}
	if err := serve(os.Args[1], os.Getenv("KUBECONFIG")); err != nil {
		log.Fatal(err)
	}
}

func serve(at, kubeconfig string) error {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return err
	}
	caddy.Quiet, dnsserver.Quiet = true, true
	server, err := caddy.Start(caddy.CaddyfileInput{
		Filepath: "Corefile", Contents: fmt.Appendf(nil, corefile, port, host, kubeconfig), ServerTypeName: "dns",
	})
	if err != nil {
		return fmt.Errorf("start CoreDNS: %w", err)
	}
	fmt.Println(server.Servers()[0].LocalAddr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Stop()
}
