// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/internal/dev/cluster/clustertest"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, func(c *cluster.Cluster) { shared = c }))
}

func example() *awssim.Options {
	return &awssim.Options{World: awssim.ExampleWorld(), Clock: awssim.ScaledClock(50)}
}

// kubectl runs the cluster's kubectl with the cluster's environment.
func kubectl(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.Kubectl, args...)
	command.Env = append(os.Environ(), c.Env()...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// nodes returns the nodes by provider ID.
func nodes(t *testing.T, c *cluster.Cluster) map[string]corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := json.Unmarshal([]byte(kubectl(t, c, "get", "nodes", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	byProvider := map[string]corev1.Node{}
	for _, node := range list.Items {
		byProvider[node.Spec.ProviderID] = node
	}
	return byProvider
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// providerID of the first instance of the world.
func firstInstance(c *cluster.Cluster) (id, providerID string) {
	instance := c.Simulator.State().Instances[0]
	return instance.InstanceID, "aws:///" + instance.Placement.AvailabilityZone + "/" + instance.InstanceID
}

func TestNodesFollowInstances(t *testing.T) {
	c := clustertest.Join(t, shared, cluster.Options{AWS: example()})
	id, providerID := firstInstance(c)
	if got, want := len(nodes(t, c)), len(c.Simulator.State().Instances); got != want || want == 0 {
		t.Fatalf("after the start there are %d nodes for %d instances", got, want)
	}
	name := nodes(t, c)[providerID].Name
	kubectl(t, c, "label", "node", name, "multi-eni=enabled", "kubernetes.io/os-")

	ready := func() string {
		return kubectl(t, c, "get", "node", name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	}
	if got := ready(); got != "True" {
		t.Errorf("Ready is %s while the instance runs", got)
	}
	must(t, c.Simulator.Stop(id))
	eventually(t, "node of a stopped instance is not ready", func() bool { return ready() == "Unknown" })
	eventually(t, "instance is stopped", func() bool { return c.Simulator.State().Instances[0].State.Name == "stopped" })
	must(t, c.Simulator.Start(id))
	eventually(t, "node of a started instance is ready", func() bool { return ready() == "True" })

	labels := nodes(t, c)[providerID].Labels
	if _, back := labels["kubernetes.io/os"]; labels["multi-eni"] != "enabled" || back {
		t.Errorf("the user's labels were changed: %v", labels)
	}
	must(t, c.Simulator.Terminate(id))
	eventually(t, "node of a terminated instance is gone", func() bool {
		_, there := nodes(t, c)[providerID]
		return !there
	})
}

func TestStopLeavesAnExistingClusterAsItWas(t *testing.T) {
	kubectl(t, shared, "create", "-f", manifest(t, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"own"}}`))
	t.Cleanup(func() {
		command := exec.CommandContext(context.Background(), shared.Kubectl, "--kubeconfig", shared.Kubeconfig, "delete", "node", "own")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Kubeconfig: shared.Kubeconfig, AWS: example()})
	must(t, err)
	must(t, c.Stop())
	if got, want := kubectl(t, shared, "get", "nodes", "-o", "name"), "node/own"; got != want {
		t.Errorf("nodes are %s, want %s", got, want)
	}
	kubectl(t, shared, "get", "nodeenis") // still a kind
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func manifest(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "manifest.json")
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// The unmodified SDK finds the simulator with the environment alone.
func TestEnvLeadsTheSDKToTheSimulator(t *testing.T) {
	c := clustertest.Join(t, shared, cluster.Options{AWS: example()})
	for _, variable := range c.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	settings, err := config.LoadDefaultConfig(t.Context())
	must(t, err)
	seen, err := ec2.NewFromConfig(settings).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	must(t, err)
	if len(seen.Reservations) == 0 {
		t.Error("the SDK sees no instances")
	}
}

// A user who starts everything has a usable folder, and only logs after the end.
func TestStartAndStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's new")
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, AWS: example()})
	must(t, err)
	script := `. "$1"/env && kubectl get nodes -o name | wc -l && echo $AWS_REGION $AWS_ENDPOINT_URL`
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", dir).CombinedOutput()
	if want := "6\nus-east-1 " + c.Endpoint + "\n"; err != nil || string(out) != want {
		t.Errorf("env file gives %q, %v; want %q", out, err, want)
	}
	api, err := url.Parse(c.Config.Host)
	must(t, err)
	must(t, c.Stop())
	must(t, c.Stop()) // a second call does nothing

	for _, address := range []string{api.Host, strings.TrimPrefix(c.Endpoint, "http://")} {
		if connection, err := net.Dial("tcp", address); err == nil {
			t.Errorf("something still listens at %s", address)
			connection.Close()
		}
	}
	if diff := cmp.Diff([]string{"etcd.log", "kube-apiserver.log"}, names(t, dir)); diff != "" {
		t.Errorf("left in the folder (-want +got):\n%s", diff)
	}
}

func TestStartThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := cluster.Start(t.Context(), cluster.Options{
		Dir: dir, Kubeconfig: filepath.Join(dir, "nowhere"), AWS: example(),
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want one of the missing kubeconfig", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left in the folder: %v", left)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
