// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// name is the name of the program with the controller.
const name = "multieni"

// Controller returns the options that run the controller with a simulator whose time is speed times as fast as real
// time. The caller sets Env and Log.
func Controller(ctx context.Context, speed float64, progress io.Writer) (Options, error) {
	path, err := program(ctx, progress)
	return Options{Program: path, Args: Flags(speed)}, err
}

// program returns the path of the program: the one in the folder of this program, as after "make build", or one that it
// builds from the checkout into its bin folder. The first build takes a while and reports its progress.
func program(ctx context.Context, progress io.Writer) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside, nil
	}
	root, err := Root()
	if err != nil {
		return "", fmt.Errorf("%s is not there, and %w", beside, err)
	}
	fmt.Fprintln(progress, "Building the controller …")
	built := filepath.Join(root, "bin", name)
	build := exec.CommandContext(ctx, "go", "build", "-o", built, "./cmd/"+name)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the controller: %w\n%s", err, output)
	}
	return built, nil
}

// Root returns the checkout of multieni that the working directory is in.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", name, "main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in a checkout of multieni, which holds the controller and the examples: change to "+
				"one", start)
		}
	}
}
