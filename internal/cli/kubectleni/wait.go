// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/terminal"
)

// waitPoll is the time between two checks; each is one list of NodeENIs.
const waitPoll = time.Second

func newWait() *cobra.Command {
	var a access
	w := waiting{}
	c := &cobra.Command{
		Use:   "wait [NODEENI…]",
		Short: "Wait until NodeENIs are ready, and show the progress",
		Long: `Wait until the named NodeENIs, or all, are ready for their newest generation. It shows
the progress as a bar on a terminal, and as a line for each change elsewhere.

The command fails after --timeout. With --fail-if-stalled, it fails as soon as every NodeENI that
is not ready waits for a change by a user. It only reads the Kubernetes API.`,
		Example: `  kubectl eni wait multus-eni-config --timeout 5m
  kubectl eni wait --fail-if-stalled    # all of them, in a pipeline`,
		ValidArgsFunction: a.completeNames(nodeENIList),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			w.api, w.names, w.out = api, args, c.ErrOrStderr()
			ctx, cancel := context.WithTimeout(c.Context(), w.timeout)
			defer cancel()
			return w.run(ctx)
		},
	}
	c.Flags().DurationVar(&w.timeout, "timeout", 10*time.Minute, "how long to wait")
	c.Flags().BoolVar(&w.failIfStalled, "fail-if-stalled", false,
		"fail as soon as every NodeENI that is not ready waits for a change by a user")
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
	defer w.end()
	var last report.Progress
	for {
		progress, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return w.over(ctx, last)
		case err != nil:
			return err
		}
		w.say(progress)
		last = progress
		switch {
		case progress.Done:
			return nil
		case progress.Stuck && w.failIfStalled:
			return errors.New("a user has to change something for " + progress.Left())
		}
		select {
		case <-ctx.Done():
			return w.over(ctx, last)
		case <-ticker.C:
		}
	}
}

// over reports what was still missing when the time was over or the user interrupted the command.
func (w *waiting) over(ctx context.Context, last report.Progress) error {
	switch {
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	case last.NodeENIs == 0:
		return fmt.Errorf("found no NodeENI in %s; check that the Kubernetes API answers, and that a NodeENI exists",
			w.timeout)
	}
	return fmt.Errorf("not ready after %s: %s", w.timeout, last.Left())
}

func (w *waiting) look(ctx context.Context) (report.Progress, error) {
	var all v1alpha1.NodeENIList
	if err := w.api.List(ctx, &all); err != nil {
		return report.Progress{}, fmt.Errorf("list NodeENIs: %w", err)
	}
	var facts []report.NodeENI
	missing := slices.Clone(w.names)
	for i := range all.Items {
		n := &all.Items[i]
		if len(w.names) > 0 && !slices.Contains(w.names, n.Name) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == n.Name })
		facts = append(facts, nodeENIFacts(n))
	}
	if len(missing) > 0 {
		return report.Progress{}, fmt.Errorf("there is no NodeENI %s; see kubectl get nodeenis", strings.Join(missing, ", "))
	}
	progress := report.NewProgress(facts)
	if !progress.Done {
		return progress, nil
	}
	return w.confirm(ctx, facts)
}

// confirm checks whether the status of each ready NodeENI counts all its nodes. Without it, a user who labels a node
// and then waits would get the result from before the label.
func (w *waiting) confirm(ctx context.Context, facts []report.NodeENI) (report.Progress, error) {
	for i := range facts {
		var nodes metav1.PartialObjectMetadataList
		nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := w.api.List(ctx, &nodes, client.MatchingLabels(facts[i].Selector)); err != nil {
			return report.Progress{}, fmt.Errorf("list the Nodes of NodeENI %s: %w", facts[i].Name, err)
		}
		if len(nodes.Items) > facts[i].Nodes {
			facts[i].Ready = report.Condition{Reason: v1alpha1.ReasonProgressing}
		}
	}
	return report.NewProgress(facts), nil
}

// say shows the progress: in place on a terminal, else as a line when it changed.
func (w *waiting) say(p report.Progress) {
	page := pageOf(w.out)
	line := terminal.Clean(p.Line(page))
	switch {
	case isTerminal(w.out):
		fmt.Fprintf(w.out, "\r\x1b[K%s", line)
	case line != w.said:
		fmt.Fprintln(w.out, line)
	}
	w.said = line
}

// end ends the line of the progress.
func (w *waiting) end() {
	if isTerminal(w.out) {
		fmt.Fprintln(w.out)
	}
}
