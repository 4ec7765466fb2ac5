// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/dev/cast"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/internal/dev/cluster"
)

// Options configure [Run].
type Options struct {
	// Dir is the folder for kubeconfig, env and logs.
	Dir string
	// Kubeconfig, if set, is that of a cluster to use instead of a new API server.
	Kubeconfig string
	// Speed is the simulator's speed as a multiple of EC2's.
	Speed float64
	// Kills is how often the controller is killed at random moments, in addition to the kill in the story. Seed determines
	// the moments.
	Kills int
	Seed  uint64
	// Keep leaves everything running at the end, until the context ends.
	Keep bool
	// Out receives the story, Progress the progress of builds before it.
	Out, Progress io.Writer
	// Recording, if set, receives the story, too. Out then shows it as it is recorded.
	Recording *cast.Recording
}

// Run starts everything, runs the story and returns an error if anything is not as declared.
func Run(ctx context.Context, o Options) (err error) {
	t, err := setUp(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.tearDown(o)) }()
	t.opening(o.Speed)
	chapters := story()
	if err := t.tell(ctx, chapters, fates(chapters, o.Kills, rand.New(rand.NewPCG(o.Seed, 0)))); err != nil {
		return err
	}
	if err := t.closing(); err != nil || !o.Keep {
		return err
	}
	t.screen.say()
	t.screen.say("Everything stays up until you interrupt it with Ctrl-C. In another shell:")
	t.screen.say()
	t.screen.say(indent + "export KUBECONFIG=" + t.cluster.Kubeconfig)
	t.screen.say(indent + ". " + filepath.Join(o.Dir, "env") + "   # the same, with the address of the simulated AWS")
	<-ctx.Done()
	return nil
}

// setUp starts the cluster and the controller.
func setUp(ctx context.Context, o Options) (*teller, error) {
	root, err := child.Root()
	if err != nil {
		return nil, err
	}
	program, err := child.Controller(ctx, o.Speed, o.Progress)
	if err != nil {
		return nil, err
	}
	clock := awssim.ScaledClock(o.Speed)
	aws := awssim.Options{World: awssim.ExampleWorld(), Clock: clock, Seed: o.Seed}
	c, err := cluster.Start(ctx,
		cluster.Options{Dir: o.Dir, AWS: &aws, Kubeconfig: o.Kubeconfig, Networks: true, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	screen := newScreen(o.Out)
	if o.Recording != nil {
		screen = recordingScreen(o.Out, o.Recording)
	}
	t := &teller{screen: screen, cluster: c, clock: clock, root: root}
	if err := t.enter(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	program.Env, program.Log = c.Env(), filepath.Join(o.Dir, "controller.log")
	if t.controller, err = startController(program); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return t, nil
}

// enter reads the cluster for the first time. The story needs a cluster without NodeENIs: it would count others as its
// own.
func (t *teller) enter(ctx context.Context) (err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if t.api, err = client.New(t.cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := t.look(ctx); err != nil {
		return err
	}
	if n := len(t.now.nodeENIs); n > 0 {
		return fmt.Errorf("the cluster has %d NodeENIs, for example %s; the demo needs a cluster without any", n,
			t.now.nodeENIs[0].Name)
	}
	return nil
}

// tearDown stops everything. It first removes the story's objects from an existing cluster, while the controller runs.
func (t *teller) tearDown(o Options) error {
	var errs []error
	if o.Kubeconfig != "" {
		ctx, cancel := context.WithTimeout(context.Background(), patience) // the caller's context may have ended
		defer cancel()
		line, run := cleanUp().typed(t)
		if output, err := run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w\n%s", line, err, output))
		}
	}
	return errors.Join(append(errs, t.controller.process.Stop(), t.cluster.Stop())...)
}

// opening introduces the parts of the story.
func (t *teller) opening(speed float64) {
	t.screen.say(t.screen.paint(terminal.Strong,
		"multieni gives every node the network interfaces that are declared for it."))
	t.screen.say()
	t.screen.say(fmt.Sprintf("Here it does so between a real Kubernetes API server and a simulated AWS, %g times as fast "+
		"as EC2.", speed))
	t.screen.say("These are the nodes, each with only its primary interface:")
	t.screen.watch(rows(t.now))
	t.screen.settle()
	t.began, t.beganThere = time.Now(), t.clock.Now()
}

// closing prints the summary, and checks that the story did not need more calls than expected.
func (t *teller) closing() error {
	t.title("summary", "asked and delivered")
	t.tally.left = len(t.now.owned())
	t.tally.calls = t.cluster.Simulator.Calls()
	t.tally.real, t.tally.simulated = time.Since(t.began), t.clock.Now().Sub(t.beganThere)
	t.screen.say()
	t.screen.block(t.tally.String(), indent)
	t.screen.say()
	if problems := t.tally.check(len(t.now.nodes)); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	t.screen.say(indent + t.screen.paint(terminal.Good, "✓") + " everything was as declared")
	return nil
}
