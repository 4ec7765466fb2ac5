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

// The table of costs is between these lines of a document.
const (
	tableBegin = "<!-- what suites cost, written by make test-measure -->\n"
	tableEnd   = "<!-- end of what suites cost -->\n"
)

// cost is what a package or a suite costs: processor time to build and to run its tests, and the time of the run by the
// clock.
type cost struct{ build, run, clock time.Duration }

func (c cost) plus(d cost) cost { return cost{c.build + d.build, c.run + d.run, c.clock + d.clock} }

// row is the costs of a suite, without the race detector and with it.
type row struct {
	suite       string
	plain, race cost
}

// measure builds the tests of each suite and runs them, one package after the other, and writes what both cost into a
// document. A build uses the cache, so that a full cache leaves the linker's work. It measures those packages with the
// race detector too that the arguments name. It writes nothing if a test fails.
func measure(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	document := flags.String("o", "CONTRIBUTING.md", "the `document` that has the table")
	if err := flags.Parse(args); err != nil {
		return err
	}
	packages, err := testedPackages(ctx, "./...")
	if err != nil {
		return err
	}
	raced, err := testedPackages(ctx, flags.Args()...)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "multieni-suites-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rows := map[string]*row{}
	for n, p := range packages {
		suite := suiteOf(p.path)
		if rows[suite] == nil {
			rows[suite] = &row{suite: suite}
		}
		fmt.Printf("%d of %d: %s\n", n+1, len(packages), short(p.path))
		c, err := costOf(ctx, p, filepath.Join(dir, "test"))
		if err != nil {
			return err
		}
		rows[suite].plain = rows[suite].plain.plus(c)
		if !slices.Contains(raced, p) {
			continue
		}
		if c, err = costOf(ctx, p, filepath.Join(dir, "test"), "-race"); err != nil {
			return err
		}
		rows[suite].race = rows[suite].race.plus(c)
	}
	return writeTable(*document, tableOf(rows))
}

type pkg struct{ path, dir string }

// testedPackages lists the packages with tests that patterns name.
func testedPackages(ctx context.Context, patterns ...string) ([]pkg, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	format := `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}`
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, patterns...)...).Output()
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

// costOf builds and runs the tests of a package.
func costOf(ctx context.Context, p pkg, binary string, buildFlags ...string) (c cost, err error) {
	args := append([]string{"test", "-c", "-ldflags=-s -w", "-o", binary}, buildFlags...)
	build := exec.CommandContext(ctx, "go", append(args, p.path)...)
	if out, err := build.CombinedOutput(); err != nil {
		return c, fmt.Errorf("build the tests of %s: %w\n%s", p.path, err, out)
	}
	c.build = processorTime(build.ProcessState)
	test := exec.CommandContext(ctx, binary, "-test.timeout=1h")
	test.Dir = p.dir
	var out bytes.Buffer
	test.Stdout, test.Stderr = &out, &out
	begun := time.Now()
	if err := test.Run(); err != nil {
		return c, fmt.Errorf("the tests of %s failed: %w\n%s", p.path, err, out.Bytes())
	}
	c.clock = time.Since(begun)
	c.run = processorTime(test.ProcessState)
	return c, nil
}

// tableOf returns the table, with the most expensive suites first and the cheap ones in one row.
func tableOf(rows map[string]*row) string {
	const cheap = 5 * time.Second
	all, others := &row{suite: "all"}, &row{suite: "all others"}
	var shown []*row
	for _, r := range rows {
		all.plain, all.race = all.plain.plus(r.plain), all.race.plus(r.race)
		if r.plain.build+r.plain.run+r.race.build+r.race.run < cheap {
			others.plain, others.race = others.plain.plus(r.plain), others.race.plus(r.race)
			continue
		}
		shown = append(shown, r)
	}
	slices.SortFunc(shown, func(a, b *row) int {
		return cmp.Or(-cmp.Compare(a.plain.run+a.plain.build, b.plain.run+b.plain.build), cmp.Compare(a.suite, b.suite))
	})
	var s strings.Builder
	fmt.Fprintln(&s, "| suite | build | run | clock | build, race | run, race | clock, race |")
	fmt.Fprintln(&s, "|---|---:|---:|---:|---:|---:|---:|")
	for _, r := range append(shown, others, all) {
		fmt.Fprintf(&s, "| %s | %s | %s |\n", r.suite, r.plain, r.race)
	}
	return s.String()
}

// String returns the three columns of a cost, in seconds.
func (c cost) String() string {
	if c == (cost{}) {
		return "– | – | –"
	}
	return fmt.Sprintf("%.0f | %.0f | %.0f", c.build.Seconds(), c.run.Seconds(), c.clock.Seconds())
}

// writeTable replaces the table in a document.
func writeTable(document, table string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return fmt.Errorf("%s lacks the lines around the table:\n%s%s", document, tableBegin, tableEnd)
	}
	return os.WriteFile(document, []byte(before+tableBegin+table+tableEnd+after), 0o644)
}
