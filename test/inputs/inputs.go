// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inputs tells the test cache what a test depends on besides its own code: files of the checkout that child
// processes read, and programs that the test builds.
//
// The go command records the files that a test opens, and runs the test again if one of them changed. It does not see
// what child processes open. Call the functions here within a test: the record begins after TestMain.
package inputs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Files opens the files at the paths and, for folders, those below. Paths are relative to the working directory.
func Files(paths ...string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			return open(file)
		}))
	}
	return errors.Join(errs...)
}

// Shipped opens what other programs read of a checkout: the chart, manifests, examples and scripts.
func Shipped(checkout string) error {
	var errs []error
	for _, folder := range []string{"charts", "config", "deploy", "examples", "hack", "tools/helm"} {
		errs = append(errs, Files(filepath.Join(checkout, folder)))
	}
	return errors.Join(errs...)
}

func open(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return f.Close()
}

// Self returns the main function of a command that runs as the test binary itself, started under the command's name by
// package testscript: the code of the command is part of the test then, and the race detector and coverage include it.
func Self(name string, root func() *cobra.Command) func() {
	return func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := root().ExecuteContext(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

// Build builds a program of this module for this machine without cgo, as releases do, and opens its source files. The
// flags are those of go build.
func Build(ctx context.Context, output, program string, flags ...string) error {
	build := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", output}, flags...), program)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", program, err, out)
	}
	return Sources(ctx, program)
}

// Sources opens the source files of a program of this module.
func Sources(ctx context.Context, program string) error {
	const format = `{{if and .Module .Module.Main}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}` +
		`{{range .EmbedFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{.Module.GoMod}}{{"\n"}}{{end}}`
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-f", format, program)
	list.Stderr = &bytes.Buffer{}
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the source files of %s: %w: %s", program, err, list.Stderr)
	}
	var errs []error
	for file := range strings.FieldsSeq(string(out)) {
		errs = append(errs, open(file))
	}
	return errors.Join(errs...)
}
