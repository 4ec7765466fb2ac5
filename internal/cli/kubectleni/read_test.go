// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
)

func TestTopologyAndWhyOfAReadyCluster(t *testing.T) {
	readyCluster(t)
	cases := map[string]struct {
		args []string
		want string
	}{
		"why": {[]string{"why"}, "● 2 nodes, 1 with interfaces, 1 of these ready.\n"},
		"why of the interface": {[]string{"why", nameOfMultus}, `NetworkInterface ` + nameOfMultus + `
● It is as declared: eni-00000000000000001 at card 0 device 2 of node node-a1.
  Its link is ens7, ready.
`},
		"topology": {[]string{"topology"}, `us-east-1a
  node-a1 (m5.xlarge)
    ●   card 0 device 2   multus   subnet-0f59b4f14737be9ad   attached
`},
		"why of the NodeENI": {[]string{"why", "multus"}, `NodeENI multus
● All is as declared: 1 interface on 1 node attached.
`},
		"why of its node": {[]string{"why", "node-a1"}, `Node node-a1
● All is as declared: 1 interface attached.
`},
		"why of another node": {[]string{"why", "no/node-b1"}, `Node node-b1
· No NodeENI selects this node, so it gets no interfaces.
  NodeENI multus selects nodes with ng=multi-eni: label ng is "other" and not "multi-eni".
`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, succeeds(t, tc.args...)); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEmptyClusterSaysWhatToDeclare(t *testing.T) {
	newCluster(t)
	wants(t, succeeds(t, "why"), "No NodeENI is declared, and none of 0 nodes has interfaces of one.", "kubectl eni plan -f FILE")
	wants(t, succeeds(t, "topology"), "No node has interfaces of a NodeENI.")
}

// Without a terminal, the output has no colours, and no edge unless COLUMNS is set.
func TestThePageOfAPipe(t *testing.T) {
	readyCluster(t)
	if got := succeeds(t, "why"); strings.Contains(got, "\x1b") {
		t.Errorf("colours in a pipe: %q", got)
	}
	cases := map[string]struct {
		columns string
		widest  int
	}{
		"narrow":            {"30", 30},
		"an edge of 20":     {"20", 20},
		"not a number":      {"wide", 90},
		"a negative number": {"-5", 90},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("COLUMNS", tc.columns)
			widest := 0
			for line := range strings.Lines(succeeds(t, "why", "node-b1")) {
				widest = max(widest, len([]rune(strings.TrimSuffix(line, "\n"))))
			}
			if widest > tc.widest || widest < tc.widest*3/5 {
				t.Errorf("the widest line has %d columns, want up to %d", widest, tc.widest)
			}
		})
	}
}

func TestEveryFormatHoldsTheSame(t *testing.T) {
	readyCluster(t)
	for _, args := range [][]string{{"why"}, {"topology"}, {"why", "multus"}, {"why", nameOfMultus}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var fromJSON, fromYAML any
			must(t, json.Unmarshal([]byte(succeeds(t, append(args, "-o", "json")...)), &fromJSON))
			must(t, yaml.Unmarshal([]byte(succeeds(t, append(args, "-o", "yaml")...)), &fromYAML))
			if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
				t.Errorf("YAML differs from JSON:\n%s", diff)
			}
			if _, isObject := fromJSON.(map[string]any); !isObject {
				t.Errorf("got %T, want an object", fromJSON)
			}
		})
	}
	drawing := xml.NewDecoder(strings.NewReader(succeeds(t, "topology", "-o", "svg")))
	for {
		_, err := drawing.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
	}
}

func TestWhyInJSONIsForPrograms(t *testing.T) {
	readyCluster(t)
	var got struct {
		Interfaces, Attached int
		Nodes                struct{ All, Concerned, Ready int }
		Troubles             []any
	}
	must(t, json.Unmarshal([]byte(succeeds(t, "why", "-o", "json")), &got))
	if got.Interfaces != 1 || got.Attached != 1 {
		t.Errorf("interfaces: %+v", got)
	}
	if got.Nodes.All != 2 || got.Nodes.Concerned != 1 || got.Nodes.Ready != 1 {
		t.Errorf("nodes: %+v", got.Nodes)
	}
	if got.Troubles == nil || len(got.Troubles) != 0 {
		t.Errorf("troubles: %v, want an empty list", got.Troubles)
	}
}

