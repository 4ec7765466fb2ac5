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
	"strings"
)

// command is something a user types.
type command interface {
	// line is the command as it is typed.
	line(*teller) string
	// run carries it out and returns what it prints.
	run(context.Context, *teller) (string, error)
}

// kubectl is a command of kubectl, run by the real one, in the checkout, where the examples are.
type kubectl []string

func (k kubectl) line(*teller) string {
	words := make([]string, len(k))
	for n, word := range k {
		words[n] = quote(word)
	}
	return "kubectl " + strings.Join(words, " ")
}

func (k kubectl) run(ctx context.Context, t *teller) (string, error) {
	command := exec.CommandContext(ctx, t.cluster.Kubectl, k...)
	command.Dir = t.root
	command.Env = append(os.Environ(), t.cluster.Env()...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// quote puts a word in quotes if a shell would not leave it alone.
func quote(word string) string {
	if strings.ContainsAny(word, " $*?[](){}<>|&;\"'\\") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// terminate ends the instance of a node behind everybody's back.
type terminate struct{ node string }

func (c terminate) path(t *teller) string {
	if instance := t.now.instanceOf(c.node); instance != nil {
		return "/_sim/instances/" + instance.InstanceID
	}
	return "/_sim/instances/unknown"
}

func (c terminate) line(t *teller) string { return "curl -X DELETE $AWS_ENDPOINT_URL" + c.path(t) }

func (c terminate) run(ctx context.Context, t *teller) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, t.cluster.Endpoint+c.path(t), http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("the simulator answers %s: %s", response.Status, body)
	}
	return "", err
}
