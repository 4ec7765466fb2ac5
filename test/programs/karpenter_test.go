// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/config/crd"
	"github.com/multieni/multieni/internal/cli/kubectleni"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/test/size"
)

// The NodeENI of docs/autoscaling.md, and what its pods request.
const (
	networkN3 = `
apiVersion: networking.k8s.aws/v1alpha1
kind: NodeENI
metadata: {name: n3}
spec:
  nodeSelector: {ng: upf}
  subnetIDs: [subnet-0f59b4f14737be9ad]
  securityGroupIDs: [sg-05da196f3314d4af8]
  pods: {attachment: IPVLAN, ipv4: {prefixes: {min: 1, max: 4}}}
`
	request = `{limits: {addresses.networking.k8s.aws/n3: 1}}`
)

// printedOnPage returns the manifest of a kind in docs/autoscaling.md.
func printedOnPage(t *testing.T, kind string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/autoscaling.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, "\nkind: "+kind+"\n") {
			return block
		}
	}
	t.Fatalf("docs/autoscaling.md has no %s", kind)
	return ""
}

// karpenterCluster is an API server with the definitions of Karpenter and ours, and Karpenter's scheduling.
type karpenterCluster struct {
	client.Client
	t          *testing.T
	kubeconfig string
	program    string
}

// newKarpenterCluster starts the API server and builds the program.
func newKarpenterCluster(t *testing.T) karpenterCluster {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	k := karpenterCluster{t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), program: filepath.Join(t.TempDir(), "karpenter")}
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "karpenter", "-o", k.program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-C", "karpenter", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter")
	dir, err := list.Output()
	must(err)
	programs, err := assets.Dir(t.Context(), os.Stderr)
	must(err)
	ours, err := crd.Definitions()
	must(err)
	server := &envtest.Environment{
		BinaryAssetsDirectory: programs, CRDs: ours, CRDDirectoryPaths: []string{filepath.Join(strings.TrimSpace(string(dir)), "pkg/apis/crds")},
	}
	config, err := server.Start()
	must(err)
	t.Cleanup(func() { _ = server.Stop() })
	must(os.WriteFile(k.kubeconfig, server.KubeConfig, 0o600))
	k.Client, err = client.New(config, client.Options{})
	must(err)
	return k
}

// apply creates an object of a manifest. The API server checks it against the definition of its kind.
func (k karpenterCluster) apply(manifest string) *unstructured.Unstructured {
	k.t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &object.Object); err != nil {
		k.t.Fatal(err)
	}
	if err := k.Create(k.t.Context(), object); err != nil {
		k.t.Fatalf("%v\n%s", err, manifest)
	}
	return object
}

// fresh removes the pods and the overlays of the case before.
func (k karpenterCluster) fresh() {
	k.t.Helper()
	overlay := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay"}}
	if err := k.DeleteAllOf(k.t.Context(), overlay); err != nil {
		k.t.Fatal(err)
	}
	if err := k.DeleteAllOf(k.t.Context(), &corev1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0)); err != nil {
		k.t.Fatal(err)
	}
}

