// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/base/version"
)

// saveEvery is the time between two saves: a simulator that is killed loses at most what happened since.
const saveEvery = time.Minute

// options are the flags of awssim.
type options struct {
	Settings
	listen, state string
	slowCalls     bool
	throttle      bool
	// changed reports whether the user gave a flag.
	changed func(flag string) bool
}

// New returns the command.
func New() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:     "awssim",
		Short:   "Run a simulated AWS",
		Version: version.String(),
		Long: `Run a simulated AWS, until it is interrupted.

It answers EC2, Auto Scaling, EventBridge, SQS and Systems Manager's parameters at /, for every
AWS SDK and the AWS CLI, with any credentials, and runs functions of Lambda. What it holds can
be read and changed at /_sim/; "curl URL/_sim/" lists how. It prints the environment variables
that lead a program to it.

With --state FILE, it goes on from FILE if the file exists, and saves all that it holds there: when
it is interrupted, every minute, and at "curl -X POST URL/_sim/save". Attachments in progress,
client tokens, faults and counts are part of that. Time goes on while it does not run, as in AWS.

Nothing asks for a password: who reaches the address can do everything, and start programs as
functions of Lambda. So it listens on the loopback interface, unless --listen says otherwise.

The AWS CLI reads AWS_ENDPOINT_URL from version 1.29 or 2.13 on; an older one needs
--endpoint-url at each command, or it talks to AWS. All of version 1 need it for aws sqs.

With --lag, describe calls show each change only up to two seconds later, as EC2 does now and
then: a program that believes the first answer fails against it at once.`,
		Example: `  awssim --state aws.json

  # in another shell
  export AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
  export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
  aws ec2 describe-network-interfaces
  aws sqs create-queue --queue-name hooks --endpoint-url $AWS_ENDPOINT_URL
  aws autoscaling describe-auto-scaling-groups
  curl $AWS_ENDPOINT_URL/_sim/state
  curl -X POST $AWS_ENDPOINT_URL/_sim/save`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			o.changed = c.Flags().Changed
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := command.Flags()
	o.Bind(flags, 1)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:4566", "address to listen on; port 0 takes a free one")
	flags.StringVar(&o.state, "state", "", "file to go on from and to save in; made if missing; nothing is saved if empty")
	flags.BoolVar(&o.slowCalls, "call-latency", false, "let each call take as long as EC2's calls do")
	flags.BoolVar(&o.throttle, "throttle", true, "refuse calls above the request rates that EC2 documents")
	return command
}

func (o *options) run(ctx context.Context, out, progress io.Writer) error {
	settings, err := o.settings()
	if err != nil {
		return err
	}
	simulator, err := awssim.New(settings)
	if err != nil {
		return o.explained(settings.State, err)
	}
	server, err := awssim.Listen(context.WithoutCancel(ctx), o.listen, simulator)
	if err != nil {
		return fmt.Errorf("%w; --listen takes another address, and 127.0.0.1:0 a free port", err)
	}
	if o.state == "" {
		o.announce(out, server, simulator)
		<-ctx.Done()
		return server.Close()
	}
	// A file that cannot be written ends the program now, and not after hours of work.
	if err := simulator.SaveFile(); err != nil {
		return errors.Join(err, server.Close())
	}
	if settings.State != nil {
		fmt.Fprintf(progress, "awssim: goes on from %s, saved at %s\n", o.state,
			settings.State.MachineTime.Local().Format(time.DateTime))
	}
	o.announce(out, server, simulator)
	o.saveUntil(ctx, simulator, progress)
	// The last calls end first, and the programs of functions.
	return errors.Join(server.Close(), simulator.SaveFile())
}

func (o *options) announce(out io.Writer, server *awssim.Server, simulator *awssim.Simulator) {
	fmt.Fprintf(out, "export AWS_ENDPOINT_URL=%s AWS_REGION=%[2]s AWS_DEFAULT_REGION=%[2]s\n"+
		"export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any\n", server.URL(), simulator.State().Region)
}

// saveUntil saves from time to time, until the context ends.
func (o *options) saveUntil(ctx context.Context, simulator *awssim.Simulator, progress io.Writer) {
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := simulator.SaveFile(); err != nil {
				fmt.Fprintf(progress, "awssim: %v; the next attempt is in %s\n", err, saveEvery)
			}
		}
	}
}

// settings returns those of the flags, with the saved state, if there is one.
func (o *options) settings() (awssim.Options, error) {
	settings, err := o.Options()
	if err != nil {
		return awssim.Options{}, err
	}
	settings.StateFile = o.state
	if o.slowCalls {
		settings.Behavior.Calls = ec2.CallLatencies()
	}
	if !o.throttle {
		settings.Limits = map[string]awssim.Bucket{}
	}
	if o.state == "" {
		return settings, nil
	}
	state, err := awssim.ReadStateFile(o.state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return settings, nil
	case err != nil:
		return awssim.Options{}, unchanged(err)
	case o.world != "" && !equal(state.World, settings.World):
		return awssim.Options{}, fmt.Errorf("the state in %s began from another world than %s: leave out --world to go on "+
			"from the state, or give another file as --state to begin from the world", o.state, o.world)
	case o.changed("seed") && state.Seed != o.seed:
		return awssim.Options{}, fmt.Errorf("the state in %s began from the seed %d, and not from %d: leave out --seed to "+
			"go on from the state, or give another file as --state to begin again", o.state, state.Seed, o.seed)
	}
	settings.State, settings.Clock = state, state.Clock(o.Speed)
	return settings, nil
}

// equal reports whether two worlds have the same JSON: an empty list is as good as none.
func equal(a, b awssim.World) bool {
	// A world is read from a file: Marshal cannot fail.
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	return bytes.Equal(one, other)
}

// explained names the file of a state that does not fit together.
func (o *options) explained(state *awssim.SavedState, err error) error {
	if state == nil {
		return err
	}
	return unchanged(fmt.Errorf("%s: the state is damaged: %w", o.state, err))
}

func unchanged(err error) error {
	return fmt.Errorf("%w; the file is unchanged: restore it from a copy, or give another file as --state to begin again",
		err)
}
