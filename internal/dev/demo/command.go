// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/internal/dev/nodenet"
)

// command is a command that a user types.
type command interface {
	// typed returns the command as it is typed, and a function that runs it and returns its output.
	typed(*teller) (line string, run func(context.Context) (string, error))
}

// kubectl is a command of kubectl. The real kubectl runs in the checkout, which has the examples.
type kubectl []string

func (k kubectl) typed(t *teller) (string, func(context.Context) (string, error)) {
	words := make([]string, len(k))
	for n, word := range k {
		words[n] = quote(word)
	}
	return "kubectl " + strings.Join(words, " "), func(ctx context.Context) (string, error) {
		command := exec.CommandContext(ctx, t.cluster.Kubectl, k...)
		command.Dir = t.root
		command.Env = append(os.Environ(), t.cluster.Env()...)
		output, err := command.CombinedOutput()
		return string(output), err
	}
}

// inNamespace is a command in the network namespace of a node or a pod.
type inNamespace struct {
	file string // in the folder of namespaces
	line []string
}

func onNode(node string, line ...string) inNamespace { return inNamespace{node, line} }

func inPod(pod string, line ...string) inNamespace {
	return inNamespace{filepath.Join("pods", "default", pod), line}
}

func (c inNamespace) typed(t *teller) (string, func(context.Context) (string, error)) {
	words := append([]string{"nsenter", "--net=" + filepath.Join(t.cluster.Networks, c.file)}, c.line...)
	return strings.Join(words, " "), func(ctx context.Context) (string, error) {
		output, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
		return string(output), err
	}
}

// ping is one packet from a pod to another one, or to an address.
type ping struct {
	from, to string
	lost     bool // no answer is expected
}

func (c ping) typed(t *teller) (string, func(context.Context) (string, error)) {
	to := cmp.Or(addressOf(t.now.pods[c.to]), c.to)
	line, run := inPod(c.from, "ping", "-c", "1", "-w", "2", to).typed(t)
	return line, func(ctx context.Context) (string, error) {
		output, err := run(ctx)
		if !c.lost {
			return output, err
		}
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == noAnswer {
			return output, nil
		}
		return output, cmp.Or(err, fmt.Errorf("%s has answered", to))
	}
}

// noAnswer is the exit code of ping(8) without an answer.
const noAnswer = 1

// addressOf returns the first address of a pod in its networks, or "".
func addressOf(pod corev1.Pod) string {
	var networks []struct {
		IPs []string `json:"ips"`
	}
	if json.Unmarshal([]byte(pod.Annotations[nodenet.StatusAnnotation]), &networks) != nil || len(networks) == 0 {
		return ""
	}
	return slices.Concat(networks[0].IPs, []string{""})[0]
}

// quote puts a word in quotes if a shell would interpret it.
func quote(word string) string {
	if strings.ContainsAny(word, " $*?[](){}<>|&;\"'\\") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// terminate ends the instance of a node in EC2, without informing Kubernetes.
type terminate struct{ node string }

func (c terminate) typed(t *teller) (string, func(context.Context) (string, error)) {
	path := "/_sim/instances/" + t.now.instanceOf(c.node).InstanceID
	return "curl -X DELETE $AWS_ENDPOINT_URL" + path, func(ctx context.Context) (string, error) {
		return "", remoteDelete(ctx, t.cluster.Endpoint+path)
	}
}

func remoteDelete(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return fmt.Errorf("the simulator answers %s: %s", response.Status, body)
}
