// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"bytes"
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/cli/userdata"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run runs the command as it is typed, with standard input, and returns what it printed and its error.
func run(t *testing.T, input string, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := userdata.New()
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(append([]string{"render"}, arguments...))
	command.SetIn(strings.NewReader(input))
	command.SetOut(&out)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

const networks = "testdata/networks.yaml"

// program has the flags with which nodes download the program.
var program = []string{"--program-url", "https://example.com/eni-bootstrap?a=1&b=%20", "--program-sha256", strings.Repeat("0a", 32)}

// cluster has the flags of the cluster that self-managed nodes join.
var cluster = []string{"--cluster-name", "blue", "--cluster-endpoint", "https://x.eks.amazonaws.com", "--certificate-authority", "Q0E=", "--service-cidr", "172.20.0.0/16"}

// Every form has a golden file, so that a change of what nodes run is visible in review.
func TestWhatIsPrinted(t *testing.T) {
	for name, arguments := range map[string][]string{
		"al2.mime":                  append([]string{"--family", "al2", "--config", networks, "--merge", "testdata/script.sh"}, program...),
		"al2-self-managed.mime":     append([]string{"--family", "AL2", "--ssm-parameter", "/multus/networks", "--on-failure", "taint", "--cluster-dns", "172.20.0.10"}, cluster...),
		"al2023.mime":               append([]string{"--config", networks, "--merge", "testdata/parts.mime"}, program...),
		"al2023-self-managed.mime":  append([]string{"--instance-tags", "--on-failure", "continue"}, cluster...),
		"bottlerocket.toml":         {"--family", "bottlerocket", "--config", networks, "--image", "example.com/eni-bootstrap:v1", "--merge", "testdata/settings.toml"},
		"bottlerocket-cluster.toml": append([]string{"--family", "Bottlerocket", "--config", networks, "--image", "example.com/eni-bootstrap:v1", "--on-failure", "continue"}, cluster...),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, "", arguments...)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "golden", name)
			if *update {
				if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out); diff != "" {
				t.Errorf("(-golden +printed):\n%s", diff)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	bottlerocket := []string{"--family", "Bottlerocket", "--config", networks, "--image", "x"}
	for name, tc := range map[string]struct {
		input     string
		arguments []string
		names     string
	}{
		"another family":               {"", []string{"--family", "Ubuntu", "--config", networks}, "--family"},
		"no networks":                  {"", nil, "--config"},
		"networks from two places":     {"", []string{"--config", networks, "--instance-tags"}, "--instance-tags"},
		"a file that says nothing":     {"networks: []", []string{"--config", "-"}, "--config"},
		"a policy there is not":        {"", []string{"--config", networks, "--on-failure", "hope"}, "--on-failure"},
		"a program nobody vouches for": {"", []string{"--config", networks, "--program-url", "https://x"}, "--program-sha256"},
		"an address that ends a word":  {"", []string{"--config", networks, "--program-url", "https://x'; reboot", "--program-sha256", strings.Repeat("0", 64)}, "--program-url"},
		"a parameter that ends a word": {"", []string{"--ssm-parameter", "a b"}, "--ssm-parameter"},
		"half a cluster":               {"", []string{"--config", networks, "--cluster-name", "blue"}, "--cluster-endpoint"},
		"a cluster that ends a word":   {"", append([]string{"--config", networks}, append(cluster[2:], "--cluster-name", "a'b")...), "--cluster-name"},
		"user data of no kind":         {"hello", []string{"--config", networks, "--merge", "-"}, "--merge"},
		"too much user data":           {"#!/bin/sh\n" + strings.Repeat("x", 16*1024), []string{"--config", networks, "--merge", "-"}, "16384"},
		"nodeadm on Amazon Linux 2":    {"apiVersion: node.eks.aws/v1alpha1", []string{"--family", "AL2", "--config", networks, "--merge", "-"}, "NodeConfig"},
		"two files of one input":       {"", []string{"--config", "-", "--merge", "-"}, "--merge"},
		"another form":                 {"", []string{"--config", networks, "-o", "json"}, "-o"},
		"Bottlerocket without image":   {"", []string{"--family", "Bottlerocket", "--config", networks}, "--image"},
		"Bottlerocket with a script":   {"#!/bin/sh", append([]string{"--merge", "-"}, bottlerocket...), "--merge"},
		"Bottlerocket and a taint":     {"", append([]string{"--on-failure", "taint"}, bottlerocket...), "--on-failure"},
		"Bottlerocket and tags":        {"", []string{"--family", "Bottlerocket", "--instance-tags", "--image", "x"}, "--config"},
		"Bottlerocket with a program":  {"", append(append([]string{}, program...), bottlerocket...), "--program-url"},
		"Bottlerocket without TOML":    {"motd: hello", append([]string{"--merge", "-"}, bottlerocket...), "--merge cannot be merged: it is not TOML: line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, tc.input, tc.arguments...)
			if err == nil || !strings.Contains(err.Error(), tc.names) || out != "" {
				t.Errorf("it printed %q, and said %v instead of something on %s", out, err, tc.names)
			}
		})
	}
}

func TestTheFormOfLaunchTemplates(t *testing.T) {
	plain, err := run(t, "", "--config", networks)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := run(t, "", "--config", networks, "-o", "base64")
	if err != nil {
		t.Fatal(err)
	}
	if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded)); err != nil || string(decoded) != plain {
		t.Errorf("%v, %s", err, decoded)
	}
}

var documented = regexp.MustCompile(`(?m)^ *multieni userdata render ((?:.*\\\n)*.*)$`)

// The documented commands succeed with the file of networks in the document.
func TestTheDocumentedCommands(t *testing.T) {
	page, err := os.ReadFile("../../../docs/multus-node-groups.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(page), "```yaml\n")
	config, _, _ = strings.Cut(config, "```")
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"networks.yaml": config, "my-script.sh": "#!/bin/bash\ntrue\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commands := documented.FindAllStringSubmatch(string(page), -1)
	if len(commands) < 3 {
		t.Fatalf("%d commands are documented", len(commands))
	}
	for _, c := range commands {
		arguments := strings.NewReplacer("\\\n", " ", "$SHA256", strings.Repeat("0a", 32)).Replace(c[1])
		arguments, _, _ = strings.Cut(arguments, ">")
		if out, err := run(t, "", strings.Fields(arguments)...); err != nil || out == "" {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}
