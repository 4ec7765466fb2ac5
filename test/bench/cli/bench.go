// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command of the bench: it selects scenarios, shows their progress, and writes the figures.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multieni/multieni/test/bench/agents"
	"github.com/multieni/multieni/test/bench/report"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// settings are the flags.
type settings struct {
	scenarios string
	nodes     int
	output    string
	dir       string
	commands  []string
	instant   bool
	document  string
}

// New returns the command.
func New() *cobra.Command {
	var s settings
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure a controller of network interfaces against the limits of EC2",
		Long: `Measure how close to EC2's limits the controller works, and how little it does at rest.

Most scenarios run in virtual time: the whole controller with an API server and an EC2 in
memory, where an hour takes seconds. They measure the effect of EC2's request rates (by default
those of an account) and of the controller's decisions. The live scenarios run a controller as a
process against a real API server and a simulated EC2 over HTTP, which is faster than the real
one. They measure CPU, memory and latency on this machine.

The bench compares each figure with EC2's own limit, if there is one, and with a target. MISS
means that a target was missed, FAIL means a defect.`,
		Example: `  # the small set, a few minutes
  make bench

  # everything, or a choice
  make bench BENCH=all
  make bench BENCH=a1,c

  # our controller and another one, each on servers and a fleet of its own
  make bench BENCH=live BENCHFLAGS="--controller-cmd multieni --controller-cmd './other --flag'"`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			// Without a logger, clients of the API server would warn about its absence between lines of progress.
			ctrllog.SetLogger(logr.Discard())
			return s.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.scenarios, "scenarios", "small",
		"what to run: small, all, virtual, live, or a list of IDs, for example a1,d1:2500 for d1 with 2,500 nodes")
	flags.IntVar(&s.nodes, "nodes", 0, "size of the fleet instead of the scenario's own")
	flags.StringVarP(&s.output, "output", "o", "table", "what to print: table, json or markdown")
	bindDocument(command, &s.document)
	flags.StringVar(&s.dir, "dir", ".cache/bench", "folder for result.json, ready.svg and logs; created if missing")
	flags.StringArrayVar(&s.commands, "controller-cmd", []string{own}, "controller of the live scenarios: "+own+
		` is ours, any other value is a shell command that
runs with KUBECONFIG, AWS_ENDPOINT_URL, AWS_REGION, CLUSTER_NAME and EC2_SPEED
and must watch NodeENIs; repeat the flag for several controllers`)
	bindInstantCalls(command, &s.instant)
	command.AddCommand(newList(), newCombine(), newVirtual())
	return command
}

func newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the scenarios",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, s := range scenario.Catalogue() {
				fmt.Fprintf(c.OutOrStdout(), "%-8s %s\n", s.ID, s.Title)
			}
			return nil
		},
	}
}

func (s settings) run(ctx context.Context, out, progress io.Writer) error {
	chosen, err := scenario.Choose(s.scenarios)
	if err != nil {
		return err
	}
	render, err := renderer(s.output)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	r := report.Report{Commit: commit(ctx), Time: time.Now(), Seed: bubble.Seed, InstantCalls: s.instant, Rig: machine()}
	var live []scenario.Scenario
	screen := newScreen(progress, count(chosen, len(s.commands)))
	for _, c := range chosen {
		if c.InstantCalls = s.instant; s.nodes > 0 {
			c.Nodes = s.nodes
		}
		if c.Live {
			live = append(live, c)
			continue
		}
		result := measure(c, screen, func() (*scenario.Outcome, error) { return s.runAlone(ctx, c, screen) })
		if ctx.Err() != nil {
			break
		}
		r.Results = append(r.Results, result)
	}
	for n, command := range s.commands {
		if len(live) > 0 && ctx.Err() == nil {
			s.runLive(ctx, &r, contestant{command, filepath.Join(s.dir, fmt.Sprintf("live-%d", n+1))}, live, screen)
		}
	}
	// The results before an interrupt count.
	if len(r.Results) == 0 {
		return ctx.Err()
	}
	if _, err := io.WriteString(out, render(r)); err != nil {
		return err
	}
	return errors.Join(s.keep(r, progress), ctx.Err(), defect(r))
}

// runAlone runs a scenario that shares nothing with others.
func (s settings) runAlone(ctx context.Context, c scenario.Scenario, screen *screen) (*scenario.Outcome, error) {
	if !c.Agents {
		return runVirtual(ctx, c, screen.show)
	}
	dir := filepath.Join(s.dir, c.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return agents.Run(ctx, agents.Full(c.Nodes), dir, screen.show)
}

// defect returns an error if a figure is a defect and not only a miss.
func defect(r report.Report) error {
	if r.Worst() == scenario.Failed {
		return errors.New("at least one figure says FAIL, which is a defect and not only slow")
	}
	return nil
}

// count returns the number of runs, with several controllers for live scenarios.
func count(chosen []scenario.Scenario, controllers int) (runs int) {
	for _, c := range chosen {
		if runs++; c.Live {
			runs += controllers - 1
		}
	}
	return runs
}

// measure runs a scenario, shows its progress, and returns its result.
func measure(c scenario.Scenario, screen *screen, run func() (*scenario.Outcome, error)) report.Result {
	begun := time.Now()
	screen.begin(c)
	o, err := run()
	result := report.New(c, o, time.Since(begun), err)
	screen.end(result)
	return result
}

func renderer(output string) (func(report.Report) string, error) {
	switch output {
	case "table":
		return report.Report.Table, nil
	case "markdown":
		return report.Report.Markdown, nil
	case "json":
		return encode, nil
	default:
		return nil, fmt.Errorf("--output is %q and must be table, json or markdown", output)
	}
}

func encode(r report.Report) string {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		panic(err) // no measurement is a number that JSON does not have
	}
	return string(text) + "\n"
}

// keep writes the files.
func (s settings) keep(r report.Report, progress io.Writer) error {
	if err := s.rewrite(r); err != nil {
		return err
	}
	path := filepath.Join(s.dir, "result.json")
	if err := os.WriteFile(path, []byte(encode(r)), 0o644); err != nil {
		return err
	}
	picture, err := r.Plot()
	if err != nil || picture == "" {
		fmt.Fprintf(progress, "\n%s has all figures.\n\n", path)
		return err
	}
	drawn := filepath.Join(s.dir, "ready.svg")
	fmt.Fprintf(progress, "\n%s has all figures, %s shows ready nodes over time.\n\n", path, drawn)
	return os.WriteFile(drawn, []byte(picture), 0o644)
}

// rewrite puts the tables into the document if the flag names one.
func (s settings) rewrite(r report.Report) error {
	if s.document == "" {
		return nil
	}
	before, err := os.ReadFile(s.document)
	if err != nil {
		return err
	}
	after, err := r.Into(string(before))
	if err != nil {
		return fmt.Errorf("--document %s: %w", s.document, err)
	}
	return os.WriteFile(s.document, []byte(after), 0o644)
}
