// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/view"
)

// waitPoll is the time between two looks; each is one list of NodeENIs.
const waitPoll = time.Second

func newWait() *cobra.Command {
	var a access
	w := waiting{}
	c := &cobra.Command{
		Use:   "wait [NODEENI…]",
		Short: "Wait until NodeENIs are ready, and show the progress",
		Long: `Wait until the named NodeENIs, or all, are ready for their newest generation. The progress is
a bar on a terminal, and a line for each change elsewhere.

The command fails when the time is over; and, with --fail-if-stalled, as soon as all that is
left waits for somebody to change something. Only the Kubernetes API is read.`,
		Example: `  kubectl eni wait multus-eni-config --timeout 5m
  kubectl eni wait --fail-if-stalled    # all of them, in a pipeline`,
		ValidArgsFunction: a.completeNames(nodeENIList),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			w.api, w.names, w.out = api, args, c.ErrOrStderr()
			ctx, cancel := context.WithTimeoutCause(c.Context(), w.timeout, fmt.Errorf("not ready after %s; kubectl eni why NODEENI says why", w.timeout))
			defer cancel()
			return w.run(ctx)
		},
	}
	c.Flags().DurationVar(&w.timeout, "timeout", 10*time.Minute, "for how long to wait")
	c.Flags().BoolVar(&w.failIfStalled, "fail-if-stalled", false, "fail as soon as all that is left waits for somebody to change something")
	a.bind(c.Flags())
	return c
}

// waiting is one run of wait.
type waiting struct {
	api           client.Reader
	names         []string
	out           io.Writer
	timeout       time.Duration
	failIfStalled bool
	said          string
}

func (w *waiting) run(ctx context.Context) error {
	ticker := time.NewTicker(waitPoll)
	defer ticker.Stop()
	for {
		progress, err := w.look(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			w.say(progress)
		}
		switch {
		case err == nil && progress.Done:
			w.end()
			return nil
		case err == nil && progress.Stuck && w.failIfStalled:
			w.end()
			return errors.New("what is left waits for somebody; kubectl eni status says for what")
		}
		select {
		case <-ctx.Done():
			w.end()
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (w *waiting) look(ctx context.Context) (view.Progress, error) {
	var all v1alpha1.NodeENIList
	if err := w.api.List(ctx, &all); err != nil {
		return view.Progress{}, fmt.Errorf("list NodeENIs: %w", err)
	}
	var facts []view.NodeENI
	missing := slices.Clone(w.names)
	for i := range all.Items {
		n := &all.Items[i]
		if len(w.names) > 0 && !slices.Contains(w.names, n.Name) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == n.Name })
		fact := nodeENIFacts(n)
		if n.Status.ObservedGeneration != n.Generation {
			fact.Ready, fact.Conditions = view.Condition{}, nil
		}
		facts = append(facts, fact)
	}
	if len(missing) > 0 {
		return view.Progress{}, fmt.Errorf("there is no NodeENI %s; see kubectl get nodeenis", strings.Join(missing, ", "))
	}
	return view.NewProgress(facts), nil
}

// say shows the progress: in place on a terminal, else as a line when it changed.
func (w *waiting) say(p view.Progress) {
	page := pageOf(w.out)
	line := p.Line(page)
	switch {
	case isTerminal(w.out):
		fmt.Fprintf(w.out, "\r\x1b[K%s", line)
	case line != w.said:
		fmt.Fprintln(w.out, line)
	}
	w.said = line
}

// end leaves the line in which the progress was shown.
func (w *waiting) end() {
	if isTerminal(w.out) {
		fmt.Fprintln(w.out)
	}
}
