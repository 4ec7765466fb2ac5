// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"os/exec"
	"time"

	"github.com/multieni/multieni/internal/core/connectivity"
)

// pingCommand is the command in a pod. BusyBox and iputils know these flags. The deadline ends the program in the pod,
// even if the connection to it breaks.
func pingCommand(p connectivity.Ping) []string {
	return []string{"ping", "-c", "3", "-w", "6", "-I", p.Source.String(), p.Destination.String()}
}

// exec runs a command in the default container of a pod, and returns its output and its error. It calls kubectl, which
// users of the plugin have: a client of our own would add two protocols and their libraries.
func (k *check) exec(ctx context.Context, pod connectivity.PodName, command ...string) string {
	args := []string{"exec", "--namespace", pod.Namespace, pod.Name}
	if k.kubeconfig != "" {
		args = append(args, "--kubeconfig", k.kubeconfig)
	}
	if k.context != "" {
		args = append(args, "--context", k.context)
	}
	run := exec.CommandContext(ctx, "kubectl", append(append(args, "--"), command...)...)
	run.WaitDelay = time.Second
	output, err := run.CombinedOutput()
	if len(output) == 0 && err != nil {
		return err.Error()
	}
	return string(output)
}