func TestRefusedArguments(t *testing.T) {
	readyCluster(t)
	cases := map[string]struct {
		args []string
		want []string
	}{
		"a format that why does not have":  {[]string{"why", "-o", "svg"}, []string{"-o svg is not supported; it can be wide, json, yaml"}},
		"a format that topology does have": {[]string{"topology", "-o", "xml"}, []string{"-o xml", "svg, wide, json, yaml"}},
		"why of two":                       {[]string{"why", "a", "b"}, []string{"accepts at most 1 arg"}},
		"topology of one thing":            {[]string{"topology", "multus"}, []string{"unknown command", "multus"}},
		"why of an unknown name":           {[]string{"why", "nobody"}, []string{"nothing is named nobody; see kubectl get nodeenis,nodes,networkinterfaces"}},
		"why of another kind":              {[]string{"why", "pod/multus"}, []string{"pod/multus is neither a NodeENI nor a node nor a NetworkInterface", "nodeeni/NAME, node/NAME or eni/NAME"}},
		"why of a NodeENI as a node":       {[]string{"why", "node/multus"}, []string{"nothing is named node/multus"}},
		"why of a NodeENI as an interface": {[]string{"why", "eni/multus"}, []string{"nothing is named eni/multus"}},
		"why of a node as a NodeENI":       {[]string{"why", "nodeeni/node-a1"}, []string{"nothing is named nodeeni/node-a1"}},
		"an unknown node":                  {[]string{"node", "node-z9"}, []string{"there is no node node-z9", "see kubectl get nodes"}},
		"node of nothing":                  {[]string{"node"}, []string{"specify one name: eni node NAME"}},
		"plan of no file":                  {[]string{"plan"}, []string{"specify the NodeENIs with -f FILE, or -f - for standard input"}},
		"plan of a missing file":           {[]string{"plan", "-f", "/does/not/exist.yaml"}, []string{"/does/not/exist.yaml", "no such file"}},
		"import from another program":      {[]string{"import", "--from", "terraform"}, []string{"--from=terraform: it can be aws-multi-eni-controller or multus-function"}},
		"a kubeconfig that is missing":     {[]string{"why", "--kubeconfig", "/does/not/exist"}, []string{"find the Kubernetes API", "set KUBECONFIG or --kubeconfig"}},
		"an unknown context":               {[]string{"why", "--context", "production"}, []string{"production", "set KUBECONFIG or --kubeconfig"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := run(t, "", tc.args...)
			if r.failure == nil {
				t.Fatalf("it did not fail, and printed:\n%s", r.out)
			}
			wants(t, r.failure.Error(), tc.want...)
			if r.out != "" {
				t.Errorf("printed beside the error:\n%s", r.out)
			}
		})
	}
}

func TestWhatMayNotBeReadIsNamed(t *testing.T) {
	cases := map[string]struct {
		path string
		args []string
		want string
	}{
		"NodeENIs for why":         {"/nodeenis", []string{"why"}, "list NodeENIs: "},
		"nodes for topology":       {"/nodes", []string{"topology"}, "list Nodes: "},
		"interfaces for why":       {"/networkinterfaces", []string{"why", "multus"}, "list NetworkInterfaces: "},
		"the namespace for leaks":  {"/kube-system", []string{"leaks"}, "or set --cluster-name"},
		"the namespace for import": {"/kube-system", []string{"import"}, "which names the cluster in EC2 tags"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := readyCluster(t)
			withEC2(t)
			c.denied = []string{tc.path}
			r := run(t, "", tc.args...)
			if r.failure == nil {
				t.Fatalf("it did not fail, and printed:\n%s", r.out)
			}
			wants(t, r.failure.Error(), tc.want, "forbidden", "user test has no such role")
		})
	}
}

func TestAClusterWithoutTheDefinitions(t *testing.T) {
	c := newCluster(t)
	c.answers["/apis"] = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	c.absent = []string{"/apis/networking.k8s.aws/v1alpha1"}
	r := run(t, "", "why")
	if r.failure == nil {
		t.Fatal("it did not fail")
	}
	wants(t, r.failure.Error(), "the cluster does not know NodeENIs: install the definitions", "deploy/crds")
}

