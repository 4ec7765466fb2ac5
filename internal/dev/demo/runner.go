// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/internal/dev/nodenet"
)

const (
	// frame is how long a state of the table is shown.
	frame = 100 * time.Millisecond
	// patience is the time limit of a step. At 20 times real time a step takes a few seconds. But if the controller is
	// killed between a deletion and its record of it, its successor waits two minutes for certainty.
	patience = 3 * time.Minute
)

// teller runs the story: it runs the commands, shows the results and checks them.
type teller struct {
	screen     *screen
	cluster    *cluster.Cluster
	clock      awssim.Clock // the simulator's
	api        client.Reader
	controller *controller
	root       string // the checkout, where the commands are run

	now    moment
	before map[string]string // the interfaces after the last step, with their nodes
	tally  tally

	began      time.Time // of the story
	beganThere time.Time // by the simulator's clock
}

// tell runs all chapters; each step has its fate.
func (t *teller) tell(ctx context.Context, chapters []chapter, fates []fate) error {
	for n, c := range chapters {
		t.title(fmt.Sprintf("%d of %d", n+1, len(chapters)), c.title)
		if reason := t.cannotTell(c); reason != nil {
			t.screen.say()
			t.screen.block(t.screen.paint(terminal.Idle, fmt.Sprintf("(left out here: %v)", reason)), indent)
			fates = fates[len(c.steps):]
			continue
		}
		for _, s := range c.steps {
			if err := t.step(ctx, s, &fates[0]); err != nil {
				return fmt.Errorf("chapter %d, %s: %w", n+1, c.title, err)
			}
			fates = fates[1:]
		}
	}
	return nil
}

// cannotTell returns why a chapter is skipped, or nil.
func (t *teller) cannotTell(c chapter) error {
	if c.needs == nil {
		return nil
	}
	return c.needs(t.cluster)
}

// title writes a line that a reader can find by scrolling.
func (t *teller) title(number, title string) {
	width, _ := t.screen.size()
	head := fmt.Sprintf("── %s ── %s ", number, title)
	t.screen.say()
	rest := strings.Repeat("─", max(0, width-len([]rune(head))))
	t.screen.say(t.screen.paint(terminal.Strong, head) + t.screen.paint(terminal.Idle, rest))
}

// step runs one step.
func (t *teller) step(ctx context.Context, s step, f *fate) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("after %s it is still not as declared", patience))
	defer cancel()
	t.screen.say()
	t.screen.block(s.say, indent)
	t.screen.say()
	began := time.Now()
	t.screen.watch(rows(t.now))
	err := t.act(ctx, s, f)
	t.screen.settle()
	if err != nil {
		return err
	}
	after := t.now.owners()
	t.tally.count(t.before, after, s.then.gone)
	t.before = after
	t.screen.say()
	took := ", after " + seconds(time.Since(began).Seconds())
	t.screen.say(indent + t.screen.paint(terminal.Good, "✓") + " " + s.then.String() + t.screen.paint(terminal.Idle, took))
	if err := t.show(ctx, s.show); err != nil {
		return err
	}
	t.screen.breathe(ctx)
	return nil
}

// act runs the commands of a step and waits for the expected state.
func (t *teller) act(ctx context.Context, s step, f *fate) error {
	began := time.Now()
	for _, c := range s.do {
		line, run := c.typed(t)
		t.prompt(line)
		var a answer
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			a = answerOf(run(ctx))
		}()
		err := t.play(ctx, func() bool { return isClosed(answered) }, func(bool) bool { return f.strikes(time.Since(began)) })
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		if err := t.print(line, a); err != nil {
			return err
		}
	}
	var problems []string
	err := t.play(ctx, func() bool {
		problems = check(t.now, s.then)
		return len(problems) == 0
	}, func(over bool) bool { return f.strikes(time.Since(began)) || f.strikesWork(rows(t.now), over) })
	if err != nil && len(problems) > 0 {
		return fmt.Errorf("%w:\n  %s", err, strings.Join(problems, "\n  "))
	}
	return err
}

// show runs the commands whose output the reader should see.
func (t *teller) show(ctx context.Context, commands []command) error {
	for _, c := range commands {
		line, run := c.typed(t)
		t.screen.say()
		t.prompt(line)
		if err := t.print(line, answerOf(run(ctx))); err != nil {
			return err
		}
	}
	return nil
}

// answer is what a command printed, and how it ended.
type answer struct {
	output string
	err    error
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func answerOf(output string, err error) answer { return answer{output, err} }

func (t *teller) prompt(line string) {
	t.screen.say(indent + t.screen.paint(terminal.Idle, "$ ") + t.screen.paint(terminal.Strong, line))
}

func (t *teller) print(line string, a answer) error {
	t.screen.block(a.output, indent+indent)
	if a.err != nil {
		return fmt.Errorf("%s: %w", line, a.err)
	}
	return nil
}

// play shows one frame after the other until the step is over, and kills the controller whenever that is due.
func (t *teller) play(ctx context.Context, over func() bool, due func(over bool) bool) error {
	for {
		if err := t.look(ctx); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		t.screen.update(rows(t.now))
		isOver := over()
		if due(isOver) {
			if err := t.kill(); err != nil {
				return err
			}
			continue
		}
		if isOver {
			return nil
		}
		select {
		case <-time.After(frame):
		case <-t.controller.process.Exited():
			return fmt.Errorf("the controller ended by itself; its log is %s", t.controller.options.Log)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// kill kills the controller and starts it again.
func (t *teller) kill() error {
	pid := t.controller.process.PID()
	if err := t.controller.restart(); err != nil {
		return err
	}
	t.tally.kills++
	t.screen.say(indent + t.screen.paint(terminal.Idle, "$ ") +
		t.screen.paint(terminal.Bad, fmt.Sprintf("kill -9 %d", pid)) +
		t.screen.paint(terminal.Idle, "  # the controller; it starts again and remembers nothing"))
	return nil
}

// look reads the current state.
func (t *teller) look(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := t.api.List(ctx, &nodes); err != nil {
		return fmt.Errorf("read the nodes: %w", err)
	}
	var nodeENIs v1alpha1.NodeENIList
	if err := t.api.List(ctx, &nodeENIs); err != nil {
		return fmt.Errorf("read the NodeENIs: %w", err)
	}
	var interfaces v1alpha1.NetworkInterfaceList
	if err := t.api.List(ctx, &interfaces); err != nil {
		return fmt.Errorf("read the NetworkInterfaces: %w", err)
	}
	var pods corev1.PodList
	if err := t.api.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return fmt.Errorf("read the pods: %w", err)
	}
	t.now = moment{
		ec2: t.cluster.Simulator.State(), nodeENIs: nodeENIs.Items, interfaceObjects: interfaces.Items,
		nodes: map[string]string{}, agents: map[string]corev1.Node{}, pods: map[string]corev1.Pod{},
	}
	for _, pod := range pods.Items {
		t.now.pods[pod.Name] = pod
	}
	for _, node := range nodes.Items {
		if _, has := nodenet.Nodes()[node.Name]; has && t.cluster.NoNetworks == nil {
			t.now.agents[node.Name] = node
		}
		if ref, err := eni.ParseProviderID(node.Spec.ProviderID); err == nil {
			t.now.nodes[ref.ID] = node.Name
		}
	}
	return nil
}
