// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cost is what a suite costs.
type cost struct {
	suite      string
	build, run time.Duration // of the processors
	clock      time.Duration // of the run, one package after the other
	failed     []string      // packages
}

// measure builds the tests of each suite and runs them, one package after the other, and prints what both cost. A build
// uses the cache, so that a full cache leaves the linker's work.
func measure(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	race := flags.Bool("race", false, "measure with the race detector")
	only := flags.String("only", "", "measure the suites with this `PREFIX` alone")
	if err := flags.Parse(args); err != nil {
		return err
	}
	packages, err := testedPackages(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "multieni-suites-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	costs := map[string]*cost{}
	for _, p := range packages {
		suite := suiteOf(p.path)
		if !strings.HasPrefix(suite, *only) {
			continue
		}
		if costs[suite] == nil {
			costs[suite] = &cost{suite: suite}
		}
		fmt.Fprintln(os.Stderr, "measuring", short(p.path))
		if err := costs[suite].add(ctx, p, filepath.Join(dir, "test"), *race); err != nil {
			return err
		}
	}
	fmt.Print(tableOf(costs))
	return nil
}

type pkg struct{ path, dir string }

// testedPackages lists the packages with tests.
func testedPackages(ctx context.Context) ([]pkg, error) {
	format := `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}`
	out, err := exec.CommandContext(ctx, "go", "list", "-f", format, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var all []pkg
	for line := range strings.Lines(string(out)) {
		if path, dir, is := strings.Cut(strings.TrimSpace(line), " "); is {
			all = append(all, pkg{path, dir})
		}
	}
	return all, nil
}

// add builds and runs the tests of a package.
func (c *cost) add(ctx context.Context, p pkg, binary string, race bool) error {
	args := []string{"test", "-c", "-o", binary}
	if race {
		args = append(args, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(args, p.path)...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of %s: %w\n%s", p.path, err, out)
	}
	c.build += processorTime(build.ProcessState)
	test := exec.CommandContext(ctx, binary, "-test.timeout=1h")
	test.Dir = p.dir
	var out bytes.Buffer
	test.Stdout, test.Stderr = &out, &out
	begun := time.Now()
	err := test.Run()
	c.clock += time.Since(begun)
	c.run += processorTime(test.ProcessState)
	if err != nil {
		c.failed = append(c.failed, short(p.path))
		fmt.Fprintf(os.Stderr, "%s failed: %v\n%s\n", short(p.path), err, out.Bytes())
	}
	return ctx.Err()
}

func tableOf(costs map[string]*cost) string {
	var rows []*cost
	all := &cost{suite: "all"}
	for _, c := range costs {
		rows = append(rows, c)
		all.build, all.run, all.clock = all.build+c.build, all.run+c.run, all.clock+c.clock
	}
	slices.SortFunc(rows, func(a, b *cost) int {
		return cmp.Or(-cmp.Compare(a.run+a.build, b.run+b.build), cmp.Compare(a.suite, b.suite))
	})
	var s strings.Builder
	fmt.Fprintln(&s, "| suite | build, s of processor | run, s of processor | run, s by the clock |")
	fmt.Fprintln(&s, "|---|---:|---:|---:|")
	for _, c := range append(rows, all) {
		note := ""
		if len(c.failed) > 0 {
			note = " (failed: " + strings.Join(c.failed, ", ") + ")"
		}
		fmt.Fprintf(&s, "| %s%s | %.0f | %.0f | %.0f |\n", c.suite, note, c.build.Seconds(), c.run.Seconds(), c.clock.Seconds())
	}
	return s.String()
}
