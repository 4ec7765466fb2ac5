// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/cli/kubectleni"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/test/synctest/kubeapi"
)

// cluster is an API server in memory. A test can replace its answers.
type cluster struct {
	client.Client
	t    *testing.T
	api  *kubeapi.Server
	file string
	// denied are path suffixes that the user has no permission for, each for all methods or for one after a "#".
	denied []string
	// absent are path suffixes of objects that the API server does not have.
	absent []string
	// answers are the documents of kinds that the server in memory does not store, by path.
	answers map[string]any
	// dryRuns are the bodies of the requests with dryRun=All, which change nothing.
	dryRuns []string
}

// newCluster starts a cluster without nodes, to which the default kubeconfig points.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, api: kubeapi.New(), answers: map[string]any{}}
	maps.Copy(c.answers, discovery())
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.file = filepath.Join(t.TempDir(), "kubeconfig")
	config := `{apiVersion: v1, kind: Config, current-context: test, contexts: [{name: test, context: {cluster: test, user: test}}],
users: [{name: test, user: {}}], clusters: [{name: test, cluster: {server: "` + server.URL + `"}}]}`
	must(t, os.WriteFile(c.file, []byte(config), 0o600))
	t.Setenv("KUBECONFIG", c.file)
	t.Setenv("COLUMNS", "")
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	var err error
	c.Client, err = client.New(kubeapi.Config(c.api), client.Options{Scheme: scheme})
	must(t, err)
	return c
}

// discovery serves the API groups that doctor and import read in addition to those of the server in memory.
func discovery() map[string]any {
	group := func(name, version string) metav1.APIGroup {
		v := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version, Version: version}
		return metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
	}
	global := []string{"ClusterRoleBinding", "CSINode"}
	resources := func(version string, kinds ...string) metav1.APIResourceList {
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version}
		for _, kind := range kinds {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: !slices.Contains(global, kind), Verbs: metav1.Verbs{"get", "list"},
			})
		}
		return list
	}
	return map[string]any{
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{
			group("apps", "v1"), group("rbac.authorization.k8s.io", "v1"), group("coordination.k8s.io", "v1"), group("networking.k8s.aws", "v1alpha1"),
			group("events.k8s.io", "v1"), group("storage.k8s.io", "v1"),
		}},
		"/apis/apps/v1":                                          resources("apps/v1", "Deployment", "DaemonSet"),
		"/apis/rbac.authorization.k8s.io/v1":                     resources("rbac.authorization.k8s.io/v1", "RoleBinding", "ClusterRoleBinding"),
		"/apis/storage.k8s.io/v1":                                resources("storage.k8s.io/v1", "CSINode"),
		"/apis/storage.k8s.io/v1/csinodes":                       list("storage.k8s.io/v1", "CSINodeList"),
		"/apis/apps/v1/deployments":                              list("apps/v1", "DeploymentList"),
		"/apis/rbac.authorization.k8s.io/v1/rolebindings":        list("rbac.authorization.k8s.io/v1", "RoleBindingList"),
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": list("rbac.authorization.k8s.io/v1", "ClusterRoleBindingList"),
	}
}

// list is a list of a kind with items.
func list(version, kind string, items ...any) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{}, "items": append([]any{}, items...)}
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, path := range c.denied {
		path, method, named := strings.Cut(path, "#")
		if strings.HasSuffix(r.URL.Path, path) && (!named || r.Method == method) {
			refusal := apierrors.NewForbidden(schema.GroupResource{Resource: strings.TrimPrefix(path, "/")}, "", fmt.Errorf("user test has no such role"))
			refusal.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			reply(w, http.StatusForbidden, refusal.ErrStatus)
			return
		}
	}
	for _, path := range c.absent {
		if strings.HasSuffix(r.URL.Path, path) {
			http.NotFound(w, r)
			return
		}
	}
	if answer, known := c.answers[r.URL.Path]; known {
		reply(w, http.StatusOK, answer)
		return
	}
	if r.URL.Query().Get("dryRun") == metav1.DryRunAll {
		object := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			c.t.Error(err)
		}
		if r.Method == http.MethodPost { // the API server gives the object that it does not keep a UID as well
			object["metadata"].(map[string]any)["uid"] = "00000000-0000-4000-8000-00000000dead"
		}
		c.dryRuns = append(c.dryRuns, r.Method+" "+r.URL.Path)
		reply(w, http.StatusOK, object)
		return
	}
	answer, err := c.api.RoundTrip(r)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		c.t.Error(err)
	}
}

