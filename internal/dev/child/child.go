// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child runs the real controller, the program multieni, as a child process next to a simulated AWS.
//
// [Controller] finds or builds it and adapts its flags to the speed of the simulator. A [Process] can be stopped, as by
// an operator, or killed, as by a failure of its machine.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// stopTimeout is the time limit for a process to stop before it is killed. The controller waits up to 20 seconds for
// calls in flight.
const stopTimeout = 30 * time.Second

// Options describe the program to run.
type Options struct {
	// Program is the path of multieni.
	Program string
	// Args are its arguments.
	Args []string
	// Env is added to this process' own environment.
	Env []string
	// Log is the file for its output. Several processes, one after the other, may share one.
	Log string
}

// A Process is a running child.
type Process struct {
	command *exec.Cmd
	exited  chan struct{}
	err     error // of the exit; read it once exited is closed
}

// Start starts a process.
func Start(o Options) (*Process, error) {
	log, err := os.OpenFile(o.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of the controller: %w", err)
	}
	// A context would kill the process when it ends. Stop first asks the controller to stop.
	command := exec.CommandContext(context.Background(), o.Program, o.Args...)
	command.Env = append(os.Environ(), o.Env...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the controller: %w", err), log.Close())
	}
	p := &Process{command: command, exited: make(chan struct{})}
	go func() {
		p.err = errors.Join(command.Wait(), log.Close())
		close(p.exited)
	}()
	return p, nil
}

// PID is the ID of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Exited is closed when the process has ended, regardless of the reason.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err waits until the process has ended, and returns its error.
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// Kill ends the process with SIGKILL, which it cannot handle, and waits until it has ended.
func (p *Process) Kill() error {
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Stop asks the process to end, as Kubernetes does, and returns an error unless it ends well and in time.
func (p *Process) Stop() error {
	select {
	case <-p.exited: // a crash, or an interrupt from the terminal, which concerns this process as well
		return nil
	default:
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		if p.ended(syscall.SIGTERM) { // before it had begun to listen for it
			return nil
		}
		return p.err
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("the controller did not stop within %s", stopTimeout), p.Kill())
	}
}

// ended reports whether the signal ended the process.
func (p *Process) ended(by syscall.Signal) bool {
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == by
}

func (p *Process) signal(signal os.Signal) error {
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to the controller: %w", signal, err)
	}
	return nil
}
