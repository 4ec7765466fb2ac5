// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/multieni/multieni/internal/dev/cli"
)

// The simulated AWS alone prints its address in the syntax of a shell, serves there, and leaves nothing behind.
func TestSim(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	output, input := io.Pipe()
	root := cli.New()
	root.SetArgs([]string{"sim"})
	root.SetOut(input)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()

	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`^export AWS_ENDPOINT_URL=(http://127\.0\.0\.1:\d+) AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1\n$`).FindStringSubmatch(line)
	if words == nil {
		t.Fatalf("unexpected: %q", line)
	}
	response, err := http.Get(words[1] + "/_sim/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if response.StatusCode != http.StatusOK {
		t.Errorf("healthz: %s", response.Status)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Invalid options are refused before anything starts.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no speed":         {"sim", "--speed", "0"},
		"speed backwards":  {"demo", "--speed", "-1"},
		"no such world":    {"sim", "--world", "no-such-file"},
		"no folder":        {"up"},
		"unknown argument": {"demo", "fast"},
		"unknown command":  {"dawn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := cli.New()
			root.SetArgs(args)
			if err := root.ExecuteContext(t.Context()); err == nil {
				t.Error("no error")
			}
		})
	}
}

// Up reports what is missing outside a checkout before it starts anything.
func TestUpOutsideACheckout(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"no controller":    {[]string{"--kubeconfig", "any"}, "not in a checkout of multieni"},
		"no control plane": {[]string{"--no-controller"}, "KUBEBUILDER_ASSETS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBEBUILDER_ASSETS", "")
			t.Setenv("MULTIENI_ENVTEST_INDEX", "none")
			t.Chdir(t.TempDir())
			root := cli.New()
			root.SetArgs(append([]string{"up", "--dir", "started"}, row.args...))
			if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error is %v, want one with %q", err, row.want)
			}
			if files, err := filepath.Glob("started/*"); err != nil || len(files) > 0 {
				t.Errorf("it left %v, %v", files, err)
			}
		})
	}
}
