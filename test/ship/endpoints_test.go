// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/test/inputs"
)

// kinds are the variants of endpoints: the environment that selects each, and how it changes a host of the table.
var kinds = map[string]struct {
	env  []string
	host func(string) string
}{
	"standard": {nil, func(host string) string { return host }},
	"FIPS": {[]string{"AWS_USE_FIPS_ENDPOINT=true"}, func(host string) string {
		return strings.Replace(host, ".", "-fips.", 1)
	}},
	"dual stack": {[]string{"AWS_USE_DUALSTACK_ENDPOINT=true"}, func(host string) string {
		return strings.Replace(host, ".amazonaws.com", ".api.aws", 1)
	}},
	"FIPS and dual stack": {[]string{"AWS_USE_FIPS_ENDPOINT=true", "AWS_USE_DUALSTACK_ENDPOINT=true"}, func(host string) string {
		return strings.Replace(strings.Replace(host, ".", "-fips.", 1), ".amazonaws.com", ".api.aws", 1)
	}},
}

// TestEndpoints runs the features of docs/private-clusters.md behind a proxy that connects to the hosts of their rows
// only. Each must reach all of its hosts, and no other one.
func TestEndpoints(t *testing.T) {
	programs := map[string]string{}
	for _, name := range []string{"multieni", "eni-bootstrap"} {
		programs[name] = filepath.Join(t.TempDir(), name)
		if err := inputs.Build(t.Context(), programs[name], "github.com/multieni/multieni/cmd/"+name); err != nil {
			t.Fatal(err)
		}
	}
	rows := endpointRows(t)
	networks := []string{
		"--parameter=ClusterName=c", "--parameter=MultusSubnets=subnet-00000000000000000", "--parameter=MultusSecurityGroupIds=sg-05da196f3314d4af8",
	}
	for _, c := range []struct {
		name, program string
		arguments     []string
		rows          []string
		roles         bool // by IAM roles for service accounts
	}{
		{"the controller", "multieni", controllerArguments, []string{"controller, and the Job of an uninstallation"}, false},
		{
			"the controller with AWSNodeTemplates", "multieni", controllerArguments,
			[]string{"controller, and the Job of an uninstallation", "AWSNodeTemplates, in addition"}, false,
		},
		{
			"the controller with a role for its service account", "multieni", controllerArguments,
			[]string{"controller, and the Job of an uninstallation", "IAM roles for service accounts, in addition"}, true,
		},
		{
			"the hook", "multieni", append([]string{"lifecycle-hook", "--queue-url=QUEUE", "--tick=1s", "--metrics-bind-address=0"}, hookParameters...),
			[]string{"`multieni lifecycle-hook` with a queue"}, false,
		},
		{"a node", "eni-bootstrap", append(networks, "--state-dir=DIR"), []string{"`eni-bootstrap`"}, false},
		{
			"a node with a parameter in SSM", "eni-bootstrap", []string{"--ssm-parameter=/multus/networks", "--state-dir=DIR"},
			[]string{"`eni-bootstrap`", "`eni-bootstrap --ssm-parameter`, in addition"}, false,
		},
		{"kubectl eni", "multieni", []string{"leaks"}, []string{"`kubectl eni`, for the commands that read EC2"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for kind, k := range kinds {
				t.Run(kind, func(t *testing.T) {
					var want []string
					for _, row := range c.rows {
						if rows[row] == nil {
							t.Fatalf("docs/private-clusters.md has no row %q", row)
						}
						for _, host := range rows[row] {
							want = append(want, k.host(host))
						}
					}
					proxy := newProxy(t, want, simulatedAccount(t))
					env := append(proxy.env(t), k.env...)
					if c.roles {
						env = append(env, roleEnvironment(t)...)
					}
					p := start(t, programs[c.program], c.arguments, env)
					if slices.Contains(c.rows, "AWSNodeTemplates, in addition") {
						publishAndDelete(t)
					}
					proxy.waitFor(t, want, p)
					if refused := proxy.refused(); len(refused) > 0 {
						t.Errorf("it asks for %v, and the table has %v", refused, want)
					}
				})
			}
		})
	}
}

