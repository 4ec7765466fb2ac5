// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/cli/kubectleni"
)

// lease is held by a controller that renewed it some time ago.
func (c *cluster) lease(holder string, ago time.Duration) {
	c.t.Helper()
	renewed := metav1.NewMicroTime(time.Now().Add(-ago))
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "eni-controller-system", Name: "networking.k8s.aws"}}
	l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, &renewed
	must(c.t, c.Create(c.t.Context(), l))
}

// workload is a Deployment or DaemonSet of one container.
func workload(kind, namespace, name string, replicas int, container map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "apps/v1", "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{"replicas": replicas, "template": map[string]any{"spec": map[string]any{"containers": []any{container}}}},
	}
}

const awsNode = "/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node"

func vpcCNI(imdsOnly string) map[string]any {
	return workload("DaemonSet", "kube-system", "aws-node", 1, map[string]any{
		"name": "aws-node", "env": []any{map[string]any{"name": "ENABLE_IMDS_ONLY_MODE", "value": imdsOnly}},
	})
}

func TestDoctorOfAHealthyClusterFindsAllInOrder(t *testing.T) {
	c := readyCluster(t)
	c.lease("eni-controller-1", time.Second)
	c.answers[awsNode] = vpcCNI("false")
	withEC2(t)
	got := succeeds(t, "doctor")
	wants(t, got,
		"● definitions: the cluster has the definition of NodeENI, and 1 of them\n",
		"● controller: eni-controller-1 holds the lease\n",
		"● rights: the ServiceAccounts have no roles but multieni's\n",
		"● VPC CNI: ignores interfaces with multieni's tags\n",
		"● slots: m5.xlarge (1 node): the VPC CNI can have 3 of 4 interfaces, the primary one included: 4 less 1 that it does not manage\n",
		"● nodes: 2 of 2 can get interfaces\n",
		"● region: us-east-1, by the ",
		"actions that EC2 can try are granted; for 7 of them EC2 found no resource to check\n",
		"● quota: 6 network interfaces in us-east-1; AWS allows 5000 by default\n",
		"● clock: within ",
		"in order, 0 warnings, 0 failed\n",
	)
	var checks []struct{ Check, Grade, Found, Next string }
	must(t, json.Unmarshal([]byte(succeeds(t, "doctor", "-o", "json")), &checks))
	for _, check := range checks {
		if check.Grade != "ok" || check.Next != "" {
			t.Errorf("%+v, want ok and nothing to do", check)
		}
	}
	if lines := strings.Count(got, "● "); lines != len(checks) {
		t.Errorf("%d checks as text and %d as JSON", lines, len(checks))
	}
}

