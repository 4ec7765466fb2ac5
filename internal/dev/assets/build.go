// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// interruptGrace is how long the go command may take to remove its work files
// after an interrupt.
const interruptGrace = 5 * time.Second

// buildInto writes the output of build to dir, which is created by renaming: it is complete or does not exist.
func buildInto(dir string, build func(dir string) error) error {
	partial := dir + ".partial" // the files of an interrupted build may still exist
	for _, path := range []string{partial, dir} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := build(partial); err != nil {
		return err
	}
	return os.Rename(partial, dir)
}

// lock waits for the lock on path and returns a function that releases it. The end of a process releases its lock.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	type result struct {
		unlock func()
		err    error
	}
	locked := make(chan result)
	go func() {
		unlock, err := lockedfile.MutexAt(path).Lock()
		select {
		case locked <- result{unlock, err}:
		case <-ctx.Done():
			if err == nil {
				unlock()
			}
		}
	}()
	select {
	case r := <-locked:
		return r.unlock, r.err
	case <-ctx.Done(): // the goroutine ends when the other process does
		return nil, context.Cause(ctx)
	}
}

// build compiles src into dir: one executable, and the programs as links to it.
func build(ctx context.Context, src source, dir string, meter *meter) error {
	const executable = "controlplane"
	c := compilation{module: src.dir, packages: []string{"."}, ldflags: src.ldflags(),
		output: filepath.Join(dir, executable)}
	if src.modfile != ownModfile {
		// No other build shares the 2 GB of compiled packages.
		c.modfile, c.cache = src.modfile, filepath.Join(dir, "gocache")
		defer os.RemoveAll(c.cache)
	}
	if err := c.compile(ctx, meter); err != nil {
		return err
	}
	for _, name := range programs() {
		if err := os.Symlink(executable, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// compilation is one go build.
type compilation struct {
	module   string // its folder
	modfile  string // empty for go.mod
	cache    string // folder of compiled packages, empty for that of the go command
	packages []string
	tags     string // separated by commas
	ldflags  string
	output   string
}

// compile runs go build and reports each package to meter.
func (c compilation) compile(ctx context.Context, meter *meter) error {
	meter.enter("downloading modules")
	list := []string{"list", "-deps", "-modfile", c.modfile, "-tags", c.tags}
	dependencies, err := runGo(ctx, c.module, append(list, c.packages...)...)
	if err != nil {
		return err
	}
	meter.compile(bytes.Count(dependencies, []byte("\n")))
	// No -trimpath: with other flags than "go test" uses, the compile cache would hold two copies of Kubernetes, and
	// filling it takes most of the time.
	arguments := []string{"build", "-v", "-buildvcs=false", "-modfile", c.modfile, "-tags", c.tags,
		"-ldflags", c.ldflags, "-o", c.output}
	cmd := goCommand(ctx, c.module, append(arguments, c.packages...)...)
	if c.cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+c.cache)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go build: %w", err)
	}
	complaints := watchBuild(stderr, meter)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("run go build: %w\n%s", err, complaints)
	}
	return nil
}

// watchBuild reads the output of "go build -v", which has a line for each package when its compilation begins, and
// returns the other lines.
func watchBuild(output io.Reader, meter *meter) (complaints string) {
	var other strings.Builder
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if isPackage := !strings.ContainsAny(lines.Text(), " \t:#"); isPackage {
			meter.compiled()
		} else if !strings.HasPrefix(lines.Text(), "go: downloading ") {
			fmt.Fprintln(&other, lines.Text())
		}
	}
	return other.String()
}

// goCommand returns a go command in dir, for a stand-alone module and a program for this machine, regardless of the
// environment.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptGrace
	return cmd
}
