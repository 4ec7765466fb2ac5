// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command of the bench: which scenarios are run, how far they are, and where the figures go.
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
		Long: `Measure how close to EC2's limits the controller works, and how quiet it is.

Most scenarios run in virtual time: the whole controller with an API server and an EC2 in
memory, where an hour takes seconds. They measure what the request rates of EC2, which are
those of an account by default, and the controller's decisions come to. The live ones run a
controller as a process against a real API server and a simulated EC2 over HTTP that lives
faster than the real one; they measure what the machine has to do with it.

Each figure is held against the limit that EC2 sets anyone, where there is one, and against
a target. MISS is beyond the target, FAIL is a defect.`,
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
			// Clients of the API server would say in the midst of the progress that they log nothing.
			ctrllog.SetLogger(logr.Discard())
			return s.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.scenarios, "scenarios", "small",
		"what to run: small, all, virtual, live, or IDs with commas between them, such as a1,d1:2500 for d1 with 2,500 nodes")
	flags.IntVar(&s.nodes, "nodes", 0, "size of the fleet instead of the scenario's own")
	flags.StringVarP(&s.output, "output", "o", "table", "what to print: table, json or markdown")
	bindDocument(command, &s.document)
	flags.StringVar(&s.dir, "dir", ".cache/bench", "folder for result.json, ready.svg and logs; made if missing")
	flags.StringArrayVar(&s.commands, "controller-cmd", []string{own}, "controller of the live scenarios: "+own+
		` is ours, anything else is run by the shell with
KUBECONFIG, AWS_ENDPOINT_URL, AWS_REGION, CLUSTER_NAME and EC2_SPEED set, and has to
understand NodeENIs; may be given several times`)
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
		result := measure(c, screen, func() (*scenario.Outcome, error) { return runVirtual(ctx, c, screen.show) })
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
	// What was measured before an interrupt counts.
	if len(r.Results) == 0 {
		return ctx.Err()
	}
	if _, err := io.WriteString(out, render(r)); err != nil {
		return err
	}
	return errors.Join(s.keep(r, progress), ctx.Err(), defect(r))
}

// defect is an error if a figure is beyond what is only a miss.
func defect(r report.Report) error {
	if r.Worst() == scenario.Failed {
		return errors.New("at least one figure says FAIL, which is a defect and not only slow")
	}
	return nil
}

// count is how many runs there are when live scenarios are run with several controllers.
func count(chosen []scenario.Scenario, controllers int) (runs int) {
	for _, c := range chosen {
		if runs++; c.Live {
			runs += controllers - 1
		}
	}
	return runs
}

// measure runs a scenario, tells of it, and returns its result.
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
		panic(err) // numbers that JSON does not have are nowhere measured
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

// rewrite puts the tables into the document, if one was named.
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
