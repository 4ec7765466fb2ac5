// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/internal/dev/cluster"
)

const (
	// frame is how long a state of the table stays.
	frame = 100 * time.Millisecond
	// patience is how long a step may take. At 20 times real time it takes a second or two.
	patience = 90 * time.Second
)

// teller tells the story: it runs the commands, shows what comes of them and checks it.
type teller struct {
	screen     *screen
	cluster    *cluster.Cluster
	api        client.Reader
	controller *controller
	root       string // the checkout, where the commands are run

	now    moment
	before map[string]string // the interfaces after the last step, with their nodes
	tally  tally

	began      time.Time // of the story
	beganThere time.Time // by the simulator's clock
}

// tell tells all chapters. The kills are due in the steps, counted over all chapters.
func (t *teller) tell(ctx context.Context, chapters []chapter, kills []fate) error {
	for n, c := range chapters {
		t.title(fmt.Sprintf("%d of %d", n+1, len(chapters)), c.title)
		for _, s := range c.steps {
			if err := t.step(ctx, s, &kills[0]); err != nil {
				return fmt.Errorf("chapter %d, %s: %w", n+1, c.title, err)
			}
			kills = kills[1:]
		}
	}
	return nil
}

// title writes a line that a reader who scrolls will find again.
func (t *teller) title(number, title string) {
	p, width := t.screen.palette, 0
	width, _ = t.screen.size()
	head := fmt.Sprintf("── %s ── %s ", number, title)
	t.screen.say()
	t.screen.say(p.bold(head) + p.dim(strings.Repeat("─", max(0, width-len([]rune(head))))))
}

// step tells one step.
func (t *teller) step(ctx context.Context, s step, kills *fate) error {
	if s.say != "" {
		t.screen.say()
		t.screen.block(s.say, indent, func(line string) string { return line })
	}
	t.screen.say()
	began := time.Now()
	for _, c := range s.do {
		if err := t.command(ctx, c); err != nil {
			return err
		}
	}
	if err := t.await(ctx, s, kills); err != nil {
		return err
	}
	after := t.now.owners()
	t.tally.count(t.before, after, s.then.gone)
	t.before = after
	t.screen.say()
	t.screen.say(indent + t.screen.palette.green("✓") + " " + verdict(s.then) + t.screen.palette.dim("  "+seconds(time.Since(began).Seconds())))
	for _, c := range s.show {
		t.screen.say()
		if err := t.command(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// verdict says what was found to be so.
func verdict(o outcome) string {
	switch {
	case len(o.obstacles) > 0:
		return fmt.Sprintf("EC2 holds the %d interfaces that can be had, and %d are reported as blocked", len(o.holds), len(o.obstacles))
	case len(o.holds) == 0:
		return "EC2 holds no interface of ours"
	default:
		return fmt.Sprintf("EC2 holds these %d interfaces, each as declared, and no other", len(o.holds))
	}
}

// command shows a command, runs it and shows what it prints.
func (t *teller) command(ctx context.Context, c command) error {
	p := t.screen.palette
	t.screen.say(indent + p.dim("$ ") + p.cyan(c.line(t)))
	output, err := c.run(ctx, t)
	t.screen.block(output, indent+indent, func(line string) string { return line })
	if err != nil {
		return fmt.Errorf("run %s: %w", c.line(t), err)
	}
	return nil
}

// await shows the table until all is as it must be, and kills the controller when that is due.
func (t *teller) await(ctx context.Context, s step, kills *fate) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("after %s it is still not as declared", patience))
	defer cancel()
	ticks := time.NewTicker(frame)
	defer ticks.Stop()
	t.screen.say()
	t.screen.watch(rows(t.now))
	defer t.screen.settle()
	for began := time.Now(); ; {
		if err := t.look(ctx); err != nil {
			return err
		}
		all := rows(t.now)
		t.screen.update(all)
		problems := check(t.now, s.then)
		switch done := len(problems) == 0; {
		case kills.strikes(time.Since(began), all, done):
			if err := t.kill(); err != nil {
				return err
			}
			continue
		case done:
			return nil
		}
		select {
		case <-ticks.C:
		case <-t.controller.process.Exited():
			return fmt.Errorf("the controller ended by itself: %w; its log is %s", t.controller.process.Err(), t.controller.options.Log)
		case <-ctx.Done():
			return fmt.Errorf("%w:\n  %s", context.Cause(ctx), strings.Join(problems, "\n  "))
		}
	}
}

// kill ends the controller without a warning and starts it again.
func (t *teller) kill() error {
	pid := t.controller.process.PID()
	if err := t.controller.restart(); err != nil {
		return err
	}
	t.tally.kills++
	p := t.screen.palette
	t.screen.interrupt(indent + p.dim("$ ") + p.red(fmt.Sprintf("kill -9 %d", pid)) + p.dim("  # the controller; it is started again and remembers nothing"))
	return nil
}

// look reads what is true now.
func (t *teller) look(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := t.api.List(ctx, &nodes); err != nil {
		return fmt.Errorf("read the nodes: %w", err)
	}
	var nodeENIs v1alpha1.NodeENIList
	if err := t.api.List(ctx, &nodeENIs); err != nil {
		return fmt.Errorf("read the NodeENIs: %w", err)
	}
	t.now = moment{ec2: t.cluster.Simulator.State(), nodeENIs: nodeENIs.Items, nodes: map[string]string{}}
	for _, node := range nodes.Items {
		if _, id, err := eni.ParseProviderID(node.Spec.ProviderID); err == nil {
			t.now.nodes[id] = node.Name
		}
	}
	return nil
}