func TestDoctorSaysWhatIsMissingAndWhatToDo(t *testing.T) {
	cases := map[string]struct {
		prepare func(*cluster, *awssim.Simulator)
		args    []string
		want    []string
		fails   bool
	}{
		"no controller": {func(*cluster, *awssim.Simulator) {}, nil, []string{
			"◐ controller: no controller holds the lease in namespace eni-controller-system", "→ Start it: helm install",
		}, false},
		"a lease in another namespace": {func(*cluster, *awssim.Simulator) {}, []string{"--namespace", "network"}, []string{
			"no controller holds the lease in namespace network",
		}, false},
		"a stale lease": {func(c *cluster, _ *awssim.Simulator) { c.lease("eni-controller-1", time.Hour) }, nil, []string{
			"✗ controller: the lease has expired", "→ Start it: helm install",
		}, true},
		"a lease without holder": {func(c *cluster, _ *awssim.Simulator) { c.lease("", time.Second) }, nil, []string{
			"✗ controller: the lease has expired",
		}, true},
		"a lease that may not be read": {func(c *cluster, _ *awssim.Simulator) { c.denied = []string{"/leases/networking.k8s.aws"} }, nil, []string{
			"◐ controller: the lease cannot be read", "→ Ask for permission to read leases in eni-controller-system.",
		}, false},
		"a VPC CNI that sees no tags": {func(c *cluster, _ *awssim.Simulator) { c.answers[awsNode] = vpcCNI("True") }, nil, []string{
			"✗ VPC CNI: ENABLE_IMDS_ONLY_MODE is on", "→ kubectl set env -n kube-system daemonset/aws-node ENABLE_IMDS_ONLY_MODE=false",
		}, true},
		"a VPC CNI that may not be read": {func(c *cluster, _ *awssim.Simulator) { c.denied = []string{"/daemonsets/aws-node"} }, nil, []string{
			"◐ VPC CNI: its DaemonSet cannot be read", "→ Ask for permission to read DaemonSets in kube-system.",
		}, false},
		"a role that the controller does not need": {func(c *cluster, _ *awssim.Simulator) {
			c.answers["/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"] = list("rbac.authorization.k8s.io/v1", "ClusterRoleBindingList", map[string]any{
				"metadata": map[string]any{"name": "too-much"}, "roleRef": map[string]any{"kind": "ClusterRole", "name": "cluster-admin"},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "eni-controller-system", "name": "eni-controller"}},
			}, map[string]any{
				"metadata": map[string]any{"name": "enough"}, "roleRef": map[string]any{"kind": "ClusterRole", "name": "multieni-controller"},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "eni-controller-system", "name": "eni-controller"}},
			}, map[string]any{
				"metadata": map[string]any{"name": "another"}, "roleRef": map[string]any{"kind": "ClusterRole", "name": "cluster-admin"},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "default", "name": "eni-controller"}},
			})
		}, nil, []string{
			"◐ rights: ClusterRoleBinding too-much gives ClusterRole cluster-admin to ServiceAccount eni-controller-system/eni-controller, which does not need it",
			"→ kubectl delete clusterrolebinding too-much", "2 warnings, 0 failed",
		}, false},
		"a role of the agent in a namespace": {func(c *cluster, _ *awssim.Simulator) {
			c.answers["/apis/rbac.authorization.k8s.io/v1/rolebindings"] = list("rbac.authorization.k8s.io/v1", "RoleBindingList", map[string]any{
				"metadata": map[string]any{"namespace": "kube-system", "name": "secrets"}, "roleRef": map[string]any{"kind": "Role", "name": "secrets"},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "eni-manager-system", "name": "eni-manager"}},
			})
		}, nil, []string{"gives Role secrets to ServiceAccount eni-manager-system/eni-manager", "→ kubectl delete rolebinding -n kube-system secrets"}, false},
		"role bindings that may not be read": {func(c *cluster, _ *awssim.Simulator) { c.denied = []string{"/rolebindings"} }, nil, []string{
			"◐ rights: the role bindings cannot be read", "→ Ask for permission to list RoleBindings and ClusterRoleBindings.",
		}, false},
		"a node outside EC2": {func(c *cluster, _ *awssim.Simulator) { c.node("fargate", "", "", nil) }, nil, []string{
			"● nodes: 2 of 3 can get interfaces; fargate gets none: providerID \"aws:///",
		}, false},
		"a subnet in use": {func(c *cluster, _ *awssim.Simulator) { c.resolved("subnet-0f59b4f14737be9ad") }, nil, []string{
			"● subnet subnet-0f59b4f14737be9ad: 4091 addresses free in us-east-1a",
			"granted; for 5 of them EC2 found no resource to check", // the subnet is one
		}, false},
		"a VPC CNI with a lower MAX_ENI": {func(c *cluster, _ *awssim.Simulator) {
			c.answers[awsNode] = workload("DaemonSet", "kube-system", "aws-node", 1, map[string]any{
				"name": "aws-node", "env": []any{map[string]any{"name": "MAX_ENI", "value": "2"}},
			})
		}, nil, []string{
			"◐ slots: m5.xlarge (1 node): the VPC CNI can have 1 of 4 interfaces, the primary one included: MAX_ENI=2 less 1 that it does not manage; WARM_ENI_TARGET=1 asks for 2",
			"→ Remove MAX_ENI, or count the other interfaces in it: it reserves no slot for them. See docs/install.md#slots-next-to-the-vpc-cni.",
		}, false},
		"volumes that miss the attachments of interfaces": {func(c *cluster, _ *awssim.Simulator) { c.answers[csiNodes] = volumes(27) }, nil, []string{
			"◐ volumes: node-a1: the EBS CSI driver offers 27 volumes in addition to 1 interface; where both share 28 attachments, 1 volume would stay attaching",
			"→ Reserve attachments in the driver, or create the interfaces at launch: docs/install.md#volumes.",
		}, false},
		"volumes and interfaces": {func(c *cluster, _ *awssim.Simulator) { c.answers[csiNodes] = volumes(26) }, nil, []string{
			"● volumes: the EBS CSI driver counts volumes on 1 node, and leaves the interfaces their attachments",
		}, false},
		"volumes that may not be read": {func(c *cluster, _ *awssim.Simulator) { c.denied = []string{"/csinodes"} }, nil, []string{
			"◐ volumes: the volumes of the nodes are not known: list CSINodes: ", "→ Ask for permission to list CSINodes.",
		}, false},
		"denied actions": {func(_ *cluster, sim *awssim.Simulator) { deny(sim, "CreateNetworkInterface") }, nil, []string{
			"✗ permissions: 1 of ", "actions are denied: ec2:CreateNetworkInterface", "→ Give the role the policy of deploy/iam/controller.json.",
		}, true},
		"reads that are denied end the checks of EC2": {func(_ *cluster, sim *awssim.Simulator) { deny(sim, "DescribeSubnets") }, nil, []string{
			"✗ permissions: 1 of ", "ec2:DescribeSubnets",
		}, true},
		"instances with the tag": {func(*cluster, *awssim.Simulator) {}, []string{"--instance-tags", "kubernetes.io/cluster/example"}, []string{
			"● instance tags: all 2 instances have a tag that --instance-tags names",
		}, false},
		"instances without the tag": {func(*cluster, *awssim.Simulator) {}, []string{"--instance-tags", "kubernetes.io/cluster/other"}, []string{
			"✗ instance tags: 2 of 2 instances have no tag that --instance-tags names, and get no interfaces: node-a1 (i-0a10000000000000a), node-b1 (i-0a10000000000000b)",
		}, true},
		"definitions that may not be read": {func(c *cluster, _ *awssim.Simulator) { c.denied = []string{"/nodeenis"} }, nil, []string{
			"✗ definitions: list NodeENIs: ", "→ Check that the Kubernetes API answers", "0 in order, 0 warnings, 1 failed",
		}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := readyCluster(t)
			tc.prepare(c, withEC2(t))
			r := run(t, "", append([]string{"doctor"}, tc.args...)...)
			if failed := errors.Is(r.failure, kubectleni.ErrFailed); failed != tc.fails || !failed && r.failure != nil {
				t.Errorf("failure: %v, want a failed check: %t", r.failure, tc.fails)
			}
			wants(t, r.out, tc.want...)
			if isBlind := strings.Contains(name, "end the checks"); isBlind && strings.Contains(r.out, "quota") {
				t.Errorf("EC2 is counted without permission to read:\n%s", r.out)
			}
		})
	}
}

