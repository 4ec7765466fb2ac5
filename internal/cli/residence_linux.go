// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settled is how long a start takes at most that does what is done once.
	settled = 5 * time.Second
	// The pages of the program are released every so often, less and less the older the process is: a start touches many, an
	// idle agent few, but each brings fifteen neighbors along.
	shortestPause, longestPause, pausesInAge = 10 * time.Millisecond, time.Minute, 20
)

// releaseMemory gives back the memory that only the start needs, now and until the context ends: on every node of a cluster
// an agent shares the machine with what the node is there for. Most of it is pages of the program itself, of which the
// packages that an agent never uses have initialized themselves like all others.
func releaseMemory(ctx context.Context, log *slog.Logger) {
	if err := releaseProgram(); err != nil {
		log.Debug("memory could not be released, which is no harm", "err", err)
		return
	}
	go func() {
		born, collect := time.Now(), time.After(settled)
		for {
			select {
			case <-time.After(min(max(time.Since(born)/pausesInAge, shortestPause), longestPause)):
			case <-collect:
				debug.FreeOSMemory()
			case <-ctx.Done():
				return
			}
			_ = releaseProgram() // it could before
		}
	}()
}

// releaseProgram lets go of the pages of the program file. The next use of a page finds it in the kernel's page cache, or
// reads it again: these mappings are private, read-only and backed by the file, so nothing can be lost.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	file, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// proc_pid_maps(5): start-end permissions offset device inode path
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[5] != program || strings.Contains(fields[1], "w") {
			continue
		}
		var start, end uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &start, &end); err != nil {
			return err
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("release %s: %w", fields[0], errno)
		}
	}
	return nil
}