func reply(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the client reports a broken answer
}

// put creates an object with its status.
func (c *cluster) put(object client.Object) {
	c.t.Helper()
	want := object.DeepCopyObject().(client.Object)
	must(c.t, c.Create(c.t.Context(), object))
	if _, isNode := object.(*corev1.Node); isNode {
		return
	}
	want.SetUID(object.GetUID())
	c.write(want)
}

// node puts a node of the example world with labels, as "ng=multi-eni".
func (c *cluster) node(name, zone, instanceID string, labels map[string]string) {
	c.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.xlarge"}}}
	maps.Copy(node.Labels, labels)
	node.Spec.ProviderID = "aws:///" + zone + "/" + instanceID
	c.put(node)
}

// multus is a NodeENI for the nodes with the label ng=multi-eni.
func multus() *v1alpha1.NodeENI {
	n := &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "multus", Finalizers: []string{v1alpha1.Finalizer}}}
	n.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"ng": "multi-eni"}
	n.Spec.SubnetID, n.Spec.SecurityGroupIDs, n.Spec.DeviceIndex = "subnet-0f59b4f14737be9ad", []string{"sg-05da196f3314d4af8"}, 2
	return n
}

func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

// volumes is the count of the EBS CSI driver on node-a1 and other nodes.
func volumes(count int, others ...string) map[string]any {
	var nodes []any
	for _, name := range append([]string{"node-a1"}, others...) {
		nodes = append(nodes, map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"drivers": []any{map[string]any{
			"name": "ebs.csi.aws.com", "nodeID": name, "topologyKeys": []any{}, "allocatable": map[string]any{"count": count},
		}}}})
	}
	return list("storage.k8s.io/v1", "CSINodeList", nodes...)
}

const csiNodes = "/apis/storage.k8s.io/v1/csinodes"

// readyCluster has node-a1 with the interface of NodeENI multus, and node-b1 that no NodeENI selects.
func readyCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.node("node-a1", "us-east-1a", "i-0a10000000000000a", map[string]string{"ng": "multi-eni"})
	c.node("node-b1", "us-east-1b", "i-0a10000000000000b", map[string]string{"ng": "other"})
	n := multus()
	n.Status = v1alpha1.NodeENIStatus{
		ObservedGeneration: 1, Nodes: 1, Desired: 1, Attached: 1, Ready: 1, Conditions: []metav1.Condition{condition(metav1.ConditionTrue, "Attached", "all is attached")},
	}
	c.put(n)
	c.put(interfaceOfMultus(n))
	return c
}

// nameOfMultus is the name of the NetworkInterface of NodeENI multus on node-a1.
const nameOfMultus = "multus-i-0a10000000000000a-0"

// interfaceOfMultus is that object, as declared.
func interfaceOfMultus(n *v1alpha1.NodeENI) *v1alpha1.NetworkInterface {
	i := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: nameOfMultus, Finalizers: []string{v1alpha1.InterfaceFinalizer}}}
	i.Spec = v1alpha1.NetworkInterfaceSpec{
		InstanceID: "i-0a10000000000000a", Zone: "us-east-1a", Origin: v1alpha1.OriginDeclared, NodeName: "node-a1",
		NodeENI: v1alpha1.NodeENIReference{Name: "multus", UID: n.UID, Generation: 1}, Slot: v1alpha1.InterfaceSlot{DeviceIndex: 2},
		Subnets:          []v1alpha1.InterfaceSubnet{{ID: "subnet-0f59b4f14737be9ad", CIDR: "10.0.64.0/20"}},
		SecurityGroupIDs: []string{"sg-05da196f3314d4af8"}, Required: true, Link: &v1alpha1.LinkSettings{},
	}
	i.Status = v1alpha1.NetworkInterfaceStatus{
		ObservedGeneration: 1, Phase: v1alpha1.PhaseAttached, Conditions: []metav1.Condition{condition(metav1.ConditionTrue, "Attached", "it is attached")},
		ENIID: "eni-00000000000000001", AttachmentID: "eni-attach-1", SubnetID: "subnet-0f59b4f14737be9ad", MACAddress: "02:00:00:00:00:01",
		Addresses: v1alpha1.InterfaceAddresses{PrivateIP: "10.0.64.4"}, Slot: &v1alpha1.InterfaceSlot{DeviceIndex: 2}, Evidence: v1alpha1.EvidenceCreated,
		Node: &v1alpha1.NodeReport{
			Agent: v1alpha1.AgentProcess{BootID: "boot", ProcessID: "process"}, ObservedGeneration: 1,
			Link: &v1alpha1.LinkReport{State: v1alpha1.LinkReady, Reason: "Configured", Name: "ens7", MTU: 9001},
		},
	}
	return i
}