// A cluster can have thousands of nodes. No check calls EC2 for each of them, and nodes alike are one line.
func TestDoctorMakesAsManyCallsForThousandsOfNodes(t *testing.T) {
	c := readyCluster(t)
	c.answers[csiNodes] = volumes(28)
	calls := func() (map[string]int, string) {
		sim := withEC2(t)
		found := succeeds(t, "doctor")
		counts := map[string]int{}
		for action, made := range sim.Calls().Actions {
			counts[action] = made.Count
		}
		return counts, found
	}
	few, _ := calls()
	var names []string
	for n := range 5000 {
		name := fmt.Sprintf("node-c%04d", n)
		c.node(name, "us-east-1a", fmt.Sprintf("i-%017x", n), map[string]string{"ng": "multi-eni"})
		names = append(names, name)
	}
	c.answers[csiNodes] = volumes(27, names...)
	many, found := calls()
	if diff := cmp.Diff(few, many); diff != "" {
		t.Errorf("calls to EC2 (-few +many nodes):\n%s", diff)
	}
	wants(t, found, "◐ volumes: node-a1: the EBS CSI driver offers 27 volumes in addition to 1 interface")
}

// TestDoctorSaysOnceThatEC2DoesNotAnswer has no server at the endpoint. No check can follow, not even that of the clock.
func TestDoctorSaysOnceThatEC2DoesNotAnswer(t *testing.T) {
	readyCluster(t)
	withEC2(t)
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
	r := run(t, "", "doctor")
	if !errors.Is(r.failure, kubectleni.ErrFailed) {
		t.Errorf("failure: %v, want a failed check", r.failure)
	}
	wants(t, r.out, "✗ AWS: DescribeInstances: no answer from EC2: ", "→ Check the credentials, the region and the way to EC2 from here")
	if strings.Count(r.out, "no answer from EC2") != 1 || strings.Contains(r.out, "clock") {
		t.Errorf("the answer is missing more than once, or a check follows:\n%s", r.out)
	}
}

func deny(sim *awssim.Simulator, action string) {
	if _, err := sim.AddFault(fault.Fault{Kind: fault.Error, Action: action, Code: "UnauthorizedOperation", Status: 403}); err != nil {
		panic(err)
	}
}

