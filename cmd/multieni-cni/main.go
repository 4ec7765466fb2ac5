// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command multieni-cni is the CNI program of pod networks. Container runtimes call it as multieni-ipam or as
// multieni-routes. "multieni-cni install FOLDER" installs it in a folder under both names.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/host/podcni"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "install" {
		if err := podcni.Install(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "multieni-cni:", err)
			os.Exit(1)
		}
		return
	}
	if fault := podcni.Main(filepath.Base(os.Args[0]), version.String()); fault != nil {
		if err := fault.Print(); err != nil {
			fmt.Fprintln(os.Stderr, "multieni-cni:", fault, err)
		}
		os.Exit(1)
	}
}
