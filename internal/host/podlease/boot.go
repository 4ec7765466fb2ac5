// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package podlease

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/podnet"
)

const (
	// bootIDPath is the file in which the kernel identifies this boot.
	bootIDPath = "/proc/sys/kernel/random/boot_id"
	// clockBootTime is CLOCK_BOOTTIME of Linux. Developers compile this package on other systems too.
	clockBootTime = 7
)

// ThisBoot returns the boot of this node.
func ThisBoot(now time.Time) (podnet.Boot, error) {
	id, err := os.ReadFile(bootIDPath)
	if err != nil {
		return podnet.Boot{}, fmt.Errorf("read which boot this is: %w", err)
	}
	var up unix.Timespec
	if err := unix.ClockGettime(clockBootTime, &up); err != nil {
		return podnet.Boot{}, fmt.Errorf("read how long the node is up: %w", err)
	}
	return podnet.Boot{ID: strings.TrimSpace(string(id)), Time: now.Add(-time.Duration(up.Nano()))}, nil
}