// resolved sets the subnets in the status of NodeENI multus.
func (c *cluster) resolved(ids ...string) {
	c.t.Helper()
	var n v1alpha1.NodeENI
	must(c.t, c.Get(c.t.Context(), client.ObjectKey{Name: "multus"}, &n))
	for _, id := range ids {
		n.Status.Subnets = append(n.Status.Subnets, v1alpha1.ResolvedSubnet{ID: id, Zone: "us-east-1a"})
	}
	c.write(&n)
}

// legacy is an unattached interface that the other controller made for NodeENI multus.
func legacy(id string) ec2.WorldInterface {
	return ec2.WorldInterface{NetworkInterfaceID: id, SubnetID: "subnet-0f59b4f14737be9ad", Tags: ec2.Tags{
		"kubernetes.io/cluster/managed-by": "nodeeni-controller", "NodeENI": "multus",
	}}
}

const (
	otherFinalizer  = "nodeeni.networking.k8s.aws/finalizer"
	otherAnnotation = "aws-multi-eni-controller/cleanup-start-time"
	deployments     = "/apis/apps/v1/deployments"
)

// importable has NodeENI multus with the marks of the other controller.
func importable(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.node("node-a1", "us-east-1a", "i-0a10000000000000a", map[string]string{"ng": "multi-eni"})
	n := multus()
	n.Finalizers, n.Annotations = []string{otherFinalizer}, map[string]string{otherAnnotation: "1", "kept": "yes"}
	c.put(n)
	return c
}

func TestImportTakesOverWhenItIsToldTo(t *testing.T) {
	running := workload("Deployment", "eni-controller-system", "eni-controller", 1, map[string]any{"name": "c", "image": "example.com/aws-multi-eni-controller:v1"})
	stopped := workload("Deployment", "eni-controller-system", "eni-controller", 0, map[string]any{"name": "c", "image": "example.com/aws-multi-eni-controller:v1"})
	cases := map[string]struct {
		args       []string
		answer     string
		deployment map[string]any
		fails      string
		imported   bool
	}{
		"a dry run changes nothing":        {args: []string{"--dry-run"}, deployment: stopped},
		"no changes nothing":               {answer: "n\n", deployment: stopped, fails: "nothing was done"},
		"no answer changes nothing":        {deployment: stopped, fails: "read the answer"},
		"yes takes over":                   {answer: "y\n", deployment: stopped, imported: true},
		"--yes takes over without a word":  {args: []string{"--yes"}, deployment: stopped, imported: true},
		"the other controller still runs":  {args: []string{"--yes"}, deployment: running, fails: "kubectl scale -n eni-controller-system deployment/eni-controller --replicas=0"},
		"the other controller's functions": {args: []string{"--yes", "--from", "multus-function"}, deployment: running},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := importable(t)
			c.answers[deployments] = list("apps/v1", "DeploymentList", tc.deployment)
			withEC2(t, legacy(oldLeak))
			r := run(t, tc.answer, append([]string{"import"}, tc.args...)...)
			if (r.failure != nil) != (tc.fails != "") {
				t.Fatalf("failure: %v, want %q", r.failure, tc.fails)
			}
			if r.failure != nil {
				wants(t, r.failure.Error(), tc.fails)
			}
			var n v1alpha1.NodeENI
			must(t, c.Get(t.Context(), client.ObjectKey{Name: "multus"}, &n))
			_, marked := n.Annotations[otherAnnotation]
			if gone := len(n.Finalizers) == 0 && !marked; gone != tc.imported {
				t.Errorf("finalizers %v, annotations %v, want the marks gone: %t", n.Finalizers, n.Annotations, tc.imported)
			}
			if n.Annotations["kept"] != "yes" {
				t.Errorf("an annotation of the user is gone: %v", n.Annotations)
			}
		})
	}
}

func TestImportSaysWhatItLeaves(t *testing.T) {
	importable(t)
	withEC2(t, legacy(oldLeak), foreign())
	got := succeeds(t, "import", "--dry-run")
	wants(t, got, "· "+oldLeak+" is left as it is: ", "· NodeENI multus loses the other controller's finalizer and annotation",
		"0 interfaces to adopt, 1 left as they are, 1 NodeENI to tidy.")
	if strings.Contains(got, stranger) {
		t.Errorf("an interface without the other controller's tags is listed:\n%s", got)
	}
}