// controllerArguments run a controller once, for its calls to AWS.
var controllerArguments = []string{
	"controller", "--leader-elect=false", "--leader-election-namespace=default", "--cluster-name=endpoints", "--metrics-bind-address=0",
	"--health-probe-bind-address=0", "--poll-interval=20ms",
}

var hookParameters = []string{
	"--parameter=ClusterName=c", "--parameter=MultusSubnetsAz1=subnet-0f59b4f14737be9ad", "--parameter=MultusSecurityGroupIds=sg-05da196f3314d4af8",
	"--parameter=LifecycleHooks=multus", "--parameter=EksNodeGroupTagKey=multus-ng",
}

// endpointRows returns the hosts of the table of endpoints in us-east-1, by the feature.
func endpointRows(t *testing.T) map[string][]string {
	t.Helper()
	_, section, _ := strings.Cut(read(t, "docs/private-clusters.md"), "## Endpoints")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.+) \| (.+) \|$`).FindAllStringSubmatch(section, -1) {
		for _, host := range regexp.MustCompile("`([a-z0-9.-]+\\.REGION\\.[a-z.]+)`").FindAllStringSubmatch(row[2], -1) {
			rows[row[1]] = append(rows[row[1]], strings.Replace(host[1], "REGION", "us-east-1", 1))
		}
	}
	return rows
}

// simulatedAccount serves a simulated AWS with a queue, and returns its address.
func simulatedAccount(t *testing.T) string {
	t.Helper()
	world := awssim.ExampleWorld()
	world.Queues = []sqs.WorldQueue{{QueueName: "events"}}
	world.Instances[0].Tags = ec2.Tags{"multus-ng": "yes", "aws:autoscaling:groupName": "upf"}
	world.Parameters["/multus/networks"] = "cluster: c\nnetworks: [{name: n3, deviceIndex: 1, subnetIDs: [subnet-00000000000000000], " +
		"securityGroupIDs: [sg-05da196f3314d4af8]}]\n"
	sim, err := awssim.New(awssim.Options{World: world, Clock: awssim.ScaledClock(speed), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	server, err := awssim.Listen(context.WithoutCancel(t.Context()), "127.0.0.1:0", sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server.URL()
}

// publishAndDelete declares an AWSNodeTemplate, and deletes it once it has a launch template: the controller then reads
// which groups launch from it.
func publishAndDelete(t *testing.T) {
	t.Helper()
	kubectl(t, "apply", "-f", "examples/launch-single.yaml")
	kubectl(t, "wait", "awsnodetemplate/single", "--for=jsonpath={.status.launchTemplates[0].id}", "--timeout=60s")
	kubectl(t, "delete", "awsnodetemplate", "single", "--timeout=60s")
}

// start starts a program, and ends it with the test.
func start(t *testing.T, program string, arguments, env []string) *child.Process {
	t.Helper()
	dir := t.TempDir()
	arguments = slices.Clone(arguments)
	for i := range arguments {
		arguments[i] = strings.NewReplacer("DIR", dir, "QUEUE", "https://sqs.us-east-1.amazonaws.com/123456789012/events").Replace(arguments[i])
	}
	log := filepath.Join(dir, "run.log")
	p, err := child.Start(child.Options{Program: program, Args: arguments, Env: append(env, "KUBECONFIG="+shared.Kubeconfig), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		if t.Failed() {
			content, _ := os.ReadFile(log)
			t.Logf("%s\n%s", strings.Join(arguments, " "), content[max(0, len(content)-3000):])
		}
	})
	return p
}

// roleEnvironment is what EKS gives a pod whose service account has an IAM role.
func roleEnvironment(t *testing.T) []string {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_WEB_IDENTITY_TOKEN_FILE=" + token, "AWS_ROLE_ARN=arn:aws:iam::123456789012:role/multieni",
	}
}

// waitFor waits until the proxy connected to all hosts, or the program has ended.
func (p *proxy) waitFor(t *testing.T, hosts []string, program *child.Process) {
	t.Helper()
	hosts = slices.Sorted(slices.Values(hosts))
	_ = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		select {
		case <-program.Exited():
			return true, nil
		default:
			return slices.Equal(p.connected(), hosts), nil
		}
	})
	if diff := cmp.Diff(hosts, p.connected()); diff != "" {
		t.Errorf("hosts that it reached (-want +got):\n%s", diff)
	}
}
