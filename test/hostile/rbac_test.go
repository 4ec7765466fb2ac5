// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/dev/child"
)

// Where the manifests put the controller.
const (
	namespace = "eni-controller-system"
	account   = "system:serviceaccount:" + namespace + ":eni-controller"
)

// TestPermissions runs the controller as the service account of the manifests through a whole life: it may do all it
// needs, and needs all it may do. The manifests are also what the API server accepts.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.kubectl("apply", "-f", "config/rbac/namespace.yaml")
	s.kubectl("apply", "-f", "config/rbac")
	s.kubectl("apply", "--dry-run=server", "-f", "deploy/deployment.yaml")

	r := s.runAs(account, "--leader-elect", "--leader-election-namespace="+namespace)
	s.apply(both())
	s.label(names("node", 0, 4)...)
	s.holds(afterwards, wanted(names("node", 0, 4)))
	s.reports(afterwards, "both", 8)
	s.unlabel(nodeName("node", 0))
	s.holds(afterwards, wanted(names("node", 1, 4)))
	s.must(s.kube.Delete(t.Context(), &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "both"}}))
	s.holds(afterwards, nil)
	s.eventually(afterwards, "all objects of the controller are gone", func() string {
		var nodeENIs v1alpha1.NodeENIList
		var states v1alpha1.NodeENIStateList
		s.must(s.kube.List(t.Context(), &nodeENIs))
		s.must(s.kube.List(t.Context(), &states))
		if len(nodeENIs.Items)+len(states.Items) > 0 {
			return "some are left"
		}
		return ""
	})
	s.must(r.Stop())

	log, err := os.ReadFile(r.log)
	s.must(err)
	for line := range strings.Lines(string(log)) {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("the controller was refused something: %s", line)
		}
	}
	asked := s.gate.asked()
	for _, p := range s.grants() {
		if !asked[p] && !unprovoked[p] {
			t.Errorf("the controller may %s %s.%s, and never did", p.verb, p.resource, p.group)
		}
	}
}

// unprovoked are permissions for what this life does not bring about: the same event again within minutes becomes one
// that counts, API servers that do not stream a first list are asked for it, and there is no AWSNodeTemplate that would be
// published and told of on its Nodes.
var unprovoked = map[permission]bool{
	{"patch", "events.k8s.io", "events"}:            true,
	{"list", "", "nodes"}:                           true,
	{"list", "networking.k8s.aws", "nodeenis"}:      true,
	{"list", "networking.k8s.aws", "nodeenistates"}: true,

	{"get", "networking.k8s.aws", "awsnodetemplates"}:          true,
	{"list", "networking.k8s.aws", "awsnodetemplates"}:         true,
	{"patch", "networking.k8s.aws", "awsnodetemplates"}:        true,
	{"patch", "networking.k8s.aws", "awsnodetemplates/status"}: true,
	{"patch", "", "nodes"}:                                     true,
	{"patch", "", "nodes/status"}:                              true,
}

// grants returns what the manifests grant the controller.
func (s *stage) grants() []permission {
	s.Helper()
	var clusterRole rbacv1.ClusterRole
	s.must(s.kube.Get(s.Context(), client.ObjectKey{Name: "multieni-controller"}, &clusterRole))
	var role rbacv1.Role
	s.must(s.kube.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: "multieni-leader-election"}, &role))
	return append(granted(clusterRole.Rules), granted(role.Rules)...)
}

// kubectl runs the cluster's kubectl, as its administrator, in the checkout.
func (s *stage) kubectl(args ...string) {
	s.Helper()
	root, err := child.Root()
	s.must(err)
	command := exec.CommandContext(s.Context(), s.Kubectl, args...)
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "KUBECACHEDIR="+filepath.Join(s.TempDir(), "kubectl"))
	if output, err := command.CombinedOutput(); err != nil {
		s.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}
