// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/bench/virtual"
)

// eventsFD is the file descriptor of the pipe for events in the process of a virtual run.
const eventsFD = 3

// newVirtual returns the command of a virtual run. Each run has a process of its own: a bubble needs one, and runs then
// cannot affect each other.
func newVirtual() *cobra.Command {
	var instant bool
	command := &cobra.Command{
		Use:    "virtual ID NODES",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := find(args[0], args[1])
			if err != nil {
				return err
			}
			s.InstantCalls = instant
			virtual.Main(s, os.NewFile(eventsFD, "events"))
			return nil
		},
	}
	bindInstantCalls(command, &instant)
	return command
}

// bindInstantCalls adds the flag for the world in which calls take no time.
func bindInstantCalls(command *cobra.Command, instant *bool) {
	command.Flags().BoolVar(instant, "instant-calls", false,
		"let calls of EC2 and Kubernetes take no time, instead of what they were measured to take")
}

func find(id, nodes string) (scenario.Scenario, error) {
	all := scenario.Catalogue()
	at := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.ID == id })
	if at < 0 {
		return scenario.Scenario{}, fmt.Errorf("there is no scenario %q", id)
	}
	count, err := strconv.Atoi(nodes)
	all[at].Nodes = count
	return all[at], err
}

// runVirtual runs a scenario in virtual time.
func runVirtual(ctx context.Context, s scenario.Scenario, show func(scenario.Progress)) (*scenario.Outcome, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	events, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer events.Close()
	var said bytes.Buffer
	command := exec.CommandContext(ctx, self, "virtual", s.ID, strconv.Itoa(s.Nodes),
		"--instant-calls="+strconv.FormatBool(s.InstantCalls))
	command.Stdout, command.Stderr, command.ExtraFiles = &said, &said, []*os.File{write}
	// Time matters here, not memory, and most allocations of a bubble are garbage soon.
	command.Env = append(os.Environ(), "GOGC=400")
	err = command.Start()
	if closeErr := write.Close(); err != nil || closeErr != nil {
		return nil, errors.Join(err, closeErr)
	}
	outcome := listen(json.NewDecoder(events), show)
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, strings.TrimSpace(said.String()))
	}
	return outcome, nil
}

// listen shows the progress of a run, and returns its outcome.
func listen(events *json.Decoder, show func(scenario.Progress)) (found *scenario.Outcome) {
	for {
		var e virtual.Event
		if err := events.Decode(&e); err != nil {
			return found // the process ended, and its exit code has the result
		}
		if e.Progress != nil {
			show(*e.Progress)
		}
		if e.Outcome != nil {
			found = e.Outcome
		}
	}
}