func TestABlockedInterfaceIsExplainedEverywhere(t *testing.T) {
	c := readyCluster(t)
	const message = "no subnet of the NodeENI is in us-east-1a; add one"
	c.block("NoSubnetInZone", message)
	for _, args := range [][]string{{"why"}, {"why", "multus"}, {"why", "node-a1"}, {"why", nameOfMultus}, {"node", "node-a1"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			withoutCredentials(t)
			wants(t, succeeds(t, args...), "✗ NoSubnetInZone — multus on node-a1", "no subnet of the NodeENI is in us-east-1a\n", "→ add one")
		})
	}
	wants(t, succeeds(t, "topology"), "✗   card 0 device 2   multus   NoSubnetInZone")
}

func TestWhyNamesWhatDelaysARemoval(t *testing.T) {
	c := readyCluster(t)
	var n v1alpha1.NodeENI
	must(t, c.Get(t.Context(), client.ObjectKey{Name: "multus"}, &n))
	n.Status.Attachments = []v1alpha1.Attachment{{
		NodeID: "node-a1", ENIID: "eni-00000000000000001", Status: "attached", Reason: "EvictionRefused",
		Message: "a PodDisruptionBudget refuses the eviction of pod upf/a; change the budget",
	}}
	c.write(&n)
	c.change(func(i *v1alpha1.NetworkInterface) { i.Status.Node.Open = true })
	must(t, c.Delete(t.Context(), &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: nameOfMultus}}))
	for _, args := range [][]string{{"why"}, {"why", "multus"}, {"why", "node-a1"}, {"why", nameOfMultus}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			withoutCredentials(t)
			wants(t, succeeds(t, args...), "EvictionRefused — multus on node-a1", "refuses the eviction of pod upf/a\n", "→ change the budget")
		})
	}
}

func TestANodeThatIsGoneStaysVisible(t *testing.T) {
	c := readyCluster(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a1"}}
	must(t, c.Delete(t.Context(), node))
	wants(t, succeeds(t, "why", "node-a1"), "There is no Node of that name any more", "until EC2 confirms that its interfaces are gone")
	wants(t, succeeds(t, "why"), "1 node, 1 with interfaces")
}

func TestPausedObjectsAndThoseThatNoControllerObserved(t *testing.T) {
	cases := map[string]struct {
		change func(*cluster, *v1alpha1.NodeENI)
		why    string
	}{
		"paused": {func(_ *cluster, n *v1alpha1.NodeENI) {
			n.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"}
		}, "It is paused: nothing is made, changed or removed for it."},
		"no controller has taken it up": {func(_ *cluster, n *v1alpha1.NodeENI) { n.Finalizers = nil }, "No controller has taken it up."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			n := multus()
			tc.change(c, n)
			c.put(n)
			wants(t, succeeds(t, "why"), tc.why)
			wants(t, succeeds(t, "why", "nodeeni/multus"), tc.why)
		})
	}
}

func TestNamesAreCompleted(t *testing.T) {
	readyCluster(t)
	cases := map[string]struct {
		args []string
		want string
	}{
		"why":    {[]string{"__complete", "why", ""}, "multus\nnode-a1\nnode-b1\n" + nameOfMultus + "\n:4\n"},
		"node":   {[]string{"__complete", "node", ""}, "node-a1\nnode-b1\n:4\n"},
		"format": {[]string{"__complete", "topology", "-o", ""}, "svg\nwide\njson\nyaml\n:4\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, succeeds(t, tc.args...)); diff != "" {
				t.Errorf("completions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExamplesCallTheProgramByItsName(t *testing.T) {
	for _, program := range []string{"kubectl eni", "multieni"} {
		for _, c := range commands(program) {
			if !strings.Contains(c.Example, "  "+program+" "+c.Name()) {
				t.Errorf("%s: its examples do not call %q:\n%s", c.Name(), program, c.Example)
			}
			if program == "multieni" && strings.Contains(c.Example, "kubectl eni") {
				t.Errorf("%s: an example calls kubectl eni:\n%s", c.Name(), c.Example)
			}
		}
	}
}
