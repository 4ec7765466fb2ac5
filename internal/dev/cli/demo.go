// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/cli/simulate"
	"github.com/multieni/multieni/internal/dev/cast"
	"github.com/multieni/multieni/internal/dev/demo"
)

func newDemo() *cobra.Command {
	var o demo.Options
	var record string
	command := &cobra.Command{
		Use:   "demo",
		Short: "Watch multieni do its job, in a minute",
		Long: `Watch multieni do its job: the examples are applied one after the other, interfaces come
and go, the controller is killed, a node is terminated. After each step the simulated EC2 is
asked whether it holds exactly what was declared. The exit code is 0 only if it always did.

Run it in a checkout, where the examples are.`,
		Example: `  multieni-dev demo

  # stay up at the end, to try things
  multieni-dev demo --keep

  # record it, for asciinema play demo.cast, and for a browser as demo.svg
  multieni-dev demo --record demo.cast

  # kill the controller at ten random moments besides
  multieni-dev demo --chaos 10

  # against the API server of a cluster that exists, for example one of kind
  multieni-dev demo --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := simulate.CheckSpeed(o.Speed); err != nil {
				return err
			}
			o.Out, o.Progress = c.OutOrStdout(), c.ErrOrStderr()
			if record != "" {
				o.Recording = &cast.Recording{}
			}
			if err := inDir(&o.Dir, func() error { return demo.Run(c.Context(), o) }); err != nil || record == "" {
				return err
			}
			return writeRecording(record, *o.Recording)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.Dir, "dir", "", "folder for kubeconfig and logs; a temporary one if empty")
	flags.BoolVar(&o.Keep, "keep", false, "leave everything running at the end, until interrupted")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG_DEMO"),
		"use this cluster instead of an API server of our own; also KUBECONFIG_DEMO")
	flags.StringVar(&record, "record", "",
		"write a recording of a demo that ends well into this file (asciicast v2), and a picture of it next to it (SVG)")
	flags.IntVar(&o.Kills, "chaos", 0, "how often to kill the controller at random moments")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of everything random: the simulated AWS, and the moments of --chaos")
	simulate.BindSpeed(flags, &o.Speed, 20)
	return command
}

// writeRecording writes a recording and its picture.
func writeRecording(file string, r cast.Recording) error {
	// The picture is that of the file, whose times are rounded.
	written, err := cast.Parse(r.Bytes())
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, r.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(file, filepath.Ext(file))+".svg", []byte(written.SVG()), 0o644)
}

// inDir runs a function that needs a folder. It removes a temporary one after a success, and prints its name after a
// failure.
func inDir(dir *string, run func() error) (err error) {
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "multieni-dev-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(*dir)
			}
		}()
	}
	if err := run(); err != nil {
		return fmt.Errorf("%w\nthe logs are in %s", err, *dir)
	}
	return nil
}
