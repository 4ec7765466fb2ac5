// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// command is something a user types.
type command interface {
	// typed returns the command as it is typed, and what carries it out and returns what it prints.
	typed(*teller) (line string, run func(context.Context) (string, error))
}

// kubectl is a command of kubectl. The real one runs in the checkout, where the examples are.
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

// onNode is a command in the network namespace of a node.
type onNode struct {
	node string
	line []string
}

func (c onNode) typed(t *teller) (string, func(context.Context) (string, error)) {
	words := append([]string{"nsenter", "--net=" + filepath.Join(t.cluster.Networks, c.node)}, c.line...)
	return strings.Join(words, " "), func(ctx context.Context) (string, error) {
		output, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
		return string(output), err
	}
}

// quote puts a word in quotes if a shell would not leave it alone.
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
