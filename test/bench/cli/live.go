// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"

	"github.com/multieni/multieni/test/bench/report"
	"github.com/multieni/multieni/test/bench/rig"
	"github.com/multieni/multieni/test/bench/scenario"
)

// own is the name of our controller in place of a command.
const own = "multieni"

// contestant is a controller that the bench measures: its command, and the folder with its files.
type contestant struct{ command, dir string }

// runLive adds the results of the live scenarios with one controller, which has its own servers and fleet.
func (s settings) runLive(ctx context.Context, r *report.Report, who contestant, live []scenario.Scenario,
	screen *screen) {
	servers, err := s.open(ctx, who.dir, who.command, live[0].Nodes, screen)
	for _, c := range live {
		result := measure(c, screen, func() (*scenario.Outcome, error) {
			if err != nil {
				return nil, err
			}
			return servers.Run(ctx, c, screen.show)
		})
		if ctx.Err() != nil {
			break
		}
		result.Controller = who.command
		r.Results = append(r.Results, result)
	}
	if err != nil {
		return
	}
	if r.Rig.Kubernetes, err = servers.Version(); err == nil {
		err = servers.Close()
	}
	if err != nil {
		screen.say("servers: " + err.Error())
	}
}

func (s settings) open(ctx context.Context, dir, command string, nodes int, screen *screen) (*rig.Rig, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	screen.say("servers and a fleet for " + command)
	if command == own {
		command = ""
	}
	return rig.Open(ctx, rig.Options{Command: command, Nodes: nodes, Dir: dir, Progress: screen.out})
}
