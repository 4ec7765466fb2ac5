// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/cli/kubectleni"
	"github.com/multieni/multieni/internal/core/identity"
)

const clusterName = "test"

// lost is an unattached interface of a NetworkInterface that does not exist.
func lost(id string, age time.Duration) ec2.WorldInterface {
	of := identity.Interface{
		Cluster: clusterName, UID: "gone-uid", Name: "gone-i-0a10000000000000a-0", NodeENI: "gone", Node: "node-a1", InstanceID: "i-0a10000000000000a",
	}
	return ec2.WorldInterface{NetworkInterfaceID: id, SubnetID: "subnet-0f59b4f14737be9ad", Tags: of.Tags(time.Now().Add(-age), nil)}
}

// foreign is an unattached interface that carries no tag of a cluster.
func foreign() ec2.WorldInterface {
	return ec2.WorldInterface{NetworkInterfaceID: "eni-0000000000000000f", SubnetID: "subnet-0f59b4f14737be9ad"}
}

// unattached returns the IDs of the interfaces that are attached to nothing.
func unattached(sim *awssim.Simulator) []string {
	var ids []string
	for _, i := range sim.State().NetworkInterfaces {
		if i.Attachment == nil {
			ids = append(ids, i.NetworkInterfaceID)
		}
	}
	slices.Sort(ids)
	return ids
}

const (
	oldLeak   = "eni-00000000000000001"
	youngLeak = "eni-00000000000000002"
	stranger  = "eni-0000000000000000f"
)

