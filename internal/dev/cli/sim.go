// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// simulation has the settings of the simulated AWS.
type simulation struct {
	world string
	speed float64
	seed  uint64
	lag   bool
}

func (s *simulation) bind(flags *pflag.FlagSet, speed float64) {
	flags.StringVar(&s.world, "world", "",
		"file with what AWS holds at the beginning; awssim/worlds/example.yaml if empty")
	flags.Uint64Var(&s.seed, "seed", 1, "seed of everything random in the simulated AWS")
	flags.BoolVar(&s.lag, "lag", false, "show each change to describe calls up to two seconds late")
	bindSpeed(flags, &s.speed, speed)
}

func (s *simulation) options() (awssim.Options, error) {
	if err := checkSpeed(s.speed); err != nil {
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
	return awssim.Options{World: world, Behavior: &behavior, Clock: awssim.ScaledClock(s.speed), Seed: s.seed}, nil
}

func checkSpeed(speed float64) error {
	if speed <= 0 {
		return fmt.Errorf("--speed is %g and must be above 0; 1 is as fast as EC2", speed)
	}
	return nil
}

func newSim() *cobra.Command {
	var (
		s       simulation
		address string
	)
	command := &cobra.Command{
		Use:   "sim",
		Short: "Run the simulated AWS alone",
		Long: `Run the simulated AWS alone, until it is interrupted.

It answers EC2, Auto Scaling, EventBridge, SQS and Systems Manager's parameters at /, for every
AWS SDK and the AWS CLI, with any credentials, and runs functions of Lambda. What it holds can
be read and changed at /_sim/; "curl URL/_sim/" lists how.

The AWS CLI reads AWS_ENDPOINT_URL from version 1.29 or 2.13 on; an older one needs
--endpoint-url at each command, or it talks to AWS. All of version 1 need it for aws sqs.

With --lag, describe calls show each change only up to two seconds later, as EC2 does now and
then: a program that believes the first answer fails against it at once.`,
		Example: `  multieni-dev sim --addr 127.0.0.1:4566

  # in another shell
  export AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
  export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
  aws ec2 describe-network-interfaces
  aws sqs create-queue --queue-name hooks --endpoint-url $AWS_ENDPOINT_URL
  aws autoscaling describe-auto-scaling-groups
  curl $AWS_ENDPOINT_URL/_sim/state
  curl $AWS_ENDPOINT_URL/_sim/calls`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runSim(c.Context(), c.OutOrStdout(), s, address)
		},
	}
	s.bind(command.Flags(), 1)
	command.Flags().StringVar(&address, "addr", "127.0.0.1:0", "address to listen on; port 0 takes a free one")
	return command
}

func runSim(ctx context.Context, out io.Writer, s simulation, address string) error {
	o, err := s.options()
	if err != nil {
		return err
	}
	simulator, err := awssim.New(o)
	if err != nil {
		return err
	}
	server, err := awssim.Listen(context.WithoutCancel(ctx), address, simulator)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "export AWS_ENDPOINT_URL=%s AWS_REGION=%[2]s AWS_DEFAULT_REGION=%[2]s\n", server.URL(),
		o.World.Region)
	<-ctx.Done()
	return server.Close()
}
