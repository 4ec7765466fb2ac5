// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/multieni/multieni/awssim/lambda"
)

// AddFunction adds a function of Lambda.
func (s *Simulator) AddFunction(f lambda.Function) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellPollers()
	if err := s.account.lambda.AddFunction(f); err != nil {
		return err
	}
	s.noteFunctions()
	return nil
}

// noteFunctions lets the runner start once the first function exists. The caller holds the lock.
func (s *Simulator) noteFunctions() {
	s.firstFunction.Do(func() { close(s.haveFunctions) })
}

// AddEventSourceMapping makes a function process the messages of a queue.
func (s *Simulator) AddEventSourceMapping(m lambda.EventSourceMapping) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellPollers()
	s.account.advance(s.clock.Now())
	return s.account.lambda.AddEventSourceMapping(m)
}

// Functions returns all functions by name, with the results of their invocations.
func (s *Simulator) Functions() []lambda.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.advance(s.clock.Now())
	return s.account.lambda.State()
}

// process is an environment to start.
type process struct {
	function lambda.Function
	name     string
}

// runner starts the programs of functions, and kills them.
type runner struct {
	simulator *Simulator
	endpoint  *url.URL
	output    io.Writer
	kill      map[string]context.CancelFunc // by environment
	ended     sync.WaitGroup
}

// runFunctions runs functions until the context ends, and returns when no process is left.
func (s *Simulator) runFunctions(ctx context.Context, endpoint *url.URL) {
	select {
	case <-s.haveFunctions:
	case <-ctx.Done():
		return
	}
	r := &runner{simulator: s, endpoint: endpoint, output: s.options.FunctionOutput, kill: map[string]context.CancelFunc{}}
	for {
		var started []process
		// It ends only with the context.
		err := s.await(ctx, time.Time{}, func() bool {
			started = r.wanted()
			return len(started) > 0 || r.killKilled()
		})
		if err != nil {
			break
		}
		for _, p := range started {
			r.start(ctx, p)
		}
	}
	r.ended.Wait()
}

// wanted returns the processes that functions need.
func (r *runner) wanted() []process {
	var all []process
	model := r.simulator.account.lambda
	for _, name := range model.FunctionNames() {
		f := model.Settings(name)
		if len(f.Command) == 0 {
			continue
		}
		for _, environment := range model.Begin(name) {
			all = append(all, process{f, environment})
		}
	}
	return all
}

// killKilled kills the processes whose environments were killed, and reports whether there were any.
func (r *runner) killKilled() bool {
	found := false
	for name, kill := range r.kill {
		if r.simulator.account.lambda.IsKilled(name) {
			kill()
			delete(r.kill, name)
			found = true
		}
	}
	return found
}

// start runs a process until it ends by itself or is killed.
func (r *runner) start(ctx context.Context, p process) {
	ctx, kill := context.WithCancel(ctx)
	r.simulator.mu.Lock()
	r.kill[p.name] = kill
	r.simulator.mu.Unlock()
	command := exec.CommandContext(ctx, p.function.Command[0], p.function.Command[1:]...)
	command.Env = r.environment(p)
	command.Stdout, command.Stderr = r.output, r.output
	command.WaitDelay = time.Second
	r.ended.Go(func() {
		defer kill()
		reason := "Runtime.ExitError"
		if err := command.Run(); err != nil {
			reason += ": " + err.Error()
		}
		r.forget(p, reason)
	})
}

func (r *runner) forget(p process, reason string) {
	s := r.simulator
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellPollers()
	delete(r.kill, p.name)
	s.account.advance(s.clock.Now())
	s.account.lambda.End(p.function.FunctionName, p.name, reason)
}

// environment returns the variables that Lambda sets (developer guide, "Defined runtime environment variables"), with
// the simulator as AWS, and then the function's own.
func (r *runner) environment(p process) []string {
	f := p.function
	set := []string{
		"PATH=" + os.Getenv("PATH"), "TZ=:UTC", "LANG=en_US.UTF-8",
		"AWS_LAMBDA_RUNTIME_API=" + r.endpoint.Host + "/_lambda/" + f.FunctionName + "/" + p.name,
		"AWS_LAMBDA_FUNCTION_NAME=" + f.FunctionName,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + f.FunctionName, "AWS_LAMBDA_LOG_STREAM_NAME=" + p.name,
		"LAMBDA_TASK_ROOT=" + filepath.Dir(f.Command[0]), "_HANDLER=bootstrap",
		"AWS_REGION=" + r.simulator.options.World.Region, "AWS_DEFAULT_REGION=" + r.simulator.options.World.Region,
		"AWS_ACCESS_KEY_ID=" + p.name, "AWS_SECRET_ACCESS_KEY=any", "AWS_SESSION_TOKEN=any",
		"AWS_ENDPOINT_URL=" + r.endpoint.String(), "AWS_EC2_METADATA_DISABLED=" + strconv.FormatBool(true),
	}
	for name, value := range f.Environment {
		set = append(set, name+"="+value)
	}
	return set
}