func TestCollectingLeaks(t *testing.T) {
	all := []string{oldLeak, youngLeak, stranger}
	cases := map[string]struct {
		args   []string
		answer string
		fault  *fault.Fault
		fails  string
		says   string
		left   []string
	}{
		"the list alone deletes nothing":       {args: nil, left: all},
		"without an answer nothing is deleted": {args: []string{"--collect"}, fails: "read the answer", left: all},
		"no deletes nothing": {
			args: []string{"--collect"}, answer: "n\n", fails: "nothing was done", says: "Delete 1 interfaces in us-east-1? [y/N]", left: all,
		},
		"an empty line deletes nothing":  {args: []string{"--collect"}, answer: "\n", fails: "nothing was done", left: all},
		"another word deletes nothing":   {args: []string{"--collect"}, answer: "yesterday\n", fails: "nothing was done", left: all},
		"yes deletes what is old enough": {args: []string{"--collect"}, answer: "YES\n", says: "deleted " + oldLeak, left: []string{youngLeak, stranger}},
		"--yes asks nothing":             {args: []string{"--collect", "--yes"}, says: "deleted " + oldLeak, left: []string{youngLeak, stranger}},
		"a refused deletion is an error": {
			args: []string{"--collect", "-y"}, fault: &fault.Fault{Kind: fault.Error, Action: "DeleteNetworkInterface", Code: "UnauthorizedOperation", Status: 403},
			fails: "delete " + oldLeak, left: all,
		},
		"an interface that is gone already is no error": {
			args: []string{"--collect", "-y"}, says: "deleted " + oldLeak,
			fault: &fault.Fault{Kind: fault.Error, Action: "DeleteNetworkInterface", Code: "InvalidNetworkInterfaceID.NotFound", Status: 400}, left: all,
		},
		"an unreadable EC2 is an error": {
			args: []string{"--collect", "-y"}, fault: &fault.Fault{Kind: fault.Error, Action: "DescribeNetworkInterfaces", Code: "UnauthorizedOperation", Status: 403},
			fails: "DescribeNetworkInterfaces", left: all,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			newCluster(t)
			sim := withEC2(t, lost(oldLeak, time.Hour), lost(youngLeak, time.Minute), foreign())
			if tc.fault != nil {
				_, err := sim.AddFault(*tc.fault)
				must(t, err)
			}
			r := run(t, tc.answer, append([]string{"leaks", "--cluster-name", clusterName}, tc.args...)...)
			if (r.failure != nil) != (tc.fails != "") {
				t.Fatalf("failure: %v, want %q", r.failure, tc.fails)
			}
			if r.failure != nil {
				wants(t, r.failure.Error(), tc.fails)
			}
			wants(t, r.err, tc.says)
			if diff := cmp.Diff(tc.left, unattached(sim)); diff != "" {
				t.Errorf("left in EC2 (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLeaksAreListedOnceWithTheirVerdict(t *testing.T) {
	newCluster(t)
	withEC2(t, lost(oldLeak, time.Hour), lost(youngLeak, time.Minute), foreign())
	got := succeeds(t, "leaks", "--cluster-name", clusterName)
	wants(t, got, "2 of 2 interfaces of cluster test have no NetworkInterface.", "can be deleted", "younger than", "kubectl eni leaks --collect")
	for id, times := range map[string]int{oldLeak: 1, youngLeak: 1, stranger: 0} {
		if n := strings.Count(got, id); n != times {
			t.Errorf("%s is listed %d times, want %d:\n%s", id, n, times, got)
		}
	}
	wants(t, succeeds(t, "leaks", "--cluster-name", "another"), "No leak. Cluster another owns 0 interfaces")
	if r := run(t, "", "leaks", "--cluster-name", "another", "--collect"); r.failure != nil || r.err != "nothing to collect\n" {
		t.Errorf("%v, %q", r.failure, r.err)
	}
	var view struct {
		Cluster string
		Owned   int
		Leaked  []struct {
			ENIID       string
			Collectable bool
		}
	}
	must(t, json.Unmarshal([]byte(succeeds(t, "leaks", "--cluster-name", clusterName, "-o", "json")), &view))
	if view.Cluster != clusterName || view.Owned != 2 || len(view.Leaked) != 2 {
		t.Errorf("JSON: %+v", view)
	}
}

func TestTheENIOfANetworkInterfaceIsNoLeak(t *testing.T) {
	readyCluster(t)
	withEC2(t, lost(oldLeak, time.Hour))
	wants(t, succeeds(t, "leaks", "--cluster-name", clusterName), "No leak. Cluster test owns 1 interface, and each has its NetworkInterface.")
}

func TestWithoutCredentials(t *testing.T) {
	c := readyCluster(t)
	withoutCredentials(t)
	manifest := write(t, manifestOf("multus"))
	for _, args := range [][]string{{"leaks"}, {"plan", "-f", manifest}, {"import"}} {
		t.Run(args[0]+" fails", func(t *testing.T) {
			r := run(t, "", args...)
			if r.failure == nil {
				t.Fatal("it did not fail")
			}
			wants(t, r.failure.Error(), "find AWS credentials: set AWS_PROFILE, or log in with aws sso login")
		})
	}
	t.Run("node shows what the cluster knows", func(t *testing.T) {
		wants(t, succeeds(t, "node", "node-a1"), "eni-00000000000000001", "ens7 ready mtu 9001",
			"Only multieni's own interfaces are shown, since EC2 could not be asked", "find AWS credentials")
	})
	t.Run("a node outside EC2 has no slots to read", func(t *testing.T) {
		fargate := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fargate"}}
		c.put(fargate)
		wants(t, succeeds(t, "node", "fargate"), "the node is not an EC2 instance", "no NodeENI wants an interface here")
	})
}

func TestTheSlotsOfANode(t *testing.T) {
	readyCluster(t)
	sim := withEC2(t)
	wants(t, succeeds(t, "node", "node-a1"), "i-0a10000000000000a, m5.xlarge, us-east-1a", "card 0  ■□■□  2 of 4 used",
		"primary", "multus[0]", "10.0.64.4", "ens7 ready mtu 9001")
	wants(t, succeeds(t, "node", "node-b1"), "card 0  ■□□□  1 of 4 used", "no NodeENI wants an interface here")
	_, err := sim.AddFault(fault.Fault{Kind: fault.Error, Action: "DescribeInstances", Code: "UnauthorizedOperation", Status: 403})
	must(t, err)
	wants(t, succeeds(t, "node", "node-b1"), "EC2 could not be asked", "UnauthorizedOperation")
}

// manifestOf is a NodeENI for the nodes with ng=multi-eni.
func manifestOf(name string) string {
	return `apiVersion: networking.k8s.aws/v1alpha1
kind: NodeENI
metadata: {name: ` + name + `}
spec:
  nodeSelector: {ng: multi-eni}
  subnetID: subnet-0f59b4f14737be9ad
  securityGroupIDs: [sg-05da196f3314d4af8]
  deviceIndex: 2
  deviceIndexPolicy: Strict
  deleteOnTermination: true
`
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	must(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func TestPlanOfANewNodeENI(t *testing.T) {
	c := newCluster(t)
	c.node("node-a1", "us-east-1a", "i-0a10000000000000a", map[string]string{"ng": "multi-eni"})
	c.node("node-a2", "us-east-1a", "i-0a20000000000000a", map[string]string{"ng": "multi-eni"})
	c.node("node-b1", "us-east-1b", "i-0a10000000000000b", map[string]string{"ng": "multi-eni"})
	c.node("node-c1", "us-east-1c", "i-0a10000000000000c", map[string]string{"ng": "other"})
	c.node("fargate", "", "", map[string]string{"ng": "multi-eni"})
	sim := withEC2(t)
	before := len(sim.State().NetworkInterfaces)
	got := succeeds(t, "plan", "-f", write(t, "kind: ConfigMap\napiVersion: v1\n---\n"+manifestOf("multus")))
	wants(t, got, "node-a1, node-a2\n", "+ multus: create", "and the same on 1 other node", "node-b1\n  ✗ multus: NoSubnetInZone",
		"· fargate is skipped", "2 to create, 0 to change, 0 to remove, 1 blocked, 0 drifted; 0 nodes unchanged.",
		"6 calls to EC2: AttachNetworkInterface 2, CreateNetworkInterface 2, ModifyNetworkInterfaceAttribute 2.")
	if strings.Contains(got, "node-c1") {
		t.Errorf("a node that is not selected is planned for:\n%s", got)
	}
	var none v1alpha1.NodeENIList
	must(t, c.List(t.Context(), &none))
	if after := len(sim.State().NetworkInterfaces); after != before || len(none.Items) != 0 {
		t.Errorf("a plan changed something: %d interfaces before, %d after, %d NodeENIs", before, after, len(none.Items))
	}
	if diff := cmp.Diff([]string{"POST /apis/networking.k8s.aws/v1alpha1/nodeenis"}, c.dryRuns); diff != "" {
		t.Errorf("dry runs (-want +got):\n%s", diff)
	}
}

// kubectl get nodeenis -o yaml prints a List; deployments have folders.
func TestPlanOfAListAndOfAFolder(t *testing.T) {
	c := newCluster(t)
	c.node("node-a1", "us-east-1a", "i-0a10000000000000a", map[string]string{"ng": "multi-eni"})
	withEC2(t)
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(manifestOf("multus")), "\n", "\n  ") + "\n"
	r := run(t, list, "plan", "-f", "-")
	must(t, r.failure)
	wants(t, r.out, "+ multus: create")
	wants(t, succeeds(t, "plan", "-f", filepath.Dir(write(t, manifestOf("multus")))), "+ multus: create")
}

// TestPlanWithoutRoom plans for two nodes in a subnet that a reservation holds whole.
func TestPlanWithoutRoom(t *testing.T) {
	c := newCluster(t)
	for n, id := range []string{"i-0a10000000000000a", "i-0a20000000000000a"} {
		c.node(fmt.Sprintf("node-%d", n), "us-east-1a", id, map[string]string{"ng": "multi-eni"})
	}
	withEC2(t)
	_, err := sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(os.Getenv("AWS_ENDPOINT_URL")),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}).CreateSubnetCidrReservation(t.Context(), &sdk.CreateSubnetCidrReservationInput{
		SubnetId: aws.String("subnet-0f59b4f14737be9ad"), Cidr: aws.String("10.0.64.0/20"), ReservationType: types.SubnetCidrReservationTypeExplicit,
	})
	must(t, err)
	wants(t, succeeds(t, "plan", "-f", write(t, manifestOf("multus"))),
		"! subnet-0f59b4f14737be9ad (us-east-1a) is too small: multus needs 2 addresses there, and 0 are free")
}

// TestPlanOnANodeWithManyVolumes adds a second interface where the EBS CSI driver leaves an attachment for one.
func TestPlanOnANodeWithManyVolumes(t *testing.T) {
	c := newCluster(t)
	c.node("node-a1", "us-east-1a", "i-0a10000000000000a", map[string]string{"ng": "multi-eni"})
	withEC2(t)
	manifest := write(t, manifestOf("multus"))
	before := succeeds(t, "plan", "-f", manifest)
	c.answers[csiNodes] = volumes(26)
	wants(t, succeeds(t, "plan", "-f", manifest),
		"! node-a1: the EBS CSI driver offers 26 volumes in addition to 2 interfaces; where both share 28 attachments, 1 volume would stay attaching. Reserve")
	c.answers[csiNodes] = volumes(25)
	if after := succeeds(t, "plan", "-f", manifest); after != before {
		t.Errorf("a plan that leaves volumes their attachments says:\n%s", after)
	}
	c.denied = []string{"/csinodes"}
	wants(t, succeeds(t, "plan", "-f", manifest), "· the volumes of the nodes are not known: list CSINodes: ")
}

// TestPlanNextToTheVPCCNI adds an interface on a node with the VPC CNI.
func TestPlanNextToTheVPCCNI(t *testing.T) {
	c := newCluster(t)
	c.node("node-a1", "us-east-1a", "i-0a10000000000000a", map[string]string{"ng": "multi-eni"})
	withEC2(t)
	manifest := write(t, manifestOf("multus"))
	c.answers[awsNode] = vpcCNI("false")
	wants(t, succeeds(t, "plan", "-f", manifest),
		"· m5.xlarge (1 node): the VPC CNI can have 3 of 4 interfaces, the primary one included: 4 less 1 that it does not manage")
	c.denied = []string{"/daemonsets/aws-node"}
	wants(t, succeeds(t, "plan", "-f", manifest), "· the settings of the VPC CNI are not known: ")
}

func TestPlanOfADeclaredNodeENI(t *testing.T) {
	cases := map[string]struct {
		manifest string
		args     []string
		want     []string
		dryRuns  int
	}{
		"a selector without nodes": {
			strings.Replace(manifestOf("multus"), "ng: multi-eni", "ng: none", 1), nil,
			[]string{"no node carries the labels ng=none, so none gets its interfaces: kubectl label node NODE ng=none", "No call to EC2."}, 1,
		},
		"its deletion": {manifestOf("multus"), []string{"--delete"}, []string{"0 to create"}, 0},
		"a change that nodes do not feel": {
			strings.Replace(manifestOf("multus"), "deviceIndexPolicy: Strict", "required: true", 1), nil, []string{"0 to remove"}, 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := readyCluster(t)
			withEC2(t)
			wants(t, succeeds(t, append([]string{"plan", "-f", write(t, tc.manifest)}, tc.args...)...), tc.want...)
			if len(c.dryRuns) != tc.dryRuns {
				t.Errorf("dry runs: %v, want %d", c.dryRuns, tc.dryRuns)
			}
		})
	}
}

func TestPlansThatCannotBeMade(t *testing.T) {
	cases := map[string]struct {
		manifest string
		args     []string
		denied   string
		want     []string
	}{
		"another kind":             {"kind: ConfigMap\napiVersion: v1\n", nil, "", []string{"manifest.yaml holds no NodeENI of networking.k8s.aws/v1alpha1"}},
		"an unknown field":         {manifestOf("multus") + "  subnet: x\n", nil, "", []string{"manifest.yaml: NodeENI multus: ", `unknown field "spec.subnet"`}},
		"another version":          {strings.Replace(manifestOf("multus"), "v1alpha1", "v1alpha2", 1), nil, "", []string{`NodeENI multus has apiVersion "networking.k8s.aws/v1alpha2"`}},
		"one twice":                {manifestOf("multus") + "---\n" + manifestOf("multus"), nil, "", []string{"NodeENI multus is declared twice"}},
		"not YAML":                 {"kind: [", nil, "", []string{"manifest.yaml: "}},
		"deletion of an unknown":   {manifestOf("user-plane"), []string{"--delete"}, "", []string{"there is no NodeENI user-plane to delete"}},
		"a refused creation":       {manifestOf("user-plane"), nil, "/nodeenis#POST", []string{"NodeENI user-plane would be refused", "forbidden"}},
		"a refused change":         {manifestOf("multus"), nil, "/nodeenis/multus", []string{"the change of NodeENI multus would be refused", "forbidden"}},
		"a malformed instance tag": {manifestOf("multus"), []string{"--instance-tags", "=x"}, "", []string{"instance"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := readyCluster(t)
			withEC2(t)
			if tc.denied != "" {
				c.denied = []string{tc.denied}
			}
			r := run(t, "", append([]string{"plan", "-f", write(t, tc.manifest)}, tc.args...)...)
			if r.failure == nil {
				t.Fatalf("it did not fail, and printed:\n%s", r.out)
			}
			wants(t, r.failure.Error(), tc.want...)
		})
	}
}

func TestADoctorThatCannotReachAWSFails(t *testing.T) {
	readyCluster(t)
	withoutCredentials(t)
	r := run(t, "", "doctor")
	if r.failure != kubectleni.ErrFailed { //nolint:errorlint // the program compares it so
		t.Errorf("failure: %v, want ErrFailed", r.failure)
	}
	wants(t, r.out, "✗ AWS: find AWS credentials", "→ Configure AWS credentials and the region.", "1 failed")
}