// pending creates pods like that of the page, which the scheduler has found no node for.
func (k karpenterCluster) pending(apart bool, resources string, n int) {
	k.t.Helper()
	printed := printedOnPage(k.t, "Pod")
	for i := range n {
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict([]byte(printed), &pod); err != nil {
			k.t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict([]byte(resources), &pod.Spec.Containers[0].Resources); err != nil {
			k.t.Fatal(err)
		}
		if pod.Namespace = "default"; !apart {
			pod.Spec.Affinity = nil
		}
		pod.Name += "-" + fmt.Sprint(i)
		if err := k.Create(k.t.Context(), &pod); err != nil {
			k.t.Fatal(err)
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		if err := k.Status().Update(k.t.Context(), &pod); err != nil {
			k.t.Fatal(err)
		}
	}
}

// printed returns what a command of kubectl eni prints.
func (k karpenterCluster) printed(arguments ...string) string {
	k.t.Helper()
	k.t.Setenv("KUBECONFIG", k.kubeconfig)
	root := &cobra.Command{Use: "eni", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(kubectleni.Group())
	root.AddCommand(kubectleni.Commands("kubectl eni")...)
	var out, notes bytes.Buffer
	root.SetArgs(arguments)
	root.SetOut(&out)
	root.SetErr(&notes)
	if err := root.ExecuteContext(k.t.Context()); err != nil {
		k.t.Fatalf("%v: %v\n%s", arguments, err, notes.String())
	}
	return out.String()
}

// launches returns the number of pods on each node that Karpenter would launch, and what it says about the others.
func (k karpenterCluster) launches() (pods []int, refused string) {
	k.t.Helper()
	made := k.decides()
	for name, ready := range made.Overlays {
		if ready != "True" {
			k.t.Errorf("Karpenter refuses NodeOverlay %s: %s", name, ready)
		}
	}
	for _, node := range made.Nodes {
		pods = append(pods, len(node.Pods))
	}
	slices.Sort(pods)
	for _, why := range made.Refused {
		refused = why
	}
	return pods, refused
}

// decision is what Karpenter decides.
type decision struct {
	Nodes []struct {
		Types []string
		Pods  []string
	}
	Refused, Overlays map[string]string
}

// decides lets Karpenter evaluate the NodeOverlays, and returns its decision about the pods.
func (k karpenterCluster) decides() (made decision) {
	k.t.Helper()
	decide := exec.CommandContext(k.t.Context(), k.program, "m6i.large=29", "m6i.xlarge=58", "t3.micro=4")
	decide.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig)
	var logs bytes.Buffer
	decide.Stderr = &logs
	said, err := decide.Output()
	k.t.Logf("%s%s", logs.String(), said)
	if err != nil {
		k.t.Fatalf("%v: %v", decide.Args, err)
	}
	if err := json.Unmarshal(said, &made); err != nil {
		k.t.Fatalf("%v\n%s", err, said)
	}
	return made
}

// A pod that requests an address brings a node with the NodeOverlay that kubectl eni autoscaling prints, and none with
// another one.
func TestKarpenterLaunchesNodesForAddresses(t *testing.T) {
	size.NeedsAll(t, "Karpenter takes minutes to build")
	k := newKarpenterCluster(t)
	k.apply(networkN3)
	pool := strings.Replace(printedOnPage(t, "NodePool"), "requirements:\n", "requirements:\n      - {key: tier, operator: In, values: [core]}\n", 1)
	k.apply(pool)
	overlay := k.printed("autoscaling", "n3", "--karpenter", "--nodepool", "upf", "--instance-types", "m6i.large,m6i.xlarge")
	if page := printedOnPage(t, "NodeOverlay"); !strings.HasSuffix(overlay, "\n"+page) {
		t.Errorf("docs/autoscaling.md has\n%s\nand the command prints\n%s", page, overlay)
	}
	const lacking = "addresses.networking.k8s.aws/n3" // in what Karpenter says about a pod without a node
	for name, c := range map[string]struct {
		overlay   string
		resources string
		pods      int
		apart     bool
		want      []int
		refused   string
	}{
		"the overlay as printed":                 {overlay, request, 2, false, []int{2}, ""},
		"17 pods for the 16 addresses of a node": {overlay, request, 17, false, []int{1, 16}, ""},
		"no overlay":                             {"", request, 1, false, nil, lacking},
		"an overlay of another NodePool":         {strings.ReplaceAll(overlay, "- upf", "- smf"), request, 1, false, nil, lacking},
		"an overlay of another network":          {strings.ReplaceAll(overlay, "k8s.aws/n3", "k8s.aws/n6"), request, 1, false, nil, lacking},
		"an overlay of types that the NodePool does not launch": {
			strings.NewReplacer("- m6i.xlarge\n", "", "- m6i.large", "- t3.micro").Replace(overlay), request, 1, false, nil, lacking,
		},
		"an overlay of a label that the NodePool only requires": {
			strings.NewReplacer("karpenter.sh/nodepool", "tier", "- upf", "- core").Replace(overlay), request, 1, false, nil, lacking,
		},
		"no overlay and no request": {"", "{}", 29, false, []int{29}, ""},
		"one pod on each node":      {"", "{}", 3, true, []int{1, 1, 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := k
			k.t = t
			k.fresh()
			if c.overlay != "" {
				k.apply(c.overlay)
			}
			k.pending(c.apart, c.resources, c.pods)
			pods, refused := k.launches()
			if diff := cmp.Diff(c.want, pods); diff != "" {
				t.Errorf("pods on each new node (-want +got):\n%s", diff)
			}
			if (c.refused == "") != (refused == "") || !strings.Contains(refused, c.refused) {
				t.Errorf("Karpenter says %q, want %q", refused, c.refused)
			}
		})
	}
}

// Doctor says of each NodeOverlay whether Karpenter uses it, and whether nodes have what it promises.
func TestDoctorKnowsWhatKarpenterSaysAboutNodeOverlays(t *testing.T) {
	size.NeedsAll(t, "Karpenter takes minutes to build")
	k := newKarpenterCluster(t)
	_, environment := simulate(t, 20)
	for _, variable := range environment {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value)
		}
	}
	k.apply(networkN3)
	k.apply(printedOnPage(t, "NodePool"))
	overlay := k.printed("autoscaling", "n3", "--karpenter", "--nodepool", "upf", "--instance-types", "m6i.large,m6i.xlarge")
	renamed := func(name string) string { return strings.Replace(overlay, "name: multieni-n3", "name: "+name, 1) }
	for name, c := range map[string]struct {
		overlays  []string
		evaluated bool
		want      string
	}{
		"as printed":              {[]string{overlay}, true, "● NodeOverlay multieni-n3: promises the addresses that nodes have from the start"},
		"not evaluated":           {[]string{overlay}, false, "◐ NodeOverlay multieni-n3: Karpenter has not evaluated it"},
		"of an earlier number":    {[]string{strings.Replace(overlay, `"16"`, `"64"`, 1)}, true, "◐ NodeOverlay multieni-n3: it promises addresses.networking.k8s.aws/n3: 64, and a node has 16"},
		"of a former network":     {[]string{strings.ReplaceAll(overlay, "k8s.aws/n3", "k8s.aws/n6")}, true, "◐ NodeOverlay multieni-n3: it promises addresses.networking.k8s.aws/n6, and no NodeENI"},
		"of a former NodePool":    {[]string{strings.ReplaceAll(overlay, "- upf", "- smf")}, true, "◐ NodeOverlay multieni-n3: it is for NodePool smf, which does not exist"},
		"two with other numbers":  {[]string{renamed("a"), strings.Replace(renamed("b"), `"16"`, `"32"`, 1)}, true, "◐ NodeOverlay a: Karpenter refuses it (Conflict)"},
		"of any NodePool":         {[]string{strings.Replace(overlay, "karpenter.sh/nodepool", "tier", 1)}, true, "● NodeOverlay multieni-n3: promises the addresses"},
		"of another extended one": {[]string{strings.Replace(overlay, "addresses.networking.k8s.aws/n3", "example.com/gpu", 1)}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := k
			k.t = t
			k.fresh()
			for _, manifest := range c.overlays {
				k.apply(manifest)
			}
			if c.evaluated {
				k.decides()
			}
			said := strings.Join(strings.Fields(k.printed("doctor")), " ")
			if !strings.Contains(said, c.want) || c.want == "" && strings.Contains(said, "NodeOverlay") {
				t.Errorf("doctor says no %q:\n%s", c.want, said)
			}
		})
	}
}