// change changes the status of the interface of the ready cluster.
func (c *cluster) change(edit func(*v1alpha1.NetworkInterface)) {
	c.t.Helper()
	var i v1alpha1.NetworkInterface
	must(c.t, c.Get(c.t.Context(), client.ObjectKey{Name: nameOfMultus}, &i))
	edit(&i)
	c.write(&i)
}

// block makes the only interface of the ready cluster blocked.
func (c *cluster) block(reason, message string) {
	c.t.Helper()
	var n v1alpha1.NodeENI
	must(c.t, c.Get(c.t.Context(), client.ObjectKey{Name: "multus"}, &n))
	refused := []metav1.Condition{condition(metav1.ConditionFalse, reason, message)}
	n.Status.Attached, n.Status.Ready, n.Status.Blocked, n.Status.Conditions = 0, 0, 1, refused
	c.write(&n)
	blocked := interfaceOfMultus(&n)
	must(c.t, c.Patch(c.t.Context(), blocked.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	must(c.t, c.Delete(c.t.Context(), blocked.DeepCopy()))
	blocked.Status = v1alpha1.NetworkInterfaceStatus{ObservedGeneration: 1, Phase: v1alpha1.PhaseBlocked, Conditions: refused}
	c.put(blocked)
}

// withEC2 starts a simulated AWS with the example world and further interfaces, and configures the SDK for it.
func withEC2(t *testing.T, interfaces ...ec2.WorldInterface) *awssim.Simulator {
	t.Helper()
	world := awssim.ExampleWorld()
	world.NetworkInterfaces = interfaces
	sim, err := awssim.New(awssim.Options{World: world, Behavior: &ec2.Behavior{}, ServiceBehavior: &awssim.ServiceBehavior{}})
	must(t, err)
	server, err := awssim.Listen(t.Context(), "127.0.0.1:0", sim)
	must(t, err)
	t.Cleanup(func() { server.Close() })
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL(), "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any",
	} {
		t.Setenv(name, value)
	}
	return sim
}

// withoutCredentials removes all sources of credentials of the SDK.
func withoutCredentials(t *testing.T) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
	} {
		t.Setenv(name, value)
	}
}

// result is the output and the error of a command.
type result struct {
	out, err string
	failure  error
}

// run executes a command as kubectl eni would, with an answer on its standard input.
func run(t *testing.T, input string, args ...string) result {
	t.Helper()
	root := &cobra.Command{Use: "eni", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(kubectleni.Group())
	root.AddCommand(kubectleni.Commands("kubectl eni")...)
	var out, errs bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(input))
	root.SetOut(&out)
	root.SetErr(&errs)
	err := root.ExecuteContext(t.Context())
	return result{out.String(), errs.String(), err}
}

// succeeds runs a command that must not fail, and returns its output.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	r := run(t, "", args...)
	if r.failure != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), r.failure, r.out, r.err)
	}
	return r.out
}

// wants reports each text that is missing.
func wants(t *testing.T, got string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			t.Errorf("%q is missing in:\n%s", text, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write replaces the status of an object.
func (c *cluster) write(object client.Object) {
	c.t.Helper()
	object.SetResourceVersion("")
	must(c.t, status.Write(c.t.Context(), c.Client, "test", object))
}

func commands(program string) []*cobra.Command { return kubectleni.Commands(program) }
