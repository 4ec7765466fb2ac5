// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pod is the only program in the image of the pods on real nodes. Called with "serve" it is an HTTP server,
// which answers /reach?address=… with whether it can connect to that address, and joins a multicast group on a link by
// /join?group=…&link=…. Otherwise it is the program of a sandbox, and waits.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is how long a connection may take. On the simulated VPC it takes milliseconds.
const patience = 3 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		http.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
		http.HandleFunc("/reach", reach)
		http.HandleFunc("/join", join)
		go func() {
			fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", nil))
			os.Exit(1)
		}()
	}
	<-ctx.Done()
}

func reach(w http.ResponseWriter, r *http.Request) {
	dialer := net.Dialer{Timeout: patience}
	connection, err := dialer.DialContext(r.Context(), "tcp", net.JoinHostPort(r.FormValue("address"), "8080"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_ = connection.Close()
}

// join joins a group until the pod ends.
func join(w http.ResponseWriter, r *http.Request) {
	link, err := net.InterfaceByName(r.FormValue("link"))
	if err == nil {
		_, err = net.ListenMulticastUDP("udp4", link, &net.UDPAddr{IP: net.ParseIP(r.FormValue("group")), Port: 5000})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}
