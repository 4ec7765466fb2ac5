// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// run runs go test, prints the progress, and then a summary. It returns an error if a test failed.
func run(ctx context.Context, args []string) error {
	begun := time.Now()
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	progress := newProgress(os.Stdout, begun)
	stop := progress.tick()
	execution, scanned := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: stdout, Stderr: stderr, Handler: progress})
	stop()
	failed := command.Wait()
	if scanned != nil {
		return scanned
	}
	summarize(os.Stdout, execution, progress.cached)
	fmt.Printf("%s by the clock, %s of processor time (compiler and programs included)\n",
		time.Since(begun).Round(time.Second), processorTime(command.ProcessState).Round(time.Second))
	return failed
}

// processorTime is the time that processors spent for a process that has ended, and for its children that have.
func processorTime(state *os.ProcessState) time.Duration {
	return state.UserTime() + state.SystemTime()
}
