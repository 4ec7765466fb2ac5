// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// node and other are nodes of the example world; the first is in the zone of the example's subnet.
const node, other = "node-a1", "node-b1"

// install installs the chart as a user does, with all its policies and definitions.
func (s *site) install() string {
	out, err := s.helm("install", "multieni", chart, "--set", "awsRegion=us-east-1,pods.enabled=true,reserveNodeKeys=true")
	if err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	if got := s.mustKubectl("get", "crd", "-o", "name"); strings.Count(got, ".networking.k8s.aws") != 5 {
		s.Errorf("the definitions are %s", got)
	}
	if got := s.mustKubectl("get", "validatingadmissionpolicy", "-o", "name"); strings.Count(got, "multieni") != 2 {
		s.Errorf("the policies are %s", got)
	}
	return "yes"
}

// firstInterface applies the first example and labels a node, as the README says.
func (s *site) firstInterface() string {
	controller := s.runController()
	s.Cleanup(func() {
		if err := controller.Stop(); err != nil {
			s.Errorf("the controller ended badly: %v", err)
		}
		if s.Failed() {
			log, err := os.ReadFile(filepath.Join(s.dir, "controller.log"))
			s.Logf("%s, %v", log, err)
		}
	})
	s.mustKubectl("apply", "-f", "examples/single-subnet.yaml")
	s.mustKubectl("label", "node", node, "ng=multi-eni")
	// A NodeENI without nodes is ready, so the first one is not enough.
	for _, so := range []string{"jsonpath={.status.ready}=1", "condition=Ready"} {
		s.mustKubectl("wait", "nodeeni/multus-eni-config", "--for="+so, "--timeout="+patience.String())
	}
	id := s.mustKubectl("get", "nodeeni", "multus-eni-config", "-o", "jsonpath={.status.attachments[0].eniID}")
	for _, i := range s.Simulator.State().NetworkInterfaces {
		if i.NetworkInterfaceID == id && i.Attachment != nil && i.Attachment.Status == "attached" {
			return "ready"
		}
	}
	s.Errorf("the NodeENI is ready, and EC2 has not attached %q", id)
	return "no"
}

func (s *site) columns() string {
	got := strings.Fields(s.mustKubectl("get", "nodeenis"))
	want := strings.Fields("NAME READY DESIRED ATTACHED NODES AGE multus-eni-config True 1 1 1")
	if len(got) < len(want) || strings.Join(got[:len(want)], " ") != strings.Join(want, " ") {
		s.Errorf("kubectl get nodeenis says %q, want %q and the age", got, want)
	}
	if got := s.mustKubectl("get", "eni"); !strings.Contains(got, "True") || !strings.Contains(got, node) {
		s.Errorf("kubectl get eni says\n%s", got)
	}
	return "yes"
}

// nodeENI is a NodeENI for no node, with further fields.
func nodeENI(name, fields string) string {
	return fmt.Sprintf("{apiVersion: networking.k8s.aws/v1alpha1, kind: NodeENI, metadata: {name: %s}, spec: {nodeSelector: {ng: none}, "+
		"subnetID: subnet-0f59b4f14737be9ad, securityGroupIDs: [sg-05da196f3314d4af8], %s}}", name, fields)
}

// wrongNodeENIs applies NodeENIs that a rule refuses: one of fields, one of a schema, and one with the CEL functions of
// addresses.
func (s *site) wrongNodeENIs() string {
	for name, wrong := range map[string]struct{ fields, names string }{
		"two exclusive fields":       {"subnetName: blue", "subnetName"},
		"prefixes and addresses":     {"ipv4PrefixCount: 1, secondaryPrivateIPAddressCount: 1", "ipv4PrefixCount"},
		"a field that there is not":  {"subnetIds: []", "subnetIds"},
		"a device index of the node": {"deviceIndex: 0", "deviceIndex"},
		"a route to no CIDR":         {"pods: {attachment: IPVLAN, ipv4: {}, routes: [{to: nowhere}]}", "routes"},
	} {
		s.Run(name, func(t *testing.T) {
			out, err := s.at(t).apply(nodeENI("wrong", wrong.fields))
			if err == nil || !strings.Contains(out, wrong.names) {
				t.Errorf("%v: %s; want a refusal that names %s", err, out, wrong.names)
			}
		})
	}
	return "refused"
}

// otherAgents writes with the tokens of agents' pods. There is no kubelet to run them, and their nodes are in the
// tokens.
func (s *site) otherAgents() string {
	for _, name := range []string{node, other} {
		out, err := s.apply(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: agent-%[1]s, namespace: eni-manager-system}, "+
			"spec: {nodeName: %[1]s, serviceAccountName: eni-manager, containers: [{name: agent, image: multieni}]}}", name))
		if err != nil {
			s.Fatalf("%v\n%s", err, out)
		}
	}
	report := func(agent string) error {
		config, err := clientcmd.BuildConfigFromFlags("", s.as("eni-manager-system", "eni-manager", "agent-"+agent))
		s.must(err)
		agents, err := client.New(config, client.Options{}) // kubectl would read the Node first, which agents may not
		s.must(err)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"capacity":{"addresses.networking.k8s.aws/net-web":"31"}}}`))
		return agents.Status().Patch(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch)
	}
	s.eventually("the agent of another node is refused", func() (string, bool) {
		err := report(other)
		return fmt.Sprint(err), err != nil && strings.Contains(err.Error(), "the agent of node "+other+" may write to its own node only")
	})
	if err := report(node); err != nil {
		s.Errorf("the agent of the node itself: %v", err)
	}
	return "refused"
}

// kubelets pauses a node as its kubelet does, which the policy of reserveNodeKeys refuses.
func (s *site) kubelets() string {
	s.mustKubectl("create", "clusterrolebinding", "kubelets", "--clusterrole=system:node", "--group=system:nodes")
	s.eventually("a kubelet is refused", func() (string, bool) {
		out, err := s.kubectl("patch", "node", node, "--type=merge", "--as=system:node:"+node, "--as-group=system:nodes",
			"-p", `{"metadata":{"annotations":{"networking.k8s.aws/paused":"yes"}}}`)
		return out, err != nil && strings.Contains(out, "ValidatingAdmissionPolicy 'multieni-kubelet'")
	})
	return "refused"
}

// requestAddresses upgrades to pods.requestAddresses. Where the API server has the kind for it, a new pod requests an
// address; elsewhere, helm says so and changes nothing.
func (s *site) requestAddresses() string {
	out, err := s.helm("upgrade", "multieni", chart, "--reuse-values", "--set", "pods.requestAddresses=true")
	if err != nil {
		if want := "which Kubernetes serves from 1.36 on. This is " + s.release.Version; !strings.Contains(out, want) {
			s.Errorf("helm says\n%s\nwant %q", out, want)
		}
		return "needs 1.36"
	}
	if out, err := s.apply(nodeENI("multus", "pods: {ipv4: {}, namespaces: [default]}")); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	s.mustKubectl("create", "serviceaccount", "default")
	s.eventually("a pod requests an address", func() (string, bool) {
		out, err := s.apply("{apiVersion: v1, kind: Pod, metadata: {name: pod, annotations: {k8s.v1.cni.cncf.io/networks: multus}}, "+
			"spec: {containers: [{name: c, image: i}]}}", "--dry-run=server", "-o", "yaml")
		return out, err == nil && strings.Contains(out, "addresses.networking.k8s.aws/multus: \"1\"")
	})
	return "yes"
}
