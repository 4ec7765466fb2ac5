// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate is the command awssim, which runs the simulated AWS. It does not depend on Kubernetes, so that
// awssim is a small program of its own.
package simulate

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// Settings are the flags of the simulated AWS that awssim and multieni-dev share.
type Settings struct {
	// Speed is how many times faster than EC2 the simulated AWS lives.
	Speed float64
	world string
	seed  uint64
	lag   bool
}

// Bind defines the flags, with the default of --speed.
func (s *Settings) Bind(flags *pflag.FlagSet, speed float64) {
	flags.StringVar(&s.world, "world", "",
		"file with what AWS holds at the beginning; awssim/worlds/example.yaml if empty")
	flags.Uint64Var(&s.seed, "seed", 1, "seed of everything random in the simulated AWS")
	flags.BoolVar(&s.lag, "lag", false, "show each change to describe calls up to two seconds late")
	BindSpeed(flags, &s.Speed, speed)
}

// BindSpeed defines the flag --speed.
func BindSpeed(flags *pflag.FlagSet, speed *float64, value float64) {
	flags.Float64Var(speed, "speed", value,
		"how many times faster than EC2 the simulated AWS lives: latencies and request rates together")
}

// Options returns the settings of a simulator that begins. Its errors are those of the flags and of the world file.
func (s *Settings) Options() (awssim.Options, error) {
	if err := CheckSpeed(s.Speed); err != nil {
		return awssim.Options{}, err
	}
	world := awssim.ExampleWorld()
	if s.world != "" {
		var err error
		if world, err = awssim.LoadWorldFile(s.world); err != nil {
			return awssim.Options{}, err
		}
	}
	behavior := ec2.DefaultBehavior()
	if s.lag {
		behavior = ec2.LaggingBehavior()
	}
	return awssim.Options{World: world, Behavior: &behavior, Clock: awssim.ScaledClock(s.Speed), Seed: s.seed}, nil
}

// CheckSpeed refuses a speed that is not above 0.
func CheckSpeed(speed float64) error {
	if speed <= 0 {
		return fmt.Errorf("--speed is %g and must be above 0; 1 is as fast as EC2", speed)
	}
	return nil
}
