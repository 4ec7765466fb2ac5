// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package child_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/dev/child"
)

// start runs a shell script and waits until it has printed something.
func start(t *testing.T, script string) (p *child.Process, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	p, err := child.Start(child.Options{Program: "/bin/sh", Args: []string{"-c", script}, Env: []string{"WHO=child"}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(t.Context(), 5*time.Millisecond, true, func(context.Context) (bool, error) {
		return read(t, log) != "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, log
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestStop(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		well   bool
	}{
		"ends when asked":       {"trap 'exit 0' TERM; echo $WHO; while :; do sleep 0.01; done", true},
		"does not listen yet":   {"echo $WHO; exec sleep 60", true},
		"ends badly when asked": {"trap 'exit 3' TERM; echo $WHO; while :; do sleep 0.01; done", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, log := start(t, tc.script)
			if err := p.Stop(); (err == nil) != tc.well {
				t.Errorf("stop: %v", err)
			}
			<-p.Exited()
			if got := strings.TrimSpace(read(t, log)); got != "child" {
				t.Errorf("log: %q", got)
			}
			if err := p.Stop(); err != nil {
				t.Errorf("stop of what has ended: %v", err)
			}
		})
	}
}

// A process that ignores signals can be killed, and the next one continues the same log.
func TestKill(t *testing.T) {
	t.Parallel()
	p, log := start(t, "trap '' TERM; echo $WHO; while :; do sleep 0.01; done")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if p.Err() == nil {
		t.Error("a killed process ended well")
	}
	next, err := child.Start(child.Options{Program: "/bin/sh", Args: []string{"-c", "echo next"}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Err(); err != nil {
		t.Error(err)
	}
	if got, want := read(t, log), "child\nnext\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

// The controller accepts its flags at any speed.
func TestFlags(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		speed := rapid.Float64Range(0.01, 10_000).Draw(t, "speed")
		var o options.Controller
		flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
		o.Bind(flags)
		if err := flags.Parse(child.Flags(speed)); err != nil {
			t.Fatal(err)
		}
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
		if o.LeaderElect || o.MetricsAddress != "0" || o.ProbeAddress != "0" {
			t.Errorf("it takes a lease or a port: %+v", o)
		}
	})
}
