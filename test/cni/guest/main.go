// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command guest is the first process of the virtual machine that runs the tests of pods on ipvlan: it loads the
// kernel's modules, runs the tests with its arguments, and powers the machine off.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// result is the last line of the machine's console. The host reads it.
const result = "GUEST RESULT"

func main() {
	err := run()
	if err == nil {
		fmt.Println(result, "ok")
	} else {
		fmt.Println(result, err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	var failures []error
	for _, mount := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"},
		{"tmpfs", "/run"}} {
		if err := unix.Mount(mount[0], mount[1], mount[0], 0, ""); err != nil {
			failures = append(failures, fmt.Errorf("mount %s: %w", mount[1], err))
		}
	}
	failures = append(failures, os.Mkdir("/run/netns", 0o755))
	for _, module := range []string{"veth", "macvlan", "ipvlan"} {
		failures = append(failures, load(module))
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	tests := exec.Command("/bin/cni.test", os.Args[1:]...) //nolint:noctx // it ends with the machine
	tests.Env = []string{"PATH=/bin", "TMPDIR=/tmp", "MULTIENI_GUEST_PROGRAMS=/cni:/plugins"}
	tests.Stdout, tests.Stderr = os.Stdout, os.Stdout
	return tests.Run()
}

// load loads a module of the initial file system. A module that is not there is built into the kernel.
func load(module string) error {
	file, err := os.Open("/modules/" + module + ".ko")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := unix.FinitModule(int(file.Fd()), "", 0); err != nil {
		return fmt.Errorf("load %s: %w", module, err)
	}
	return nil
}
